"""Episodes (records of one attempt at a task and its outcome) and facts. Pure.

Invariant: an episode passes through `bounded` before it is stored, so every text in it has bounded length, no secret, and no
control characters.

    id       ep_<run>_<task>_<attempt>: one for each attempt, so writing is idempotent
    quality  0.9 passed · 0.72 passed with concerns · 0.25 anything else
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from attrs import evolve, frozen

from harnesses.governance.contracts.contract import (
    BuilderContract,
    BuilderStatus,
    StageSummary,
    ValidatorContract,
    ValidatorStatus,
)
from harnesses.memory.sanitising import plain_text

PASSED, CONCERNS, OTHERWISE = 0.9, 0.72, 0.25
IMPORTANT, LESS_IMPORTANT = 0.75, 0.6
MAX_FACT = 1000
_PART = re.compile(r"[^A-Za-z0-9._-]+")


@frozen(kw_only=True)
class StageNote:
    """What was done in one stage."""

    stage_id: str
    agent_id: str = ""
    work_done: str = ""
    evidence: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


@frozen(kw_only=True)
class Episode:
    """One attempt at one task."""

    id: str
    run_id: str
    task_id: str
    task: str
    """Description of the task."""
    outcome: str
    """The builder's status: PASS, DONE_WITH_CONCERNS, FAIL, BLOCKED; UNKNOWN without one."""
    validator_status: str
    """The validator's verdict: PASS or FAIL."""
    evidence_paths: tuple[str, ...]
    """Paths of the contracts that the statuses come from."""
    created_at: datetime
    quality: float = OTHERWISE
    importance: float = LESS_IMPORTANT
    attempt: int = 1
    branch: str = "unknown"
    agents: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    approach: str = ""
    notes: str = ""
    work_done: str = ""
    decisions: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    stage_notes: tuple[StageNote, ...] = ()


@frozen(kw_only=True)
class Fact:
    """Something learned about a project."""

    learning: str
    created_at: datetime
    kind: str = "project_fact"
    derived_from: tuple[str, ...] = ()
    """Ids of the episodes or facts that it is derived from; it is retracted with them."""

    @property
    def id(self) -> str:
        """Id derived from the content, so that the same fact is stored once."""
        return f"fact_{hashlib.sha256(self.learning.encode()).hexdigest()[:24]}"


def attempt_id(run_id: str, task_id: str, attempt: int) -> str:
    """Return the id of an attempt's episode; unique per attempt, however long the names."""
    whole = f"{run_id}\n{task_id}\n{attempt}"
    parts = [_PART.sub("-", part)[:most] for part, most in ((run_id, 120), (task_id, 80))]
    mark = (
        ""
        if parts == [run_id, task_id] and "_" not in run_id + task_id
        else f"_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    )
    return f"ep_{parts[0]}_{parts[1]}_{attempt}{mark}"


def episode_of(
    builder: BuilderContract | None,
    validator: ValidatorContract,
    *,
    run_id: str,
    task: str,
    attempt: int,
    evidence_paths: Sequence[str],
    now: datetime,
    approach: str = "",
    branch: str = "unknown",
    agents: Sequence[str] = (),
    stages: Sequence[str] = (),
) -> Episode:
    """Make the episode of a validated attempt. `quality` is computed from the verdict and cannot be chosen.

    Args:
        builder: the builder's contract; None if there is none, or an unreadable one.
    """
    outcome = "UNKNOWN" if builder is None else builder.status.value
    passed = validator.status is ValidatorStatus.PASS
    summary = None if builder is None else builder.memory_summary
    told = builder.stage_summaries if builder is not None else ()
    made = Episode(
        id=attempt_id(run_id, validator.task_id, attempt),
        run_id=run_id,
        task_id=validator.task_id,
        attempt=attempt,
        task=task,
        approach=approach,
        outcome=outcome,
        validator_status=validator.status.value,
        evidence_paths=tuple(evidence_paths),
        created_at=now,
        quality=quality_of(outcome, validator.status.value),
        importance=IMPORTANT if passed else LESS_IMPORTANT,
        branch=branch,
        agents=tuple(agents) or (() if builder is None else (builder.agent,)),
        stages=tuple(stages) or tuple(one.stage_id for one in told),
        notes=_notes(builder, validator),
        stage_notes=tuple(map(_stage_note, told)),
        files=() if builder is None else builder.files_modified,
        tests=() if builder is None else builder.tests_run,
    )
    if summary is None:
        return bounded(made)
    return bounded(
        evolve(
            made,
            work_done=summary.work_done,
            decisions=summary.decisions,
            evidence=tuple(map(_to_sentence, summary.evidence)),
            keep=summary.context_to_keep,
            drop=summary.context_to_drop,
            hints=summary.next_agent_hints,
        )
    )


def quality_of(outcome: str, validator_status: str) -> float:
    """Return the quality of an episode by its outcome."""
    if validator_status != ValidatorStatus.PASS:
        return OTHERWISE
    if outcome == BuilderStatus.DONE_WITH_CONCERNS:
        return CONCERNS
    return PASSED if outcome == BuilderStatus.PASS else OTHERWISE


def bounded(episode: Episode) -> Episode:
    """Return an episode with bounded texts, without secrets and control characters."""
    return evolve(
        episode,
        id=_line(episode.id, 240),
        run_id=_line(episode.run_id, 120),
        task_id=_line(episode.task_id, 80),
        branch=_line(episode.branch, 200) or "unknown",
        agents=_lines(episode.agents, 30, 120),
        stages=_lines(episode.stages, 30, 80),
        task=_line(episode.task, 700),
        approach=_line(episode.approach, 400),
        notes=_line(episode.notes, 650),
        outcome=_line(episode.outcome, 40),
        validator_status=_line(episode.validator_status, 40),
        evidence_paths=_lines(episode.evidence_paths, 20, 300),
        work_done=_line(episode.work_done, 700),
        decisions=_lines(episode.decisions, 8, 260),
        evidence=_lines(episode.evidence, 10, 260),
        keep=_lines(episode.keep, 10, 260),
        drop=_lines(episode.drop, 10, 220),
        hints=_lines(episode.hints, 8, 260),
        files=_lines(episode.files, 30, 200),
        tests=_lines(episode.tests, 20, 260),
        stage_notes=tuple(map(_bound_note, episode.stage_notes[:15])),
    )


def problem_of(episode: Episode) -> str:
    """Return the first problem of an episode, as a sentence; empty if it is valid."""
    for name in ("id", "run_id", "task_id", "task", "outcome", "validator_status"):
        if not getattr(episode, name).strip():
            return f"{name} is empty"
    if not 0 <= episode.quality <= 1 or not 0 <= episode.importance <= 1:
        return f"quality and importance: expected 0 to 1, got {episode.quality!r} and {episode.importance!r}"
    if not episode.evidence_paths or not all(path.strip() for path in episode.evidence_paths):
        return "there is no provenance: expected the paths of its evidence"
    if episode.created_at.tzinfo is None:
        return "created_at has no time zone"
    return ""


def is_approved(episode: Episode) -> bool:
    """Return whether a validator has approved an outcome that the builder reports as done."""
    done = (BuilderStatus.PASS.value, BuilderStatus.DONE_WITH_CONCERNS.value)
    return episode.validator_status == ValidatorStatus.PASS.value and episode.outcome in done


def words_of(episode: Episode) -> str:
    """Return the searchable text: what was done and learned. Agents and stages are scored separately and left out."""
    parts: list[str] = [episode.task, episode.approach, episode.notes, episode.work_done]
    parts += (*episode.decisions, *episode.keep, *episode.hints)
    for note in episode.stage_notes:
        parts += (note.work_done, *note.keep)
    return "\n".join(parts)


def things_of(episode: Episode) -> str:
    """Return the names in an episode: files, stages, agents, tests and evidence paths."""
    return "\n".join((*episode.files, *episode.stages, *episode.agents, episode.task_id, *episode.evidence_paths))


def moment(time: datetime) -> datetime:
    """Convert a time to UTC with microseconds; times without a zone are taken as UTC."""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)


def _notes(builder: BuilderContract | None, validator: ValidatorContract) -> str:
    if builder is None:
        parts: list[str] = []
    else:
        summary = builder.memory_summary
        parts = [builder.summary, *map(_to_sentence, builder.risks[:3])]
        if summary is not None:
            parts = [summary.work_done, *parts, *summary.decisions, *summary.next_agent_hints]
    return " | ".join(part for part in (*parts, *map(_to_sentence, validator.issues[:3])) if part)


def _stage_note(summary: StageSummary) -> StageNote:
    return StageNote(
        stage_id=summary.stage_id,
        agent_id=summary.agent_id,
        work_done=summary.work_done,
        evidence=tuple(map(_to_sentence, summary.evidence)),
        keep=summary.context_to_keep,
        drop=summary.context_to_drop,
    )


def _bound_note(note: StageNote) -> StageNote:
    return StageNote(
        stage_id=_line(note.stage_id, 80),
        agent_id=_line(note.agent_id, 120),
        work_done=_line(note.work_done, 500),
        evidence=_lines(note.evidence, 8, 220),
        keep=_lines(note.keep, 8, 220),
        drop=_lines(note.drop, 8, 180),
    )


def _to_sentence(item: object) -> str:
    """Return an item as one sentence; of an object, its fields."""
    if isinstance(item, Mapping):
        return "; ".join(f"{key}: {value}" for key, value in cast(Mapping[object, object], item).items())
    return str(item)


def _lines(items: Iterable[str], most: int, characters: int) -> tuple[str, ...]:
    lines = (_line(item, characters) for item in list(items)[:most])
    return tuple(line for line in lines if line)


def _line(text: str, most: int) -> str:
    return plain_text(text, most)
