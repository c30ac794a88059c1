"""Formats the hand-off: the current progress of a feature list, for people and for later agents. No I/O.

Invariants: the same state gives the same bytes; text from agents cannot add markup or take effect.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from attrs import asdict

from harnesses.diagnostics.control_characters import inert
from harnesses.features.agent_text import failure_line, one_line, plain, proof_lines
from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.feature_record import FeatureState, ProgressEntry, Proposal, RunOutcome, RunStatus
from harnesses.features.planning.next_move import stuck

FORMAT = 1
"""Version of the JSON format; increased when the meaning of a field changes."""


class Rows:
    """Cache of formatted rows: few rows of a long list change between two hand-offs.

    Pass the same object to each call. Values are compared by identity, which is safe because the cache keeps them alive.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[object, ...], tuple[tuple[object, ...], str]] = {}
        self._now: dict[tuple[object, ...], tuple[tuple[object, ...], str]] = {}

    def written(self, write: Callable[..., str], values: Iterable[tuple[object, ...]]) -> list[str]:
        """Return the result of `write` for each of the values, which must be frozen."""
        rows: list[str] = []
        for value in values:
            key = (write, *map(id, value))
            known = self._now.get(key) or self._last.get(key) or (value, write(*value))
            self._now[key] = known
            rows.append(known[1])
        return rows

    def turn_over(self) -> None:
        """Drop rows that were not used since the last call."""
        self._last, self._now = self._now, {}


def as_json(state: FeatureState, *, cut_off: str | None = None, ended: str = "", rows: Rows | None = None) -> str:
    """Return the hand-off as JSON, with one line for each feature, run and progress entry.

    Args:
        cut_off: id of the feature that was being worked when the run was interrupted.
        ended: short text on how the program ended, if the state does not have it.
        rows: cache from earlier calls, for speed.
    """
    rows = rows or Rows()
    lists = {
        "features": rows.written(_feature, zip(state.features, state.standings, strict=True)),
        "runs": rows.written(_run, ((run,) for run in state.runs)),
        "progress": rows.written(_entry, ((entry,) for entry in state.progress)),
    }
    rows.turn_over()
    head = [f"  {_json(name)}: {_json(value)}" for name, value in _head(state, cut_off, ended).items()]
    body = [f"  {_json(name)}: [" + ",".join(f"\n    {row}" for row in found) + "\n  ]" for name, found in lists.items()]
    return "{\n" + ",\n".join(head + body) + "\n}\n"


def as_markdown(state: FeatureState, *, cut_off: str | None = None, ended: str = "", rows: Rows | None = None) -> str:
    """Return the hand-off as Markdown; arguments as for `as_json`."""
    rows = rows or Rows()
    head = _head(state, cut_off, ended)
    counts = ", ".join(f"{number} {status}" for status, number in _counts(state).items())
    lines = [
        "# Hand-off",
        "",
        f"* Objective: {plain(str(head['objective']), 1000)}",
        f"* Branch: {plain(str(head['branch']))}",
        f"* Last known good commit: {plain(str(head['last_known_good_commit'] or 'none'))}",
        f"* Features: {len(state.features)}, of which {counts}",
    ]
    if ended or cut_off is not None:
        lines.append(f"* Ended: {plain(ended or 'it was cut off')}")
    if cut_off is not None:
        lines.append(f"* Cut off: {plain(cut_off)}; the next start continues with it")
    if (one := state.proposal) is not None:
        at = plain(f": {one.url}", 600) if one.url else ""
        lines.append(f"* Pull request: {plain(one.branch)} at {one.commit[:12]}, pushed to {plain(one.remote)}{at}")
    lines += ["", "## What to do next", "", *(f"* {plain(line, 1000)}" for line in _next(state, cut_off))]
    lines += ["", "## Features", "", "| feature | status | tries | cost | seen last | diff |", "|---|---|---|---|---|---|"]
    lines += rows.written(_feature_row, zip(state.features, state.standings, strict=True))
    lines += ["", "## Runs", "", *reversed(rows.written(_run_row, ((run,) for run in state.runs)))]
    lines += ["", "## Progress", "", *reversed(rows.written(_entry_row, ((entry,) for entry in state.progress)))]
    rows.turn_over()
    return "\n".join(lines) + "\n"


def _head(state: FeatureState, cut_off: str | None, ended: str) -> dict[str, Any]:
    manifest = state.manifest
    return {
        "format": FORMAT,
        "session": None if manifest is None else inert(manifest.session_id),
        "objective": None if manifest is None else inert(manifest.current_objective),
        "branch": None if manifest is None else inert(manifest.active_branch),
        "last_known_good_commit": None if manifest is None else manifest.last_known_good_commit,
        "proposal": None if state.proposal is None else {name: inert(text) for name, text in _told(state.proposal)},
        "version": state.version,
        "counts": _counts(state),
        "cut_off": cut_off,
        "ended": ended or None,
        "next": _next(state, cut_off),
    }


def _told(proposal: Proposal) -> list[tuple[str, str]]:
    return [(name, text) for name, text in asdict(proposal).items() if text is not None]


def _feature(feature: Feature, standing: Standing) -> str:
    told = {
        "id": feature.id,
        "category": inert(feature.category),
        "description": inert(feature.description),
        "required": feature.required,
        "status": str(standing.status),
        "passes": feature.passes,
        "tries": standing.tries,
        "interruptions": standing.interruptions,
        "set_backs": standing.set_backs,
        "seen": _seen(standing),
        "before": before_of(standing) or None,
        "commit": None if standing.evidence is None else standing.evidence.commit,
        "cost": cost_of(standing) or None,
        "diff": diff_of(standing) or None,
        "branch": None if standing.accepted is None else standing.accepted.branch,
    }
    return _json(told)


def _feature_row(feature: Feature, standing: Standing) -> str:
    told = (_seen_twice(standing), plain(cost_of(standing)), plain(diff_of(standing)))
    return f"| {plain(feature.id)} | {standing.status} | {standing.tries} | {told[1]} | {told[0]} | {told[2]} |"


def cost_of(standing: Standing) -> str:
    """Return what the accepted turn cost, as its agent reported it; empty if it did not."""
    work = standing.accepted
    if work is None:
        return ""
    if work.usage is not None and work.usage.money:
        return f"USD {work.usage.money:.4f}"
    return f"{work.tokens} tokens" if work.tokens else ""


def diff_of(standing: Standing) -> str:
    """Return the command that shows the accepted work; empty if it is not in a repository, or nothing was changed."""
    work = standing.accepted
    if work is None or work.base is None or work.commit is None or work.base == work.commit:
        return ""
    return f"git diff {work.base[:12]} {work.commit[:12]}"


def _run(run: RunOutcome) -> str:
    told = {
        "run": run.run,
        "status": str(run.status),
        "note": one_line(run.note, 1000),
        "started_at": _moment(run.started_at),
        "completed_at": _moment(run.completed_at),
        "turns": run.turns,
        "retries": run.retries,
        "processed": list(run.processed_feature_ids),
        "validated": list(run.validated_feature_ids),
    }
    return _json(told)


def _run_row(run: RunOutcome) -> str:
    counts = f"{run.turns} turns, {run.retries} retries, {len(run.validated_feature_ids)} validated"
    return f"* Run {run.run}, {_moment(run.completed_at)}: {run.status}. {plain(run.note, 500)} ({counts})"


def _entry(entry: ProgressEntry) -> str:
    return _json({"run": entry.run, "at": _moment(entry.created_at), "summary": one_line(entry.summary, 1000)})


def _entry_row(entry: ProgressEntry) -> str:
    return f"* {_moment(entry.created_at)} {plain(entry.summary, 500)}"


def _counts(state: FeatureState) -> dict[str, int]:
    found = Counter(standing.status for standing in state.standings)
    return {str(status): found[status] for status in FeatureStatus}


def _seen(standing: Standing) -> str:
    """Return the evidence or the failure of a feature, on one line."""
    if standing.status is FeatureStatus.PASSED:
        return proof_lines(standing.evidence.evidence) if standing.evidence else ""
    return failure_line(standing.last_failure or "")


def before_of(standing: Standing) -> str:
    """Return what failed before the accepted work, on one line; empty if it was not judged then, or does not pass."""
    work = standing.accepted
    return failure_line(work.before) if work is not None and standing.status is FeatureStatus.PASSED and work.before else ""


def _seen_twice(standing: Standing) -> str:
    """Return what was seen last, and for a passing feature what was seen before the work, escaped for Markdown."""
    before, seen = before_of(standing), plain(_seen(standing), 400)
    return f"before: {plain(before)}; after: {seen}" if before else seen


def _next(state: FeatureState, cut_off: str | None) -> list[str]:
    if state.manifest is None:
        return ["start it: nothing was initialised yet"]
    if cut_off is not None:
        return [f"start again: work on feature {cut_off} continues"]
    if (wait := stuck(state)) is not None:
        return [wait.reason]
    pending = [one.feature_id for one in state.standings if one.status is FeatureStatus.PENDING]
    left = f"features that are pending: {len(pending)}, {pending[0]} among them" if pending else "what passes is judged anew"
    if state.run is not None:
        return [f"run {state.run.number} is open; if nobody works it, start again: {left}"]
    if pending or (state.runs and state.runs[-1].status is not RunStatus.SUCCEEDED):
        return [f"start again: {left}"]
    return ["nothing: every feature that can pass does"]


def _moment(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")


_json = json.JSONEncoder(ensure_ascii=True).encode
