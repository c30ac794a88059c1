"""A task: a unit of work that is claimed as one, covers one stage or more, and may need dangerous actions. No I/O.

Invariants: tasks do not depend on each other in a cycle; a task covers existing stages only, and every stage is covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard, cast

from attrs import field, frozen

from harnesses.features.planning.feature_list import cycle_in
from harnesses.governance.contracts.contract import BuilderContract
from harnesses.pipeline.plan.ids import PipelineInvalid, StageId, TaskId, is_id, stage_ids, task_id, task_ids, texts
from harnesses.pipeline.plan.stage import Stage, check_stages
from harnesses.redaction.redactor import MARK, redact_text

MAX_REQUESTS = 10
MAX_WORDS = 200
MAX_WORD = 4_000
MAX_SUMMARY = 250
_FORM = '{"category": "publish", "summary": "…", "command": ["…"]}'


def _optional_tasks(ids: Iterable[TaskId | str] | TaskId | str | None) -> tuple[TaskId, ...] | None:
    return None if ids is None else task_ids(ids)


@frozen(kw_only=True)
class Deed:
    """A dangerous action that a task needs: no agent does it, the harness does, once a person has approved."""

    category: str
    """One of the nine categories (`publish`, `deploy` and so on), or your own."""
    summary: str
    """What it does, in a sentence, for the approver."""
    command: tuple[str, ...] = field(converter=texts)
    limit_s: float = 600.0


@frozen(kw_only=True)
class Task:
    """One unit of work."""

    id: TaskId = field(converter=task_id)
    title: str
    stages: tuple[StageId, ...] = field(converter=stage_ids)
    """The stages it covers."""
    description: str = ""
    goal: str = ""
    acceptance_criteria: tuple[str, ...] = field(default=(), converter=texts)
    validation_checks: tuple[str, ...] = field(default=(), converter=texts)
    artifact: str = ""
    """Name of its own file, besides those of its stages; empty if it has none."""
    after: tuple[TaskId, ...] | None = field(default=None, converter=_optional_tasks)
    """Tasks that must pass first; None derives them from the stages' dependencies."""
    domains: tuple[str, ...] = field(default=(), converter=texts)
    """Its domains, such as "security": `agents={"domain:security": …}` selects a specialist; the agent is told them too."""
    destructive: bool = False
    """Whether it may destroy something: it gets fewer attempts, and each needs a person's approval."""
    gate: str = ""
    """What a person must approve before it is claimed, in a sentence; empty for nothing."""
    deeds: tuple[Deed, ...] = field(default=(), converter=tuple[Deed, ...])
    """Actions to run after its work has passed validation."""


def each_stage(stages: Sequence[Stage], *, deeds: Mapping[str, Sequence[Deed]] | None = None) -> tuple[Task, ...]:
    """Return one task for each stage, with the same id.

    Args:
        deeds: actions to run after a stage's work has passed validation, by stage id.
    """
    given = dict(deeds or {})
    unknown = set(given) - {str(stage.id) for stage in stages}
    if unknown:
        raise PipelineInvalid(f"deeds: expected ids of stages, was {min(unknown)!r}; correct it")
    return tuple(_of_stage(stage, tuple(given.get(str(stage.id), ()))) for stage in stages)


def _of_stage(stage: Stage, deeds: tuple[Deed, ...]) -> Task:
    return Task(
        id=TaskId(str(stage.id)),
        title=stage.title,
        stages=(stage.id,),
        description=f"Bring about {stage.title.lower()}: write {stage.artifact}, and whatever it speaks of.",
        goal=stage.goal or f"{stage.title} is done, and can be shown.",
        acceptance_criteria=(
            f"{stage.artifact} is in the stage's directory and can be read.",
            stage.criterion or f"{stage.artifact} says what was done and found.",
            "What is claimed can be looked up: every claim names a file, a command or its output.",
        ),
        validation_checks=(
            f"{stage.artifact} is there, is of the right shape, and satisfies the checks of stage {stage.id}.",
            "The contract is complete, is of the attempt under way, and every file that it names exists.",
            "Somebody else than the builder has looked, in a copy, and found it good.",
        ),
        deeds=deeds,
    )


def check_tasks(tasks: Sequence[Task], stages: Sequence[Stage]) -> tuple[Task, ...]:
    """Return the tasks if they are valid, each with its dependencies filled in.

    Raises:
        PipelineInvalid: they are invalid; names the first wrong task.
    """
    known = {stage.id: stage for stage in check_stages(stages)}
    seen: dict[TaskId, Task] = {}
    for task in tasks:
        if not isinstance(cast(object, task), Task):
            raise PipelineInvalid(f"tasks: expected Task(…), was {task!r:.100}; make one")
        _check_task(task, known)
        if task.id in seen:
            raise PipelineInvalid(f"task {str(task.id)!r} occurs twice: expected unique ids; rename one")
        seen[task.id] = task
    uncovered = [str(id) for id in known if not any(id in task.stages for task in tasks)]
    if uncovered:
        raise PipelineInvalid(f"stage {uncovered[0]!r} is not covered by any task: expected at least one; add it to one")
    after = find_waits(tasks, stages)
    for id, others in after.items():
        if missing := next((one for one in others if one not in seen), None):
            raise PipelineInvalid(f"task {str(id)!r}: after: expected ids of tasks, was {str(missing)!r}; correct it")
    ring = cycle_in(after)
    if ring:
        raise PipelineInvalid(f"tasks depend on each other: expected no cycle, was {' → '.join(map(str, ring))}; set `after`")
    return tuple(tasks)


def _check_task(task: Task, known: Mapping[StageId, Stage]) -> None:
    where = f"task {str(task.id)!r}"
    if not task.title.strip():
        raise PipelineInvalid(f"{where}: missing field 'title': expected a text, was {task.title!r}; give it")
    if not task.stages or len(set(task.stages)) != len(task.stages):
        raise PipelineInvalid(f"{where}: stages: expected one or more, each once, was {tuple(map(str, task.stages))!r:.200}")
    if unknown := next((one for one in task.stages if one not in known), None):
        raise PipelineInvalid(f"{where}: stages: expected ids of stages, was {str(unknown)!r}; correct it")
    if task.artifact and not is_id(task.artifact):
        raise PipelineInvalid(f"{where}: artifact: expected the name of a file, was {task.artifact!r:.100}")
    for place, deed in enumerate(task.deeds):
        if not (deed.command and deed.category.strip() and deed.summary.strip() and deed.limit_s > 0):
            raise PipelineInvalid(f"{where}: deeds[{place}]: expected a category, a summary and a command, was {deed!r:.200}")


def find_waits(tasks: Sequence[Task], stages: Sequence[Stage]) -> dict[TaskId, tuple[TaskId, ...]]:
    """Return the dependencies of each task."""
    known = {stage.id: stage for stage in stages}
    found: dict[TaskId, tuple[TaskId, ...]] = {}
    for task in tasks:
        if task.after is not None:
            found[task.id] = task.after
            continue
        needed = {other for id in task.stages for other in known[id].after} - set(task.stages)
        found[task.id] = tuple(one.id for one in tasks if one.id != task.id and needed & set(one.stages))
    return found


def read_requests(contract: BuilderContract) -> tuple[tuple[Deed, ...], tuple[str, ...]]:
    """Return the valid actions that a contract requests, and the problems of the others."""
    given = contract.more.get("actions")
    if given is None:
        return (), ()
    if not isinstance(given, list | tuple):
        return (), (f"builder.actions: expected an array of {_FORM}, was {given!r:.80}",)
    items = cast("list[object]", given)
    if len(items) > MAX_REQUESTS:
        return (), (f"builder.actions: expected at most {MAX_REQUESTS}, was {len(items)}",)
    deeds: list[Deed] = []
    problems: list[str] = []
    for place, item in enumerate(items):
        deed = _deed(item)
        if deed is None:
            problems.append(f"builder.actions[{place}]: expected {_FORM}, was {item!r:.120}")
        elif any(MARK in word or redact_text(word) != word for word in (*deed.command, deed.summary)):
            problems.append(
                f"builder.actions[{place}]: it contains a secret, which would be recorded; read the secret where it is used"
            )
        else:
            deeds.append(deed)
    return tuple(deeds), tuple(problems)


def _deed(item: object) -> Deed | None:
    fields = dict(cast(Mapping[str, object], item)) if isinstance(item, Mapping) else {}
    category, summary, command = (fields.pop(name, None) for name in ("category", "summary", "command"))
    limit_s = fields.pop("limit_s", 600.0)
    words = list(cast("Sequence[object]", command)) if isinstance(command, list | tuple) else []
    good = [word for word in words if isinstance(word, str) and "\0" not in word and len(word) <= MAX_WORD]
    if fields or not 0 < len(words) <= MAX_WORDS or len(good) < len(words):
        return None
    # Also refuses other types, infinity and nan: none of them is in the range.
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not 0 < limit_s <= 86_400:
        return None
    if not _is_text(category, 80) or not _is_text(summary, MAX_SUMMARY):
        return None
    return Deed(category=category, summary=summary, command=good, limit_s=float(limit_s))


def _is_text(value: object, most: int) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= most
