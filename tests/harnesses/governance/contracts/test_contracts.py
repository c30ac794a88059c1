"""Contracts are read with every mistake named, and what is written is read back the same."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.governance import (
    BuilderContract,
    BuilderStatus,
    Check,
    ContractError,
    Identity,
    MemorySummary,
    Recommendation,
    StageSummary,
    ValidatorContract,
    ValidatorStatus,
    read_builder,
    read_validator,
    to_json,
)
from harnesses.governance.contracts.contract_json import plain

BUILDER: dict[str, Any] = {
    "task_id": "004",
    "agent": "builder",
    "status": "PASS",
    "summary": "wrote the parser",
    "files_modified": ["a.py"],
    "tests_run": ["pytest: 3 passed"],
    "risks": [],
    "next_steps": [],
}
VALIDATOR: dict[str, Any] = {
    "task_id": "004",
    "validator": "checker",
    "status": "PASS",
    "checks": [{"name": "tests", "status": "PASS", "evidence": "3 passed"}],
    "issues": [],
    "retry_recommendation": "none",
}
BUILDER_NEEDED = ("task_id", "agent", "status", "summary", "files_modified", "tests_run", "risks", "next_steps")
VALIDATOR_NEEDED = ("task_id", "validator", "status", "checks", "issues", "retry_recommendation")


def names_of(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(cls))


def problems_of(data: Any, *, read: Any = read_builder, task_id: str = "004") -> tuple[str, ...]:
    with pytest.raises(ContractError) as caught:
        read(data, task_id=task_id)
    return caught.value.problems


@pytest.mark.parametrize("name", BUILDER_NEEDED)
@pytest.mark.parametrize("gone", ["nothing", "null"])
def test_a_builder_contract_needs_each_of_its_eight_fields(name: str, gone: str) -> None:
    data = {key: value for key, value in BUILDER.items() if key != name} | ({name: None} if gone == "null" else {})

    assert [problem.split(":")[0] for problem in problems_of(data)] == [f"builder.{name}"]
    assert f"got {gone}" in problems_of(data)[0]


@pytest.mark.parametrize("name", VALIDATOR_NEEDED)
def test_a_validator_contract_needs_each_of_its_six_fields(name: str) -> None:
    data = {key: value for key, value in VALIDATOR.items() if key != name}

    assert [problem.split(":")[0] for problem in problems_of(data, read=read_validator)] == [f"validator.{name}"]


@pytest.mark.parametrize("status", BuilderStatus)
def test_a_builder_has_four_statuses(status: BuilderStatus) -> None:
    assert read_builder(BUILDER | {"status": status.value}, task_id="004").status is status


@pytest.mark.parametrize("status", ["pass", "PASSED", "", "OK", 1, True, ["PASS"], {"PASS": 1}])
def test_any_other_status_is_refused(status: object) -> None:
    [problem] = problems_of(BUILDER | {"status": status})

    assert problem.startswith("builder.status: expected PASS, FAIL, BLOCKED or DONE_WITH_CONCERNS, got ")


@pytest.mark.parametrize("name", ["files_modified", "tests_run", "risks", "next_steps"])
@pytest.mark.parametrize("value", ["a.py", {"0": "a.py"}, 3, True])
def test_what_must_be_a_list_is_one(name: str, value: object) -> None:
    [problem] = problems_of(BUILDER | {name: value})

    assert problem.startswith(f"builder.{name}: expected a list of texts, got ")


def test_the_task_must_be_the_one_that_was_asked_for() -> None:
    [problem] = problems_of(BUILDER, task_id="005")

    assert problem.startswith("builder.task_id: expected '005', got '004'")


def test_an_agent_that_does_not_name_itself_is_the_one_that_was_asked() -> None:
    data = {key: value for key, value in BUILDER.items() if key != "agent"}

    assert read_builder(data, task_id="004", agent="claude").agent == "claude"


def test_every_problem_is_told_at_once_with_its_path() -> None:
    stages = [{"stage_id": "07", "evidence": []}, {"stage_id": "08", "evidence": ["x", 3]}]

    told = problems_of(BUILDER | {"summary": 5, "stage_summaries": stages, "cost": -1, "execution": {"tool_calls": "9"}})

    assert [problem.split(":")[0] for problem in told] == [
        "builder.summary",
        "builder.stage_summaries[1].evidence[1]",
        "builder.execution.tool_calls",
        "builder.cost",
    ]


@pytest.mark.parametrize("status", ["PASS", "FAIL"])
@pytest.mark.parametrize("recommendation", ["none", "retry_builder", "ask_user", "block"])
def test_a_validator_says_pass_or_fail_and_what_is_to_follow(status: str, recommendation: str) -> None:
    read = read_validator(VALIDATOR | {"status": status, "retry_recommendation": recommendation}, task_id="004")

    assert (read.status, read.retry_recommendation) == (ValidatorStatus(status), Recommendation(recommendation))


def test_a_check_of_a_validator_has_a_name_a_status_and_evidence() -> None:
    told = problems_of(VALIDATOR | {"checks": [{"status": "MAYBE"}, "x"]}, read=read_validator)

    assert [problem.split(":")[0] for problem in told] == [
        "validator.checks[1]",
        "validator.checks[0].status",
        "validator.checks[0].name",
        "validator.checks[0].evidence",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"task_id": "004"', "expected JSON, got a syntax error at line 1"),
        ("[]", "expected an object, got a list of 0 items"),
        ("null", "expected an object, got null"),
        ('{"a": 1, "a": 2}', "expected each field once, got 'a' twice in one object"),
        ('{"cost": NaN}', "expected numbers that JSON has, got NaN"),
        ('{"cost": -Infinity}', "expected numbers that JSON has, got -Infinity"),
        ('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}", "expected at most 32 levels"),
        ('{"x": ' + "9" * 10_000 + "}", "expected numbers of 64 bits"),
        (b'{"task_id": "\xff"}', "expected UTF-8, got invalid start byte at byte 13"),
        ('"' + "x" * 1_000_001, "expected at most 1000000 characters"),
    ],
)
def test_what_other_programs_would_read_otherwise_is_no_contract(text: str | bytes, why: str) -> None:
    [problem] = problems_of(text)

    assert problem.startswith(f"builder: {why}")


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"x": float("nan")}, "builder.x"),
        ({"x": [1, {"y": float("inf")}]}, "builder.x[1].y"),
        ({"x": 2**63}, "builder.x"),
        ({"x": "\ud800"}, "builder.x"),
        ({"summary": "a\0b"}, "builder.summary"),
        ({"summary": "x" * 20_001}, "builder.summary"),
        ({"risks": ["x"] * 10_001}, "builder.risks"),
        ({"x": object()}, "builder.x"),
        ({"routing": {1: 2}}, "builder.routing"),
        ({"context": []}, "builder.context"),
        ({"cost": {"actual_usd": float("nan")}}, "builder.cost.actual_usd"),
        ({"cost": {"estimated_usd": True}}, "builder.cost.estimated_usd"),
        ({"execution": {"messages": 1.5}}, "builder.execution.messages"),
        ({"memory_summary": []}, "builder.memory_summary"),
        ({"identity": {"name": 3}}, "builder.identity.name"),
    ],
)
def test_what_can_not_be_kept_is_refused_with_its_path(more: dict[str, object], path: str) -> None:
    [problem] = problems_of(BUILDER | more)

    assert problem.startswith(f"{path}: expected ")


def test_nesting_within_the_json_limit_but_beyond_ours_is_refused_with_a_bounded_path() -> None:
    deep: object = 1
    for _ in range(300):
        deep = {"a": deep}

    [problem] = problems_of(BUILDER | {"routing": deep})

    assert problem.startswith("builder.routing.a.a.a")
    assert len(problem) < 400


def test_a_message_shows_no_more_than_a_few_words_of_what_it_refuses() -> None:
    [problem] = problems_of(BUILDER | {"status": "\x1b[31m" + "x" * 10_000})

    assert len(problem) < 300
    assert "\x1b" not in problem


def test_fields_that_are_not_known_are_kept_and_written_back() -> None:
    data = BUILDER | {"mood": {"level": [1, None]}, "identity": {"name": "b", "colour": "red"}}

    contract = read_builder(data, task_id="004")

    assert contract.more == {"mood": {"level": [1, None]}}
    assert contract.identity == Identity("b", more={"colour": "red"})
    assert json.loads(to_json(contract)) == data


def test_a_bare_cost_is_what_was_paid() -> None:
    assert read_builder(BUILDER | {"cost": 0.25}, task_id="004").cost == {"actual_usd": 0.25}


def test_what_could_not_be_read_back_is_not_written() -> None:
    contract = read_builder(BUILDER, task_id="004")

    with pytest.raises(ContractError, match=r"builder\.x: expected a JSON value"):
        to_json(BuilderContract(**{**plain(contract), "more": {"x": float("nan")}}))


def test_a_byte_order_mark_changes_nothing() -> None:
    assert read_builder(b"\xef\xbb\xbf" + json.dumps(BUILDER).encode(), task_id="004").agent == "builder"


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
names = texts.filter(str.strip)
lists = st.lists(texts, max_size=3)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)
free = st.dictionaries(texts, values, max_size=3)
evidence = st.lists(texts | free, max_size=3)


def _more(*known: str) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(texts.filter(lambda name: name not in known), values, max_size=2)


identities = st.none() | st.builds(Identity, texts, texts, texts, more=_more("name", "harness", "model"))
stages = st.builds(StageSummary, names, texts, texts, evidence, lists, lists, more=_more(*names_of(StageSummary)))
memories = st.builds(MemorySummary, texts, lists, evidence, lists, lists, lists, more=_more(*names_of(MemorySummary)))
builders = st.builds(
    BuilderContract,
    task_id=names,
    agent=names,
    status=st.sampled_from(BuilderStatus),
    summary=texts,
    files_modified=lists,
    tests_run=lists,
    risks=lists,
    next_steps=lists,
    memory_summary=st.none() | memories,
    stage_summaries=st.lists(stages, max_size=2),
    identity=identities,
    execution=st.none() | free,
    cost=st.none() | free,
    context=st.none() | free,
    routing=st.none() | free,
    nonce=texts,
    more=_more(*names_of(BuilderContract)),
)
checks = st.builds(Check, names, st.sampled_from(ValidatorStatus), texts, more=_more("name", "status", "evidence"))
validators = st.builds(
    ValidatorContract,
    task_id=names,
    validator=names,
    status=st.sampled_from(ValidatorStatus),
    checks=st.lists(checks, max_size=3),
    issues=lists,
    retry_recommendation=st.sampled_from(Recommendation),
    identity=identities,
    nonce=texts,
    more=_more(*names_of(ValidatorContract)),
)


@settings(max_examples=50, deadline=None)
@given(builders)
def test_a_builder_contract_is_read_back_as_it_was_written(contract: BuilderContract) -> None:
    text = to_json(contract)

    assert read_builder(text, task_id=contract.task_id) == contract
    assert to_json(read_builder(text.encode(), task_id=contract.task_id)) == text


@settings(max_examples=40, deadline=None)
@given(validators)
def test_a_validator_contract_is_read_back_as_it_was_written(contract: ValidatorContract) -> None:
    assert read_validator(to_json(contract), task_id=contract.task_id) == contract


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from([*names_of(BuilderContract)[:16], "x"]) | texts, values | evidence, max_size=12))
def test_whatever_is_handed_in_is_a_contract_that_can_be_written_or_an_error_with_paths(data: dict[str, Any]) -> None:
    try:
        contract = read_builder(data, task_id="004")
    except ContractError:
        assert all(problem.startswith("builder") and ": expected " in problem for problem in problems_of(data))
    else:
        assert read_builder(to_json(contract), task_id="004") == contract


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_whatever_text_is_handed_in_is_read_or_refused(text: str | bytes) -> None:
    with pytest.raises(ContractError):
        read_builder(text, task_id="004")


@settings(max_examples=50, deadline=None)
@given(builders, st.data())
def test_a_value_of_another_kind_anywhere_is_named_by_its_path(contract: BuilderContract, data: st.DataObject) -> None:
    fields = plain(contract)
    name = data.draw(st.sampled_from([name for name in BUILDER_NEEDED if name != "task_id"]))
    fields[name] = data.draw(st.sampled_from([3, True, {"a": 1}, 1.5]))

    assert f"builder.{name}" in {problem.split(":")[0] for problem in problems_of(fields, task_id=contract.task_id)}
