"""The progress of a feature list or a pipeline as plain values for pages and programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from attrs import asdict, frozen

from harnesses.features.feature import TurnResult
from harnesses.pipeline.pipeline_state import PipelineState
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.presets.list_progress import FEATURES, Change, Cost, ListProgress, Try

MOST_ITEMS = 2_000
MOST_TRIES = 20
"""Tries that are told in full: the newest ones."""
_MOST_CHANGES = 1_000
_SHORT = 300


def told_items(progress: ListProgress, step: int) -> dict[str, Any]:
    """Return every feature or task with its status, tries and cost, how they filled up, and what each proven one has cost."""
    tries = _by_id(progress.tries)
    head, items = _features(progress, step) if progress.what == FEATURES else _tasks(progress, step)
    costs = {id: progress.cost(found) for id, found in tries.items()}
    whole = progress.cost(progress.tries)
    passed = sum(one["status"] == "passed" for one in items)
    return {
        "what": progress.what,
        "read": progress.step,
        "is_complete": progress.is_complete(step, progress.seq),
        **head,
        "listed": len(items),
        "passed": passed,
        "blocked": sum(one["status"] == "blocked" for one in items),
        "cost": _cost(whole),
        "per_passed": {
            "money": None if whole.money is None or not passed else f"{whole.money / passed:f}",
            "tokens": None if whole.tokens is None or not passed else whole.tokens / passed,
            "took_s": whole.took_s / passed if passed else None,
        },
        "items": [
            {**one, "tries": _tried(tries.get(one["id"], ())), "cost": _cost(costs.get(one["id"]))}
            for one in items[:MOST_ITEMS]
        ],
        "changes": [_change(one) for one in _thinned(progress.changes)],
        "begin": progress.begin and progress.begin.isoformat(),
        "end": progress.end and progress.end.isoformat(),
    }


def _features(progress: ListProgress, step: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = progress.features(step)
    manifest = found.manifest
    head = {
        "goal": manifest.current_objective[:1000] if manifest else "",
        "branch": manifest.active_branch if manifest and manifest.last_known_good_commit else None,
        "commit": manifest.last_known_good_commit if manifest else None,
    }
    items = [
        {
            "id": feature.id,
            "title": feature.description[:_SHORT],
            "status": standing.status.value,
            "why": (standing.last_failure or "")[-_SHORT:],
            "set_backs": standing.set_backs,
            "interruptions": standing.interruptions,
            "commit": standing.accepted.commit if standing.accepted else None,
        }
        for feature, standing in zip(found.features, found.standings, strict=False)
    ]
    return head, items


_STATUS = {"PASS": "passed", "BLOCKED": "blocked", "NEEDS_CONTEXT": "blocked"}


def _tasks(progress: ListProgress, step: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    state = progress.pipeline(step) or PipelineState()
    head = {"goal": state.goal[:1000], "branch": None, "commit": None}
    items = [
        {
            "id": str(note.id),
            "title": note.title[:_SHORT],
            "status": _STATUS.get(task.status.value, "pending"),
            "why": (task.note or "; ".join(task.failed))[:_SHORT],
            "set_backs": task.set_backs,
            "interruptions": 0,
            "commit": None,
        }
        for note, task in zip(state.plan, state.tasks, strict=False)
    ]
    return head, items


def told_item(progress: ListProgress, step: int, id: str) -> dict[str, Any]:
    """Return one feature or task in full.

    Raises:
        UsageError: there is none of that id.
    """
    head, items = _features(progress, step) if progress.what == FEATURES else _tasks(progress, step)
    found = next((one for one in items if one["id"] == id), None)
    if found is None:
        raise UsageError(f"harness {progress.name!r} has no {progress.what[:-1]} {id!r:.100}: expected one of its list")
    tries = _by_id(progress.tries).get(id, [])
    tell = _feature_try if progress.what == FEATURES else _task_try
    return {
        **found,
        **(_feature(progress, step, id) if progress.what == FEATURES else _task(progress, step, id)),
        "goal": head["goal"],
        "cost": _cost(progress.cost(tries)),
        "tries": [{**_try(progress, one), **tell(progress, one)} for one in tries[: -MOST_TRIES - 1 : -1]],
    }


def _feature(progress: ListProgress, step: int, id: str) -> dict[str, Any]:
    state = progress.features(step)
    feature, standing = next(pair for pair in zip(state.features, state.standings, strict=True) if pair[0].id == id)
    evidence, accepted = standing.evidence, standing.accepted
    return {
        "description": feature.description,
        "checks": list(feature.steps),
        "depends_on": list(feature.depends_on),
        "last_failure": standing.last_failure or "",
        "evidence": [{"what": evidence.validator, "passed": evidence.passed, "text": evidence.evidence}] if evidence else [],
        "artifacts": [{"path": "", "text": accepted.artifact}] if accepted and accepted.artifact else [],
    }


def _task(progress: ListProgress, step: int, id: str) -> dict[str, Any]:
    state = progress.pipeline(step) or PipelineState()
    note, task = next(pair for pair in zip(state.plan, state.tasks, strict=True) if str(pair[0].id) == id)
    return {
        "description": note.description or note.goal,
        "checks": [*note.acceptance_criteria, *note.validation_checks],
        "depends_on": [str(one) for one in note.after],
        "last_failure": "\n".join(filter(None, (task.note, *task.failed))),
        "evidence": [{"what": one.kind, "passed": one.status == "PASS", "text": one.evidence} for one in task.proof],
        "artifacts": [{"path": one.path, "text": one.text or f"sha256 {one.sha256}"} for one in task.kept],
    }


def _feature_try(progress: ListProgress, one: Try) -> dict[str, Any]:
    """Return the evidence on a try, what its agent said, and what it changed."""
    output = progress.result_of(one.step)
    if output is None:
        return _told_try()
    verdict, result = output.verdict, output.result or TurnResult()
    evidence = [{"what": verdict.validator, "passed": verdict.passed, "text": verdict.evidence}] if verdict else []
    return _told_try(
        evidence=evidence,
        message=result.message,
        note=output.note,
        branch=result.branch,
        touched=list(result.touched),
        diff=_diff(progress, one),
    )


def _told_try(**known: Any) -> dict[str, Any]:
    return {"evidence": [], "message": "", "note": "", "branch": None, "touched": [], "diff": "", **known}


def _diff(progress: ListProgress, one: Try) -> str:
    """Return what the commit of a try changed; "" if it is not known."""
    for record in progress.reader.effect_records(progress.name, one.step):
        if record.kind == "outcome" and '"diff"' in record.body:
            match decode(progress.reader.whole(record).body):
                case {"result": {"diff": str(diff), "result": {"commit": str(commit)}}} if commit == one.commit:
                    return diff
                case _:
                    pass
    return ""


def _task_try(progress: ListProgress, one: Try) -> dict[str, Any]:
    state = progress.pipeline(one.step) or PipelineState()
    task = next((task for task in state.tasks if str(task.id) == one.id), None)
    checks = _checks(task.validation) if task else []
    return _told_try(evidence=checks, note=one.reason)


@frozen
class _Check:
    name: str = ""
    status: str = ""
    evidence: str = ""


@frozen
class _Validation:
    """The fields of a validator's contract that are told."""

    checks: tuple[_Check, ...] = ()


_read_validation = msgspec.json.Decoder(_Validation).decode


def _checks(validation: str) -> list[dict[str, Any]]:
    try:
        found = _read_validation(validation or "{}").checks
    except msgspec.MsgspecError:
        return []
    return [{"what": one.name, "passed": one.status == "PASS", "text": one.evidence} for one in found]


def _by_id(tries: Sequence[Try]) -> dict[str, list[Try]]:
    found: dict[str, list[Try]] = defaultdict(list)
    for one in tries:
        found[one.id].append(one)
    return found


def _tried(tries: Sequence[Try]) -> list[str]:
    """Return how each of the newest tries ended."""
    return [one.status for one in tries if one.is_try][-MOST_TRIES:]


def _try(progress: ListProgress, one: Try) -> dict[str, Any]:
    money = progress.money_of(one)
    return {
        "step": one.step,
        "time": one.time.isoformat(),
        "number": one.number,
        "status": one.status,
        "passed": one.passed,
        "took_s": one.took_s,
        "commit": one.commit,
        "tokens": progress.tokens_of(one),
        "money": None if money is None else f"{money:f}",
    }


def _cost(cost: Cost | None) -> dict[str, Any]:
    if cost is None:
        return {"tries": 0, "in_vain": 0, "money": None, "tokens": None, "took_s": 0.0}
    return {**asdict(cost), "money": None if cost.money is None else f"{cost.money:f}"}


def _change(one: Change) -> list[Any]:
    return [one.time.timestamp(), one.passing, one.listed]


def _thinned(changes: Sequence[Change]) -> Sequence[Change]:
    stride = -(-len(changes) // _MOST_CHANGES) or 1
    return [*changes[:-1:stride], *changes[-1:]]
