"""All that is known of a run at one moment, as families of numbers with names, units and labels. Pure.

Names follow Prometheus: base units, `_total` for what only grows. Of a living program counters begin at 0 with it, as rates
and restarts are told by; of a store alone they are all that it holds. A family with a label `harness` has at most a few
numbers for each harness; histograms are of all of them together, so that thousands stay cheap.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, TypeAlias

from attrs import field, frozen

from harnesses.budget import FIELDS
from harnesses.charging import AGENTS, THREAD
from harnesses.effects import EffectOutcome
from harnesses.pools import Account
from orchestrator.activity import FEWEST, Facts, Live, activity, limit_of
from orchestrator.buckets import Buckets
from orchestrator.lifecycle import Status
from orchestrator.telemetry.counts import PARTS, Counts
from orchestrator.text import inert

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Sample: TypeAlias = tuple[tuple[str, ...], float]
INTERRUPTED = "interrupted"
_UNTOLD = ("begun",)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,15}")
"""What can be neither a secret nor a control character; most names are so, and are not looked at further."""


@frozen
class Family:
    """Numbers of one kind."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    samples: Sequence[Sample] = ()
    """Values of the labels, and the number."""
    histograms: Sequence[tuple[tuple[str, ...], Buckets]] = ()


@frozen
class HarnessFigures:
    """One harness at this moment."""

    name: str
    status: str
    step: int
    live: Live | None = None
    """What its program says of it."""
    activity: str = ""
    """See `orchestrator.activity`; where it is empty it follows from the other fields."""
    age_s: float | None = None
    """Of the step under way, where it runs."""


@frozen
class ProgramFigures:
    """What only a living program knows."""

    queued: int
    commits_s: Buckets
    batches: Buckets
    uncounted: int
    """Records that are committed, and not in the counts yet."""
    spans_sent: int = 0
    spans_dropped: int = 0


@frozen(kw_only=True)
class Snapshot:
    """All that is known at one moment."""

    store: str
    run: str = ""
    version: str = ""
    counts: Counts
    harnesses: Sequence[HarnessFigures]
    program: ProgramFigures | None = None
    messages_waiting: int | None = None
    approvals_waiting: int | None = None
    accounts: Mapping[str, Account] = field(factory=dict[str, Account])


def families(now: Snapshot) -> Iterator[Family]:
    """Yield every family, those too that have no number yet."""
    info = ("store", "run", "version", "source")
    source = "program" if now.program else "store"
    said = tuple(map(label_of, (now.store, now.run, now.version, source)))
    yield Family("orchestrator_info", "gauge", "What is told of; always 1.", info, [(said, 1.0)])
    yield from _of_harnesses(now.harnesses)
    yield from _of_activity(now)
    yield from _of_each(now.counts)
    yield from _of_all(now.counts)
    if now.program is not None:
        yield from _of_program(now.program)
    yield from _waiting(now)
    yield from _of_budgets(now.accounts)


@lru_cache(maxsize=20_000)
def label_of(name: str) -> str:
    """Return a name as a label: as it is, or inert and told apart from all others that would be the same then."""
    if _PLAIN.fullmatch(name):
        return name
    shown = inert(name)
    return shown if shown == name else f"{shown}~{blake2b(name.encode(errors='surrogatepass'), digest_size=4).hexdigest()}"


def _of_harnesses(harnesses: Sequence[HarnessFigures]) -> Iterator[Family]:
    by_status = Counter(harness.status for harness in harnesses)
    words = dict.fromkeys([*(status.value for status in Status), INTERRUPTED, *by_status])
    name = "orchestrator_status"
    yield Family(name, "gauge", "The status of a harness: 1 for the one it has.", ("harness", "status"), _statuses(harnesses))
    counted = [((label_of(word),), float(by_status[word])) for word in words]
    yield Family("orchestrator_harnesses", "gauge", "How many harnesses have a status.", ("status",), counted)
    steps = [((label_of(harness.name),), float(harness.step)) for harness in harnesses]
    yield Family("orchestrator_harness_step", "gauge", "The number of the last recorded step.", ("harness",), steps)


def _statuses(harnesses: Iterable[HarnessFigures]) -> list[Sample]:
    return [((label_of(harness.name), label_of(harness.status)), 1.0) for harness in harnesses]


def _of_activity(now: Snapshot) -> Iterator[Family]:
    """Tell apart what the status of a harness does not."""
    words = [(one, one.activity or _activity_of(one, now.counts)) for one in now.harnesses]
    name, help = (
        "orchestrator_activity",
        "What a harness is at, such as `hung` or `halted`, where its status does not say it: 1.",
    )
    samples = [((label_of(one.name), label_of(word)), 1.0) for one, word in words if word != one.status]
    yield Family(name, "gauge", help, ("harness", "activity"), samples)
    ages = [((label_of(one.name),), age_s) for one in now.harnesses if (age_s := _age_of(one)) is not None]
    help = "Seconds since the last step was recorded, or the attempt began, of what runs."
    yield Family("orchestrator_step_age_seconds", "gauge", help, ("harness",), ages)


def _age_of(one: HarnessFigures) -> float | None:
    return one.live.age_s if one.live is not None and one.status == Status.RUNNING else one.age_s


def _activity_of(one: HarnessFigures, counts: Counts) -> str:
    """Return the word for a harness of this program, whose usual time of a step is that of its steps so far."""
    tally = counts.harnesses.get(one.name)
    us = (0, 0) if tally is None else (tally.took_us.get("work", 0), tally.steps)
    mean_s = us[0] / us[1] / 1e6 if us[1] >= FEWEST else None
    recent = () if mean_s is None else tuple(place * mean_s for place in range(FEWEST))
    limit_s = limit_of(one.live.timeout_s if one.live else None, recent)
    return activity(Facts(one.status, live=one.live, limit_s=limit_s))


def _of_each(counts: Counts) -> Iterator[Family]:
    each = [(label_of(name), tally) for name, tally in counts.harnesses.items()]
    steps = [((name,), float(tally.steps)) for name, tally in each]
    yield Family("orchestrator_steps_total", "counter", "Steps recorded.", ("harness",), steps)
    restarts = [((name,), float(tally.restarts)) for name, tally in each]
    yield Family("orchestrator_restarts_total", "counter", "Restarts that were ordered.", ("harness",), restarts)
    failures = [((name,), float(tally.failures)) for name, tally in each]
    yield Family("orchestrator_failures_total", "counter", "Attempts that ended with an error.", ("harness",), failures)
    blocked = [((name,), tally.blocked_s) for name, tally in each if tally.blocked_s]
    name = "orchestrator_loop_blocked_seconds_total"
    yield Family(name, "counter", "How long the loop was blocked, more than a second at a time.", ("harness",), blocked)
    last = [((name,), tally.last_step_us / 1e6) for name, tally in each if tally.last_step_us]
    name = "orchestrator_last_step_timestamp_seconds"
    yield Family(name, "gauge", "When the last step was made, seconds since 1970.", ("harness",), last)
    took = [((name, part), us / 1e6) for name, tally in each for part, us in tally.took_us.items()]
    name, help = "orchestrator_step_part_seconds_total", "What the time of the steps went into, by part."
    yield Family(name, "counter", help, ("harness", "part"), took)


def _of_all(counts: Counts) -> Iterator[Family]:
    parts = [((part,), counts.parts[part]) for part in PARTS]
    help = "What the time of each step went into, by part; `commit` is from the yield to the disk."
    yield Family("orchestrator_step_seconds", "histogram", help, ("part",), histograms=parts)
    outcomes = dict.fromkeys([*(one.value for one in EffectOutcome if one.value not in _UNTOLD), *counts.effects])
    effects = [((word,), float(counts.effects[word])) for word in outcomes]
    yield Family("orchestrator_effects_total", "counter", "Effects that ended, by outcome.", ("outcome",), effects)
    begun = [((), float(counts.intents))]
    yield Family("orchestrator_effects_begun_total", "counter", "Effects that were begun.", (), begun)
    words = dict.fromkeys(["requested", "approved", "denied", "reopened", "used", *counts.approvals])
    approvals = [((word,), float(counts.approvals[word])) for word in words]
    yield Family("orchestrator_approvals_total", "counter", "What became of approvals.", ("event",), approvals)
    messages = [((), float(counts.messages))]
    yield Family("orchestrator_messages_total", "counter", "Messages put in mailboxes.", (), messages)
    ends = [((word,), float(number)) for word, number in sorted(counts.ends.items())]
    yield Family("orchestrator_ends_total", "counter", "How attempts ended, by event.", ("event",), ends)


def _of_program(program: ProgramFigures) -> Iterator[Family]:
    help = "How long commits took: one transaction for all that waited."
    yield Family("orchestrator_commit_seconds", "histogram", help, histograms=[((), program.commits_s)])
    help = "How many steps were committed together."
    yield Family("orchestrator_batch_steps", "histogram", help, histograms=[((), program.batches)])
    for name, help, value in (
        ("orchestrator_queue_steps", "Steps, effects and orders that wait for the disk.", program.queued),
        ("orchestrator_uncounted_records", "Records that are committed, and not in these counts yet.", program.uncounted),
    ):
        yield Family(name, "gauge", help, (), [((), float(value))])
    for name, help, value in (
        ("orchestrator_spans_sent_total", "Spans that the exporter has taken.", program.spans_sent),
        ("orchestrator_spans_dropped_total", "Spans that the exporter has not taken.", program.spans_dropped),
    ):
        yield Family(name, "counter", help, (), [((), float(value))])


def _waiting(now: Snapshot) -> Iterator[Family]:
    for name, help, value in (
        ("orchestrator_approvals_waiting", "Requests that wait for a person.", now.approvals_waiting),
        ("orchestrator_messages_waiting", "Messages that no step has used up.", now.messages_waiting),
    ):
        if value is not None:
            yield Family(name, "gauge", help, (), [((), float(value))])


def _of_budgets(accounts: Mapping[str, Account]) -> Iterator[Family]:
    spent: dict[tuple[str, ...], float] = {}
    limits: dict[tuple[str, ...], float] = {}
    used: list[Sample] = []
    for pool, account in accounts.items():
        kind, _, harness = pool.partition("/")
        if pool.startswith(THREAD):
            continue
        if kind == AGENTS:
            amounts = ((name, float(getattr(account.spent, name))) for name in FIELDS)
            used += [((label_of(harness), resource), amount) for resource, amount in amounts if amount]
            continue
        for resource in FIELDS:
            at, limit = (label_of(pool), resource), getattr(account.budget, resource)
            amount = float(getattr(account.spent, resource))
            if amount or limit is not None:
                spent[at] = amount
            if limit is not None:
                limits[at] = float(limit)
    labels = ("pool", "resource")
    help = "What was spent from a budget, over all runs; money in its own currency, time in seconds."
    yield Family("orchestrator_budget_spent", "gauge", help, labels, list(spent.items()))
    help = "What its agents have reported to have used, over all runs: turns, tool calls, tokens, money."
    yield Family("orchestrator_agent_usage", "gauge", help, ("harness", "resource"), used)
    yield Family("orchestrator_budget_limit", "gauge", "What may be spent from it.", labels, list(limits.items()))
