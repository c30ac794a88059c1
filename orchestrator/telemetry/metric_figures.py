"""All metrics of a run at one moment, with names, units and labels. Pure.

Names follow Prometheus: base units, `_total` for counters. The counters of a running program begin at 0 with it, as rates and
restarts need; those of a store alone cover all its records. A metric with a label `harness` has at most a few values for each
harness; histograms cover all harnesses together, so that thousands of harnesses stay cheap.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Literal, TypeAlias

from attrs import evolve, field, frozen

from harnesses.budgets.budget import FIELDS
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import AGENTS, HIDDEN
from harnesses.effects.effect import EffectOutcome
from orchestrator.lifecycle import Status
from orchestrator.recording.histogram import Histogram
from orchestrator.runtime.activity import FEWEST, Facts, Live, activity, limit_of
from orchestrator.telemetry.record_counts import PARTS, Counts
from orchestrator.text.terminal_text import inert

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Sample: TypeAlias = tuple[tuple[str, ...], float]
INTERRUPTED = "interrupted"
_UNTOLD = ("begun",)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,15}")
"""Matches names that need no redaction; most names match and are not examined further."""


@frozen
class Family:
    """A metric and its values."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    samples: Sequence[Sample] = ()
    """Label values, and the number."""
    histograms: Sequence[tuple[tuple[str, ...], Histogram]] = ()


@frozen
class HarnessFigures:
    """One harness at this moment."""

    name: str
    status: str
    step: int
    live: Live | None = None
    """Live data from its program."""
    activity: str = ""
    """See `orchestrator.runtime.activity`; if empty, it is derived from the other fields."""
    age_s: float | None = None
    """Age of the step in progress, seconds; None if the harness is not running."""
    gauges: Mapping[str, float] = field(factory=dict[str, float])
    """What the harness tells of its work; known to its program only."""


@frozen
class ProgramFigures:
    """What only a running program knows."""

    queued: int
    commits_s: Histogram
    batches: Histogram
    uncounted: int
    """Number of committed records that are not counted yet."""
    spans_sent: int = 0
    spans_dropped: int = 0


@frozen(kw_only=True)
class Snapshot:
    """Everything known at one moment."""

    store: str
    run: str = ""
    version: str = ""
    counts: Counts
    harnesses: Sequence[HarnessFigures]
    program: ProgramFigures | None = None
    messages_waiting: int | None = None
    approvals_waiting: int | None = None
    effects_unknown: Mapping[str, int] | None = None
    """How many effects have an unknown outcome, by harness; harnesses without one are left out."""
    accounts: Mapping[str, Account] = field(factory=dict[str, Account])


def families(now: Snapshot) -> Iterator[Family]:
    """Yield every metric, including those without values."""
    source = "program" if now.program else "store"
    said = tuple(map(label_of, (now.store, now.run, now.version, source)))
    labels = "store run version source"
    yield _gauge("orchestrator_info", "The source of these metrics; always 1.", [(said, 1.0)], labels)
    yield from _of_harnesses(now)
    yield from _of_each(now.counts)
    yield from _of_all(now.counts)
    if now.program is not None:
        yield from _of_program(now.program)
    if now.approvals_waiting is not None:
        yield _gauge("orchestrator_approvals_waiting", "Approval requests that wait for an answer.", now.approvals_waiting)
    if now.effects_unknown is not None:
        unknown = [((label_of(name),), float(count)) for name, count in sorted(now.effects_unknown.items())]
        help = "Effects whose outcome is unknown now, of harnesses that have one, until somebody settles them."
        yield _gauge("orchestrator_effects_unknown", help, unknown, "harness")
    if now.messages_waiting is not None:
        yield _gauge("orchestrator_messages_waiting", "Messages that no step has consumed.", now.messages_waiting)
    yield from _of_budgets(now.accounts)


@lru_cache(maxsize=20_000)
def label_of(name: str) -> str:
    """Return a name as a label: unchanged, or without control characters and made unique."""
    if _PLAIN.fullmatch(name):
        return name
    shown = inert(name)
    return shown if shown == name else f"{shown}~{blake2b(name.encode(errors='surrogatepass'), digest_size=4).hexdigest()}"


def _gauge(name: str, help: str, numbers: Sequence[Sample] | float, labels: str = "") -> Family:
    """Return a gauge with several values, or with one value and no labels."""
    samples = numbers if isinstance(numbers, Sequence) else [((), float(numbers))]
    return Family(name, "gauge", help, tuple(labels.split()), samples)


def _counter(name: str, help: str, numbers: Sequence[Sample] | float, labels: str = "") -> Family:
    return evolve(_gauge(name, help, numbers, labels), kind="counter")


def _histogram(name: str, help: str, histograms: Sequence[tuple[tuple[str, ...], Histogram]], labels: str = "") -> Family:
    return Family(name, "histogram", help, tuple(labels.split()), histograms=histograms)


def _by_word(counted: Mapping[str, int], *known: str) -> list[Sample]:
    """Return counts by word, including known words that were not counted."""
    return [((label_of(word),), float(counted.get(word, 0))) for word in dict.fromkeys([*known, *counted])]


def _of_harnesses(now: Snapshot) -> Iterator[Family]:
    each = [(label_of(one.name), one) for one in now.harnesses]
    statuses = [((name, label_of(one.status)), 1.0) for name, one in each]
    yield _gauge("orchestrator_status", "The status of a harness: 1 for the one it has.", statuses, "harness status")
    counted = _by_word(Counter(one.status for _, one in each), *(status.value for status in Status), INTERRUPTED)
    yield _gauge("orchestrator_harnesses", "How many harnesses have a status.", counted, "status")
    steps = [((name,), float(one.step)) for name, one in each]
    yield _gauge("orchestrator_harness_step", "The number of the last recorded step.", steps, "harness")
    words = [(name, one.status, one.activity or _activity_of(one, now.counts)) for name, one in each]
    samples = [((name, label_of(word)), 1.0) for name, status, word in words if word != status]
    help = "The activity of a harness, such as `hung` or `halted`, where its status does not say it: 1."
    yield _gauge("orchestrator_activity", help, samples, "harness activity")
    ages = [((name,), age_s) for name, one in each if (age_s := _age_of(one)) is not None]
    help = "Seconds since a running harness recorded its last step, or began its attempt."
    yield _gauge("orchestrator_step_age_seconds", help, ages, "harness")
    told = [((name, label_of(gauge)), number) for name, one in each for gauge, number in one.gauges.items()]
    help = "Numbers that a harness tells of its work by its attribute `gauges`, such as equity or features that pass."
    yield _gauge("orchestrator_harness_gauge", help, told, "harness gauge")


def _age_of(one: HarnessFigures) -> float | None:
    return one.live.age_s if one.live is not None and one.status == Status.RUNNING else one.age_s


def _activity_of(one: HarnessFigures, counts: Counts) -> str:
    """Return the activity of a harness of this program; the usual duration is the average of its steps so far."""
    tally = counts.harnesses.get(one.name)
    us = (0, 0) if tally is None else (tally.took_us.get("work", 0), tally.steps)
    mean_s = us[0] / us[1] / 1e6 if us[1] >= FEWEST else None
    recent = () if mean_s is None else tuple(place * mean_s for place in range(FEWEST))
    limit_s = limit_of(one.live.timeout_s if one.live else None, recent)
    return activity(Facts(one.status, live=one.live, limit_s=limit_s))


def _of_each(counts: Counts) -> Iterator[Family]:
    each = [((label_of(name),), tally) for name, tally in counts.harnesses.items()]
    steps = [(at, float(tally.steps)) for at, tally in each]
    yield _counter("orchestrator_steps_total", "Steps recorded.", steps, "harness")
    restarts = [(at, float(tally.restarts)) for at, tally in each]
    yield _counter("orchestrator_restarts_total", "Restarts that were decided.", restarts, "harness")
    failures = [(at, float(tally.failures)) for at, tally in each]
    yield _counter("orchestrator_failures_total", "Attempts that ended with an error.", failures, "harness")
    blocked = [(at, tally.blocked_s) for at, tally in each if tally.blocked_s]
    help = "Seconds for which the event loop was blocked, counting blocks of more than a second."
    yield _counter("orchestrator_loop_blocked_seconds_total", help, blocked, "harness")
    last = [(at, tally.last_step_us / 1e6) for at, tally in each if tally.last_step_us]
    help = "Time of the last step, or of the start before the first one, seconds since 1970."
    yield _gauge("orchestrator_last_step_timestamp_seconds", help, last, "harness")
    took = [((*at, part), us / 1e6) for at, tally in each for part, us in tally.took_us.items()]
    help = "Time spent in steps, by part."
    yield _counter("orchestrator_step_part_seconds_total", help, took, "harness part")


def _of_all(counts: Counts) -> Iterator[Family]:
    parts = [((part,), counts.parts[part]) for part in PARTS]
    help = "Duration of each step, by part; `commit` is from the yield to the disk."
    yield _histogram("orchestrator_step_seconds", help, parts, "part")
    effects = _by_word(counts.effects, *(one.value for one in EffectOutcome if one.value not in _UNTOLD))
    yield _counter("orchestrator_effects_total", "Effects that ended, by outcome.", effects, "outcome")
    yield _counter("orchestrator_effects_begun_total", "Effects that were begun.", counts.intents)
    approvals = _by_word(counts.approvals, "requested", "approved", "denied", "reopened", "used")
    yield _counter("orchestrator_approvals_total", "Approval requests, answers and uses, by event.", approvals, "event")
    yield _counter("orchestrator_messages_total", "Messages put in mailboxes.", counts.messages)
    ends = sorted(_by_word(counts.ends))
    yield _counter("orchestrator_ends_total", "How attempts ended, by event.", ends, "event")


def _of_program(program: ProgramFigures) -> Iterator[Family]:
    help = "Duration of commits: one transaction for all pending writes."
    yield _histogram("orchestrator_commit_seconds", help, [((), program.commits_s)])
    yield _histogram("orchestrator_batch_steps", "Number of steps committed together.", [((), program.batches)])
    yield _gauge("orchestrator_queue_steps", "Steps, effects and orders that wait for the disk.", program.queued)
    help = "Committed records that these counts do not include yet."
    yield _gauge("orchestrator_uncounted_records", help, program.uncounted)
    yield _counter("orchestrator_spans_sent_total", "Spans that the exporter has accepted.", program.spans_sent)
    yield _counter("orchestrator_spans_dropped_total", "Spans that the exporter has not accepted.", program.spans_dropped)


def _of_budgets(accounts: Mapping[str, Account]) -> Iterator[Family]:
    spent: dict[tuple[str, ...], float] = {}
    limits: dict[tuple[str, ...], float] = {}
    used: list[Sample] = []
    for pool, account in accounts.items():
        kind, _, harness = pool.partition("/")
        if pool.startswith(HIDDEN):
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
    help = "Spending from a budget, over all runs; money in its own currency, time in seconds."
    yield _gauge("orchestrator_budget_spent", help, list(spent.items()), "pool resource")
    help = "Usage reported by the harness's agents, over all runs: turns, tool calls, tokens, money."
    yield _gauge("orchestrator_agent_usage", help, used, "harness resource")
    yield _gauge("orchestrator_budget_limit", "Limits of a budget.", list(limits.items()), "pool resource")
