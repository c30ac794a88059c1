"""Reads and writes contracts of builders and validators as JSON. Pure.

    builder     task_id¹ agent² status summary files_modified tests_run risks next_steps          all needed
                memory_summary stage_summaries identity execution cost context routing nonce      may be left out
    validator   task_id¹ validator status checks issues retry_recommendation                      all needed
                identity nonce                                                                    may be left out

    ¹ must be that of the requested task        ² default: the agent that was asked

Invariants: all problems are reported at once, each with the path of its value. `to_json` and reading are inverse. Unknown
fields are kept in `more` and written back, but never checked. `null` counts as absent.

Limits: 1,000,000 characters in all, 20,000 per text, 10,000 items per list, 32 levels, numbers of 64 bits. Duplicate keys,
NaN, infinity, NUL and lone surrogates are refused, because other programs would read them differently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from attrs import asdict

from harnesses.diagnostics.control_characters import inert_json
from harnesses.governance.contracts.contract import (
    BuilderContract,
    BuilderStatus,
    Check,
    Identity,
    MemorySummary,
    Recommendation,
    StageSummary,
    ValidatorContract,
    ValidatorStatus,
)
from harnesses.governance.contracts.contract_fields import MAX_DOCUMENT, Fields, is_number, read_document
from harnesses.governance.errors import ContractError

_MONEY = ("estimated_usd", "actual_usd")
_COUNTS = ("tool_calls", "messages")


def read_builder(data: Mapping[str, object] | str | bytes, *, task_id: str, agent: str | None = None) -> BuilderContract:
    """Read the contract of a builder.

    Args:
        data: JSON text, or the decoded object.
        task_id: id of the requested task.
        agent: the agent that was asked; the default of the `agent` field.

    Raises:
        ContractError: with all problems and their paths.
    """
    return cast(BuilderContract, read_document(data, "builder", partial(_builder, task_id=task_id, agent=agent)))


def read_validator(data: Mapping[str, object] | str | bytes, *, task_id: str) -> ValidatorContract:
    """Read the contract of a validator; see `read_builder`."""
    return cast(ValidatorContract, read_document(data, "validator", partial(_validator, task_id=task_id)))


def plain(contract: BuilderContract | ValidatorContract) -> dict[str, Any]:
    """Return a contract as the object that is written: fields in the order of the table, without absent ones."""
    return cast(dict[str, Any], _plain(asdict(contract), _ALWAYS[type(contract)]))


def to_json(contract: BuilderContract | ValidatorContract) -> str:
    """Return a contract as JSON text; deterministic.

    Raises:
        ContractError: it contains a value that could not be read back.
    """
    fields = plain(contract)
    if isinstance(contract, BuilderContract):
        read_builder(fields, task_id=contract.task_id)
    else:
        read_validator(fields, task_id=contract.task_id)
    text = inert_json(json.dumps(fields, ensure_ascii=False, indent=2))
    if len(text) > MAX_DOCUMENT:
        raise ContractError(f"contract of {contract.task_id!r}: expected at most {MAX_DOCUMENT} characters, got {len(text)}")
    return text + "\n"


_ALWAYS = {
    BuilderContract: frozenset(
        {"task_id", "agent", "status", "summary", "files_modified", "tests_run", "risks", "next_steps"}
    ),
    ValidatorContract: frozenset({"task_id", "validator", "status", "checks", "issues", "retry_recommendation"}),
}
_ALWAYS_INSIDE = frozenset({"name", "status", "evidence", "stage_id", "work_done", "context_to_keep", "context_to_drop"})


def _plain(value: Any, always: frozenset[str] = _ALWAYS_INSIDE) -> Any:
    """Return the fields that are not empty or are named in `always`, followed by those of `more`."""
    more = value["more"]
    made: dict[str, Any] = {}
    for name, item in value.items():
        if name != "more" and (name in always or item not in (None, "", (), [])):
            made[name] = _plain_item(name, item)
    # Known fields take precedence: no field appears twice.
    return made | {name: item for name, item in more.items() if name not in value}


def _plain_item(name: str, item: Any) -> Any:
    if name in ("memory_summary", "identity"):
        return _plain(item)
    if name in ("stage_summaries", "checks"):
        return [_plain(one) for one in item]
    if isinstance(item, list | tuple):
        return list(cast("list[object]", item))
    return item.value if isinstance(item, BuilderStatus | ValidatorStatus | Recommendation) else item


def _builder(fields: Fields, *, task_id: str, agent: str | None) -> BuilderContract:
    memory = fields.inner("memory_summary")
    return BuilderContract(
        task_id=_task(fields, task_id),
        agent=fields.text("agent", required=agent is None, blank=False) or agent or "",
        status=fields.word("status", BuilderStatus, BuilderStatus.FAIL),
        summary=fields.text("summary"),
        files_modified=fields.texts("files_modified", required=True),
        tests_run=fields.texts("tests_run", required=True),
        risks=fields.texts("risks", required=True),
        next_steps=fields.texts("next_steps", required=True),
        memory_summary=None if memory is None else _memory(memory),
        stage_summaries=tuple(map(_stage, fields.inners("stage_summaries"))),
        identity=_identity(fields),
        execution=_check_counts(fields, "execution", _COUNTS, whole=True),
        cost=_cost(fields),
        context=fields.free("context"),
        routing=fields.free("routing"),
        nonce=fields.text("nonce", required=False),
        more=fields.rest(),
    )


def _validator(fields: Fields, *, task_id: str) -> ValidatorContract:
    return ValidatorContract(
        task_id=_task(fields, task_id),
        validator=fields.text("validator", blank=False),
        status=fields.word("status", ValidatorStatus, ValidatorStatus.FAIL),
        checks=tuple(map(_check, fields.inners("checks", required=True))),
        issues=fields.texts("issues", required=True),
        retry_recommendation=fields.word("retry_recommendation", Recommendation, Recommendation.BLOCK),
        identity=_identity(fields),
        nonce=fields.text("nonce", required=False),
        more=fields.rest(),
    )


def _task(fields: Fields, task_id: str) -> str:
    given = fields.text("task_id", blank=False)
    if given and given != task_id:
        fields.refuse(f"{fields.path}.task_id", repr(task_id), given, "hand in the contract of the requested task")
    return given


def _identity(fields: Fields) -> Identity | None:
    found = fields.inner("identity")
    if found is None:
        return None
    harness, model = found.text("harness", required=False), found.text("model", required=False)
    return Identity(found.text("name", required=False), harness, model, more=found.rest())


def _memory(fields: Fields) -> MemorySummary:
    return MemorySummary(
        fields.text("work_done", required=False),
        fields.texts("decisions"),
        fields.evidence("evidence"),
        fields.texts("context_to_keep"),
        fields.texts("context_to_drop"),
        fields.texts("next_agent_hints"),
        more=fields.rest(),
    )


def _stage(fields: Fields) -> StageSummary:
    return StageSummary(
        fields.text("stage_id", blank=False),
        fields.text("agent_id", required=False),
        fields.text("work_done", required=False),
        fields.evidence("evidence"),
        fields.texts("context_to_keep"),
        fields.texts("context_to_drop"),
        more=fields.rest(),
    )


def _check(fields: Fields) -> Check:
    status = fields.word("status", ValidatorStatus, ValidatorStatus.FAIL)
    return Check(fields.text("name", blank=False), status, fields.text("evidence"), more=fields.rest())


def _check_counts(fields: Fields, name: str, numbers: tuple[str, ...], *, whole: bool) -> dict[str, object] | None:
    """Return an object in which the fields `numbers` must be numbers from 0 up."""
    found = fields.free(name)
    for key in numbers:
        value = None if found is None else found.get(key)
        right = is_number(value) and cast(float, value) >= 0 and (not whole or isinstance(value, int))
        if value is not None and not right:
            fields.refuse(f"{fields.path}.{name}.{key}", f"a {'whole ' if whole else ''}number from 0 up", value)
    return found


def _cost(fields: Fields) -> dict[str, object] | None:
    bare = fields.raw("cost")
    if bare is None or isinstance(bare, Mapping):
        return _check_counts(fields, "cost", _MONEY, whole=False)
    if not is_number(bare) or cast(float, bare) < 0:
        fields.refuse(f"{fields.path}.cost", "an object, or a number from 0 up", bare)
    return {"actual_usd": bare}
