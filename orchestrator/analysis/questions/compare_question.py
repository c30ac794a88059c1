"""What got better or worse from one run to another, and what may be chance.

Invariant: noise is called better or worse no more often than the level, whatever is compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, number, seconds, share, times
from orchestrator.analysis.answers.statistics import BATCHES, INTERVAL_RESAMPLES, LEAST, LENGTH, LEVEL, RESAMPLES
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone, what_was_copied
from orchestrator.analysis.questions.compare_findings import (
    ALONE,
    BETTER,
    CHANCE,
    SAME,
    WORSE,
    Finding,
    between,
    between_lots,
    judged_together,
)
from orchestrator.analysis.questions.compare_sides import Side, sides
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

MATCHES = ("name", "prefix", "class")
_NUMBERED = re.compile(r"(?<=.)[-_. ]?\d+$")
_ORDER = (BETTER, WORSE, CHANCE, ALONE, SAME)
_COLUMNS = "what figure before after change_share low_share high_share chance verdict repeats repeats2 by"
_NOTE = (
    f"better and worse are said at a level of {LEVEL:.0%} for this whole answer: chance is how likely chance alone makes such "
    f"a difference, for that many figures (Holm). It comes of permutations, all of them or up to {RESAMPLES:,}, and of exact "
    f"tests for counts; low_share to high_share hold the change by a bootstrap of {INTERVAL_RESAMPLES} resamples, at "
    f"{1 - LEVEL:.0%} each. Steps of one harness are not independent: they go in as the means of up to {BATCHES} batches of "
    f"{LENGTH} steps or more, which holds as long as what is slow now is no longer slow some batches later. same: equal, or "
    f"within 10 % as far as can be told. within chance: it may be more, but that does not show. not judged: fewer than "
    f"{LEAST} repetitions."
)
_NAMES = {
    "step_interval_s": "the time from step to step",
    "work_s": "the work of a step",
    "agent_s": "the agent's part of a step",
    "commit_s": "the commit",
    "try_agent_s": "the agent's part of a try",
    "try_tokens": "the tokens of a try",
    "try_money": "the money of a try",
    "features_passed": "the features that pass",
    "tries_to_pass": "the tries that a pass takes",
    "day_return": "the return of a day",
    "gain_share": "the gain",
    "max_drawdown_share": "the largest drawdown",
    "set_backs": "set back",
}


def answer(run: Run, run2: Run, *, harness: str | None = None, match: str = "name") -> Answer:
    """Return the differences from `run` to `run2`.

    Args:
        match: which harnesses are compared: those of one name, and numbered ones also as a group ("name"); those whose names
            differ by a number at the end ("prefix"); or those of a kind ("class").
    """
    if match not in MATCHES:
        raise UsageError(f"compare: match: expected one of {', '.join(MATCHES)}, was {match!r:.80}; choose one")
    before, after = sides(run, harness), sides(run2, harness)
    findings = judged_together([*_alone(before, after, match), *_lots(before, after, match)])
    findings.sort(key=lambda one: (_ORDER.index(one.verdict), one.what))
    rows = [_row(one) for one in findings]
    both = sorted(before.keys() & after.keys())
    outcomes = [
        (one_line(one.name), one.status, other.status, one.attempts, other.attempts, one.steps, other.steps)
        for one, other in ((before[name], after[name]) for name in both)
    ]
    missing = [
        (one_line(side.name), where, side.status, side.steps)
        for where, mine, others in (("before", before, after), ("after", after, before))
        for side in mine.values()
        if side.name not in others
    ]
    copied = " ".join(filter(None, (what_was_copied(each, _names(harness)) for each in (run, run2))))
    head = "harness status_before status_after attempts_before attempts_after steps_before steps_after"
    tables = [Table("figures", _COLUMNS, rows, _NOTE), Table("outcomes", head, outcomes, copied)]
    if missing:
        tables.append(Table("alone", "harness only status steps", missing, "In one of the two runs only."))
    said = [*_sentences(findings), *_of_outcomes(before, after, both), *_of_missing(missing)]
    gone = [
        f"{where}: {one}" for where, each in (("Before", run), ("After", run2)) for one in what_is_gone(each, _names(harness))
    ]
    return Answer("compare", tables, [*said, *gone])


def _names(harness: str | None) -> list[str] | None:
    return None if harness is None else [harness]


def _alone(before: Mapping[str, Side], after: Mapping[str, Side], match: str) -> Iterable[Finding]:
    """Yield findings on harnesses of one name; with another match, on groups that have one member on each side."""
    if match == "name":
        for name in sorted(before.keys() & after.keys()):
            yield from between(before[name], after[name])
        return
    ones, others = _grouped(before, match), _grouped(after, match)
    for what in sorted(ones.keys() & others.keys()):
        if len(ones[what]) == len(others[what]) == 1:
            yield from between(ones[what][0], others[what][0])


def _lots(before: Mapping[str, Side], after: Mapping[str, Side], match: str) -> Iterable[Finding]:
    """Yield findings on groups of harnesses."""
    ones, others = _grouped(before, match), _grouped(after, match)
    for what in sorted(ones.keys() & others.keys()):
        counts = len(ones[what]), len(others[what])
        if min(counts) >= LEAST if match == "name" else max(counts) > 1:
            yield from between_lots(what if match == "class" else f"{what}*", ones[what], others[what])


def _grouped(found: Mapping[str, Side], match: str) -> dict[str, list[Side]]:
    groups: dict[str, list[Side]] = {}
    for name, side in found.items():
        groups.setdefault(side.what if match == "class" else _NUMBERED.sub("", name), []).append(side)
    return groups


def _row(one: Finding) -> tuple[Cell, ...]:
    low, high = (None, None) if one.ratio is None else (one.ratio.low - 1, one.ratio.high - 1)
    chance = None if one.is_equal else one.chance
    return (
        *(one_line(one.what), one.figure, one.before, one.after, one.change, low, high, chance, one.verdict),
        *(*one.repeats, one.by),
    )


def _sentences(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return ["There is nothing to compare: no harness is in both runs."]
    said = [_said(one) for one in findings if one.verdict in (BETTER, WORSE)]
    of = {verdict: sum(one.verdict == verdict for one in findings) for verdict in _ORDER}
    if of[SAME] == len(findings):
        return [f"The same in all {times(len(findings), 'figure')}."]
    if not said:
        said.append(f"Nothing is better or worse by more than chance, in {times(len(findings), 'figure')}.")
    rest = [
        f"{of[SAME]} the same" if of[SAME] else "",
        f"{of[CHANCE]} within chance" if of[CHANCE] else "",
        f"{of[ALONE]} not judged, as there are too few repetitions" if of[ALONE] else "",
    ]
    if any(rest):
        said.append(f"Of the figures, {listed(filter(None, rest))}.")
    return said


def _said(one: Finding) -> str:
    name = _NAMES.get(one.figure, one.figure)
    more = "" if one.change is None else f", {share(abs(one.change))} {'more' if one.change > 0 else 'less'}"
    within = "" if one.ratio is None else f" ({share(one.ratio.low - 1)} to {share(one.ratio.high - 1)})"
    chance = 0.0 if one.chance is None else one.chance
    shown = f"{chance:.1g}" if chance >= 0.0001 else "below 0.0001"
    figures = f"{_figure(one.figure, one.after)}, was {_figure(one.figure, one.before)}"
    return f"{one_line(one.what)}: {name}: {one.verdict}: {figures}{more}{within}; chance {shown}."


def _figure(figure: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if figure.endswith("_s"):
        return seconds(value)
    return f"{value:.3%}" if figure in ("day_return", "gain_share", "max_drawdown_share") else number(value)


def _of_outcomes(before: Mapping[str, Side], after: Mapping[str, Side], names: Iterable[str]) -> list[str]:
    return [
        f"{one_line(name)}: {after[name].status}, was {before[name].status}."
        for name in names
        if after[name].status != before[name].status
    ]


def _of_missing(missing: Sequence[tuple[str, str, str, int]]) -> list[str]:
    return [
        f"Only {where}: {listed(names)}."
        for where in ("before", "after")
        if (names := [name for name, which, *_ in missing if which == where])
    ]
