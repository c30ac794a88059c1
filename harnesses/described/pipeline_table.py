"""A pipeline that is described by a table, as in a run file, without any Python.

    [[harness]]
    name = "shop"

    [harness.pipeline]
    goal = "A shop for stamps"
    workspace = "shop"
    agents = { dialect = "claude_code", sandbox = "bwrap" }
    validators = { command = ["./reviewer"], name = "reviewer" }
    evidence_policy = { by_stage = { "07-code" = "rerun" } }

    stages             "sdlc" (the default): the 15 of software development; or a list of tables, each a `Stage`
    tasks              "each-stage" (the default), "plan": the eight of `PLAN_TASKS`; or a list of tables, each a `Task`
    deeds              by stage id, lists of tables, each a `Deed`: what is done once a stage's work is found good
    agents             one for all: as for `coding`, but none that is scripted; or a table of them by task id, by what a
    validators         stage's agent is known by, or by "*"; a list of agents is one for each attempt
    evidence_policy    `needed`, `by_kind` and `by_stage`, with reported, observed or rerun
    memory             as `[memory]` of the run file, for this one; false for none

The other keys are the arguments of `PipelineHarness`. Paths are relative to the run file. All mistakes are told at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from harnesses.coding.sources.problems import Problems, meant
from harnesses.described.coding_parts import AGENTS, ByCommand, ByDialect, ByFunction, agent_of
from harnesses.described.memory_table import memory_of
from harnesses.described.table_arguments import Reader, arguments_from, each, keys_of, made_from, typed
from harnesses.described.table_reading import placed, tried
from harnesses.governance.evidence.evidence_ledger import Grade, grade_of
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.harness import PipelineHarness
from harnesses.pipeline.plan.preset import PLAN_TASKS, SDLC_STAGES
from harnesses.pipeline.plan.stage import Stage
from harnesses.pipeline.plan.task import Deed, Task, each_stage

SUBJECT = "pipeline harness"
_AGENTS = (ByCommand, ByDialect, ByFunction)
_WITHOUT = ("nonce", "guardrails")
_TASKS = {"each-stage": None, "plan": PLAN_TASKS}


def described(
    *,
    beside: Path | str = ".",
    name: str = "",
    guardrails: Guardrails | None = None,
    memory: object = None,
    **table: object,
) -> PipelineHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        name: of the harness.
        guardrails: of the harness.
        memory: a table; None or False for none.
        table: the other keys of the table.

    Raises:
        InvalidRequest: it describes none; with all mistakes.
    """
    problems, place = Problems(SUBJECT), Path(beside)
    deeds = _deeds(table.pop("deeds"), "deeds", problems) if "deeds" in table else None
    readers: dict[str, Reader] = {
        "stages": _stages,
        "tasks": _tasks,
        "agents": partial(_agents, beside=place),
        "validators": partial(_agents, beside=place),
        "workspace": partial(_place, beside=place),
        "run_folder": typed(str),
        "evidence_policy": _policy,
        "mode": typed(str),
        "unseen": typed(list[str]),
    }
    if memory is not None and memory is not False:
        table["memory"] = memory
        readers["memory"] = partial(_memory, beside=place, harness=name)
    arguments = arguments_from(table, PipelineHarness, "", problems, readers=readers, without=_WITHOUT)
    if arguments is not None and deeds is not None:
        if "tasks" in table and table["tasks"] != "each-stage":
            problems.add("deeds", "expected them in the tasks, which are named here; move them there")
        stages = arguments.get("stages", SDLC_STAGES)
        arguments["tasks"] = tried(lambda: each_stage(stages, deeds=deeds), "deeds", problems)
    problems.check()
    made = tried(lambda: PipelineHarness(**(arguments or {}), guardrails=guardrails), "", problems)
    problems.check()
    assert made is not None
    return made


KEYS: Mapping[str, tuple[str, ...]] = {
    "pipeline": (*keys_of(PipelineHarness, _WITHOUT), "deeds"),
    "pipeline.stages": keys_of(Stage, ("checks",)),
    "pipeline.tasks": keys_of(Task),
    "pipeline.deeds": keys_of(Deed),
    "pipeline.evidence_policy": keys_of(EvidencePolicy),
}
"""What may be said where: for documentation."""

_TEXTS = typed(list[str])


def _stages(value: object, where: str, problems: Problems) -> object:
    if isinstance(value, str):
        return _find_known(value, {"sdlc": SDLC_STAGES}, where, problems)
    return each(value, where, problems, _stage)


def _stage(value: object, where: str, problems: Problems) -> object:
    readers = {"id": typed(str), "after": _TEXTS, "command": _TEXTS}
    return made_from(value, Stage, where, problems, readers=readers, without=("checks",))


def _tasks(value: object, where: str, problems: Problems) -> object:
    return _find_known(value, _TASKS, where, problems) if isinstance(value, str) else each(value, where, problems, _task)


def _task(value: object, where: str, problems: Problems) -> object:
    readers: dict[str, Reader] = dict.fromkeys(
        ("stages", "acceptance_criteria", "validation_checks", "after", "domains"), _TEXTS
    )
    readers |= {"id": typed(str), "deeds": lambda value, where, problems: each(value, where, problems, _read_action) or ()}
    return made_from(value, Task, where, problems, readers=readers)


def _deeds(value: object, where: str, problems: Problems) -> dict[str, Sequence[Deed]]:
    if not isinstance(value, Mapping):
        problems.add(where, f"expected a table of lists, by stage id, got {value!r:.100}; write one")
        return {}
    tables = cast(Mapping[str, object], value)
    return {stage: each(one, f"{where}: {stage}", problems, _read_action) or [] for stage, one in tables.items()}


def _read_action(value: object, where: str, problems: Problems) -> object:
    return made_from(value, Deed, where, problems, readers={"command": _TEXTS})


def _find_known(value: str, known: Mapping[str, object], where: str, problems: Problems) -> object:
    if value not in known:
        way_out = meant(value, known) or "; choose one, or write a list of tables"
        problems.add(where, f"expected one of {', '.join(known)}, got {value!r:.100}{way_out}")
        return None
    return known[value]


def _agents(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    """Return one agent for all, or agents by whom they are for."""
    keys = {kind.key for kind in AGENTS}
    if isinstance(value, str) or (isinstance(value, Mapping) and keys & cast(Mapping[str, object], value).keys()):
        return agent_of(cast(object, value), beside, problems, where, _AGENTS)
    if not isinstance(value, Mapping) or not value:
        problems.add(where, f"expected an agent, or a table of agents by whom they are for, got {value!r:.100}; write one")
        return None
    tables = cast(Mapping[str, object], value)
    return {key: _one_or_more(one, f"{where}: {key}", problems, beside) for key, one in tables.items()}


def _one_or_more(value: object, where: str, problems: Problems, beside: Path) -> object:
    if not isinstance(value, list):
        return agent_of(value, beside, problems, where, _AGENTS)
    agents = list(enumerate(cast(list[object], value), 1))
    return tuple(agent_of(one, beside, problems, f"{where} {number}", _AGENTS) for number, one in agents)


def _place(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    found = typed(str)(value, where, problems)
    return None if found is None else placed(str(found), beside)


def _policy(value: object, where: str, problems: Problems) -> object:
    readers: Mapping[str, Reader] = {"needed": _grade, "by_kind": _grades, "by_stage": _grades}
    return made_from(value, EvidencePolicy, where, problems, readers=readers)


def _grades(value: object, where: str, problems: Problems) -> dict[str, Grade]:
    found: Any = typed(dict[str, str])(value, where, problems)
    return {key: _grade(one, f"{where}: {key}", problems) for key, one in cast(dict[str, str], found or {}).items()}


def _grade(value: object, where: str, problems: Problems) -> Grade:
    if (grade := grade_of(value)) is not None and isinstance(value, str):
        return grade
    problems.add(where, f"expected one of {', '.join(grade.word for grade in Grade)}, got {value!r:.100}; choose one")
    return Grade.OBSERVED


def _memory(value: object, where: str, problems: Problems, *, beside: Path, harness: str) -> object:
    table: object = {} if value is True else value
    if not isinstance(table, Mapping):
        problems.add(where, f"expected a table, true or false, got {value!r:.100}; write one")
        return None
    given = cast(Mapping[str, object], table)
    return tried(lambda: memory_of(given, beside, harness), "", problems)
