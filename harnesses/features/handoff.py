"""The hand-off: where the work stands, for people and agents who come next. Pure.

The laws: the same state gives the same bytes; text that came from agents can neither mark up nor act in it.
"""

from __future__ import annotations

import json
import re
from datetime import datetime

from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.planning import stuck
from harnesses.features.record import FeatureState, RunOutcome
from harnesses.features.texts import first_line, one_line

FORMAT = 1
"""Of the JSON: goes up when the meaning of a field changes."""

_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#+!|~&$@:/.\-=^\"']")


def as_json(state: FeatureState, *, cut_off: str | None = None, ended: str = "") -> str:
    """Return the hand-off as JSON.

    Args:
        cut_off: id of the feature that was being worked when the run was cut off.
        ended: how the program ended, in a few words, where the state can not know it.
    """
    return json.dumps(_data(state, cut_off, ended), indent=2, ensure_ascii=True) + "\n"


def as_markdown(state: FeatureState, *, cut_off: str | None = None, ended: str = "") -> str:
    """Return the hand-off as Markdown; arguments as of `as_json`."""
    manifest = state.manifest
    lines = ["# Hand-off", ""]
    if manifest is not None:
        lines += [
            f"* Objective: {plain(manifest.current_objective, 500)}",
            f"* Branch: {plain(manifest.active_branch)}",
            f"* Last known good commit: {plain(manifest.last_known_good_commit or 'none')}",
        ]
    counts = _counts(state)
    lines += [f"* Features: {counts['passed']} passed, {counts['pending']} pending, {counts['blocked']} blocked"]
    if ended or cut_off is not None:
        lines += [f"* Ended: {plain(ended or 'cut off')}"]
    if cut_off is not None:
        lines += [f"* Cut off: {plain(cut_off)}, whose try is made again"]
    lines += ["", "## What to do next", "", *(f"* {plain(line, 1000)}" for line in _next(state, cut_off))]
    lines += ["", "## Features", "", "| feature | status | tries | seen |", "|---|---|---|---|"]
    for feature, standing in zip(state.features, state.standings, strict=True):
        lines.append(f"| {plain(feature.id)} | {standing.status} | {standing.tries} | {plain(_seen(standing))} |")
    lines += ["", "## Runs", "", *(_run_line(run) for run in reversed(state.runs))]
    lines += ["", "## Progress", ""]
    lines += [f"* {_moment(entry.created_at)} {plain(entry.summary)}" for entry in reversed(state.progress)]
    return "\n".join(lines) + "\n"


def plain(text: str, most: int = 200) -> str:
    """Return text on one line that Markdown shows as it is."""
    return _MARKUP.sub(lambda match: f"&#{ord(match.group())};", one_line(text, most))


def _data(state: FeatureState, cut_off: str | None, ended: str) -> dict[str, object]:
    manifest = state.manifest
    return {
        "format": FORMAT,
        "session": None if manifest is None else manifest.session_id,
        "objective": None if manifest is None else manifest.current_objective,
        "branch": None if manifest is None else manifest.active_branch,
        "last_known_good_commit": None if manifest is None else manifest.last_known_good_commit,
        "version": state.version,
        "counts": _counts(state),
        "cut_off": cut_off,
        "ended": ended or None,
        "next": _next(state, cut_off),
        "features": [_feature(*pair) for pair in zip(state.features, state.standings, strict=True)],
        "runs": [_run(run) for run in state.runs],
        "progress": [
            {"run": entry.run, "at": _moment(entry.created_at), "summary": one_line(entry.summary, 1000)}
            for entry in state.progress
        ],
    }


def _feature(feature: Feature, standing: Standing) -> dict[str, object]:
    return {
        "id": feature.id,
        "category": feature.category,
        "description": feature.description,
        "required": feature.required,
        "status": str(standing.status),
        "passes": feature.passes,
        "tries": standing.tries,
        "interruptions": standing.interruptions,
        "set_backs": standing.set_backs,
        "seen": _seen(standing),
        "commit": None if standing.evidence is None else standing.evidence.commit,
        "branch": None if standing.accepted is None else standing.accepted.branch,
    }


def _run(run: RunOutcome) -> dict[str, object]:
    return {
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


def _run_line(run: RunOutcome) -> str:
    counts = f"{run.turns} turns, {run.retries} retries, {len(run.validated_feature_ids)} validated"
    return f"* Run {run.run}, {_moment(run.completed_at)}: {run.status}. {plain(run.note, 500)} ({counts})"


def _counts(state: FeatureState) -> dict[str, int]:
    return {str(status): sum(one.status is status for one in state.standings) for status in FeatureStatus}


def _seen(standing: Standing) -> str:
    """Return the first line of what speaks for or against a feature."""
    if standing.status is FeatureStatus.PASSED:
        return first_line(standing.evidence.evidence) if standing.evidence else ""
    return first_line(standing.last_failure or "")


def _next(state: FeatureState, cut_off: str | None) -> list[str]:
    if state.manifest is None:
        return ["start it: nothing was initialised yet"]
    if cut_off is not None:
        return [f"start again: feature {cut_off} is tried anew"]
    if (wait := stuck(state)) is not None:
        return [wait.reason]
    pending = [one.feature_id for one in state.standings if one.status is FeatureStatus.PENDING]
    if pending:
        return [f"start again: {len(pending)} features are pending, {pending[0]} among them"]
    return ["nothing: every feature that can pass does"]


def _moment(moment: datetime) -> str:
    return moment.isoformat(" ", "seconds")
