"""Reads a pipeline harness from a table of a run file, without Python code.

    [[harness]]
    name = "shop"

    [harness.pipeline]
    goal = "A shop for stamps"
    workspace = "shop"
    agents = { dialect = "claude_code", sandbox = "bwrap" }
    validators = { command = ["./reviewer"], name = "reviewer" }
    evidence_policy = { by_stage = { "07-code" = "rerun" } }

    stages             "sdlc" (the default): 15 stages of software development; or a list of tables, each a `Stage`
    tasks              "each-stage" (the default), "plan": the eight of `PLAN_TASKS`; or a list of tables, each a `Task`
    deeds              by stage id, lists of tables, each a `Deed`: actions to take once a stage has passed validation
    agents             one for all, in any form of `coding` except scripted; or a table of them by task id, by the name that a
                       stage gives its agent, or by "*"; a list has one agent for each attempt
    validators         in the same forms, without lists
    evidence_policy    `needed`, `by_kind` and `by_stage`, with reported, observed or rerun
    memory             overrides `[memory]` of the run file; false disables memory

The other keys are the arguments of `PipelineHarness`. Paths are relative to the run file. All mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from harnesses.errors import near
from harnesses.governance.evidence.evidence_ledger import Grade, grade_of
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.pipeline.harness import PipelineHarness
from harnesses.pipeline.plan.preset import PLAN_TASKS, SDLC_STAGES
from harnesses.pipeline.plan.stage import Stage
from harnesses.pipeline.plan.task import Deed, Task, each_stage
from harnesses.run_file_harnesses.coding_parts import AGENTS, read_agent
from harnesses.run_file_harnesses.memory_table import memory_of
from harnesses.run_file_harnesses.table_arguments import (
    Reader,
    TableProblems,
    attempt,
    keys_of,
    make_from,
    read_arguments,
    read_list,
    read_path,
    reader_of,
)

SUBJECT = "pipeline harness"
_WITHOUT = ("nonce", "guardrails")


def read_harness(
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
        name: the name of the harness.
        guardrails: the guardrails of the harness.
        memory: a table; None or False for no memory.
        table: the other keys of the table.

    Raises:
        InvalidRequest: the table is invalid; lists all mistakes.
    """
    problems = TableProblems(SUBJECT, beside=Path(beside))
    deeds = _read_deeds(table.pop("deeds"), "deeds", problems) if "deeds" in table else None
    readers: dict[str, Reader] = {**_READERS, "memory": partial(_read_memory, harness=name)}
    if memory is not None and memory is not False:
        table["memory"] = memory
    arguments = read_arguments(PipelineHarness, table, "", problems, readers=readers, without=_WITHOUT, own=("deeds",))
    if arguments is not None and deeds is not None:
        if "tasks" in table and table["tasks"] != "each-stage":
            problems.add("deeds", "expected them in the tasks, which are named here; move them there")
        stages = arguments.get("stages", SDLC_STAGES)
        arguments["tasks"] = attempt(lambda: each_stage(stages, deeds=deeds), "deeds", problems)
    problems.check()
    made = attempt(lambda: PipelineHarness(**(arguments or {}), guardrails=guardrails), "", problems)
    problems.check()
    assert made is not None
    return made


described = read_harness
"""Former name of `read_harness`."""


KEYS: Mapping[str, tuple[str, ...]] = {
    "pipeline": (*keys_of(PipelineHarness, _WITHOUT), "deeds"),
    "pipeline.stages": keys_of(Stage, ("checks",)),
    "pipeline.tasks": keys_of(Task),
    "pipeline.deeds": keys_of(Deed),
    "pipeline.evidence_policy": keys_of(EvidencePolicy),
}
"""Allowed keys by table, for the documentation."""

_TEXT, _TEXTS = reader_of(str), reader_of(list[str])
_read_action: Reader = partial(make_from, Deed, readers={"command": _TEXTS})
_read_stage: Reader = partial(make_from, Stage, readers={"id": _TEXT, "after": _TEXTS, "command": _TEXTS}, without=("checks",))


def _read_named(known: Mapping[str, object], read: Reader, value: object, where: str, problems: TableProblems) -> object:
    """Return the preset with the given name, or the objects described by a list of tables."""
    if not isinstance(value, str):
        return read_list(read, value, where, problems)
    if value not in known:
        way_out = near(value, known) or "; choose one, or write a list of tables"
        problems.add(where, f"expected one of {', '.join(known)}, got {value!r:.100}{way_out}")
        return None
    return known[value]


def _read_task(value: object, where: str, problems: TableProblems) -> Task | None:
    texts = ("stages", "acceptance_criteria", "validation_checks", "after", "domains")
    readers: dict[str, Reader] = {**dict.fromkeys(texts, _TEXTS), "id": _TEXT, "deeds": partial(read_list, _read_action)}
    return make_from(Task, value, where, problems, readers=readers)


def _read_deeds(value: object, where: str, problems: TableProblems) -> dict[str, Sequence[Deed]]:
    if not isinstance(value, Mapping):
        problems.add(where, f"expected a table of lists, by stage id, got {value!r:.100}; write one")
        return {}
    tables = cast(Mapping[str, object], value)
    return {stage: read_list(_read_action, one, f"{where}: {stage}", problems) or [] for stage, one in tables.items()}


_read_agent: Reader = partial(read_agent, kinds=("command", "dialect", "model", "function"))


def _read_agents(value: object, where: str, problems: TableProblems) -> object:
    """Return one agent for all tasks, or a table of agents by task id or name."""
    if isinstance(value, str) or (isinstance(value, Mapping) and AGENTS.keys() & cast(Mapping[str, object], value).keys()):
        return _read_agent(cast(object, value), where, problems)
    if not isinstance(value, Mapping) or not value:
        problems.add(where, f"expected an agent, or a table of agents by task id or name, got {value!r:.100}; write one")
        return None
    tables = cast(Mapping[str, object], value)
    return {key: _read_one_or_more(one, f"{where}: {key}", problems) for key, one in tables.items()}


def _read_one_or_more(value: object, where: str, problems: TableProblems) -> object:
    if not isinstance(value, list):
        return _read_agent(value, where, problems)
    agents = enumerate(cast(list[object], value), 1)
    return tuple(_read_agent(one, f"{where} {number}", problems) for number, one in agents)


def _read_grades(value: object, where: str, problems: TableProblems) -> dict[str, Grade]:
    found: dict[str, str] = reader_of(dict[str, str])(value, where, problems) or {}
    return {key: _read_grade(one, f"{where}: {key}", problems) for key, one in found.items()}


def _read_grade(value: object, where: str, problems: TableProblems) -> Grade:
    if (grade := grade_of(value)) is not None and isinstance(value, str):
        return grade
    problems.add(where, f"expected one of {', '.join(grade.word for grade in Grade)}, got {value!r:.100}; choose one")
    return Grade.OBSERVED


def _read_memory(value: object, where: str, problems: TableProblems, *, harness: str) -> object:
    table: object = {} if value is True else value
    if not isinstance(table, Mapping):
        problems.add(where, f"expected a table, true or false, got {value!r:.100}; write one")
        return None
    given = cast(Mapping[str, object], table)
    return attempt(lambda: memory_of(given, problems.beside, harness), "", problems)


_POLICY: Mapping[str, Reader] = {"needed": _read_grade, "by_kind": _read_grades, "by_stage": _read_grades}
_READERS: Mapping[str, Reader] = {
    "stages": partial(_read_named, {"sdlc": SDLC_STAGES}, _read_stage),
    "tasks": partial(_read_named, {"each-stage": None, "plan": PLAN_TASKS}, _read_task),
    "agents": _read_agents,
    "validators": _read_agents,
    "workspace": read_path,
    "run_folder": _TEXT,
    "evidence_policy": partial(make_from, EvidencePolicy, readers=_POLICY),
    "mode": _TEXT,
    "unseen": _TEXTS,
}
