"""What the reliability layer that this one follows showed by its own examples and tests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import asdict

from harnesses.governance import (
    ContractError,
    Evidence,
    EvidenceError,
    Guardrails,
    completeness,
    read_builder,
    read_reported,
    read_validator,
)

BUILDER: dict[str, Any] = {
    "task_id": "004-implementation",
    "agent": "agent.07-code",
    "status": "PASS",
    "summary": "Implemented the login form.",
    "files_modified": ["src/login.js"],
    "tests_run": ["npm test"],
    "risks": [],
    "next_steps": [],
}
SUMMARIES: dict[str, Any] = json.loads("""
{
  "memory_summary": {
    "work_done": "",
    "decisions": [],
    "evidence": [],
    "context_to_keep": [],
    "context_to_drop": [],
    "next_agent_hints": []
  },
  "stage_summaries": [
    {
      "stage_id": "07-code",
      "agent_id": "agent.07-code",
      "work_done": "",
      "evidence": [],
      "context_to_keep": [],
      "context_to_drop": []
    }
  ]
}
""")
LINE = """
{"task_id":"004-implementation","kind":"validation","status":"PASS","evidence":"tasks/004-implementation/validation.json"}
"""


def failed(data: dict[str, Any]) -> list[str]:
    contract = read_builder(json.dumps(data), task_id="004-implementation")
    return [check.name for check in completeness(contract, stages=["07-code"]) if not check.ok]


def test_a_builder_that_passes_without_the_summaries_is_not_complete() -> None:
    lacking = ["memory_summary_work_done", "memory_summary_evidence", "stage_summary:07-code"]

    assert failed(BUILDER) == lacking
    assert failed(BUILDER | SUMMARIES) == lacking


def test_the_summaries_as_they_are_asked_for_filled_in_are_complete() -> None:
    filled = json.loads(json.dumps(SUMMARIES))
    for summary in (filled["memory_summary"], *filled["stage_summaries"]):
        summary |= {"work_done": "Implemented the login form.", "evidence": ["npm test: 12 passed"]}

    assert failed(BUILDER | filled) == []


def test_a_line_of_the_ledger_is_stamped_and_kept() -> None:
    entry = read_reported(json.loads(LINE), task_id="004-implementation", attempt=1, ts="2026-01-31T12:00:00Z")

    assert list(entry.plain())[:5] == ["ts", "task_id", "kind", "status", "evidence"]
    assert entry.plain().items() >= json.loads(LINE).items()


@pytest.mark.parametrize("name", ["task_id", "kind", "status", "evidence"])
def test_a_line_without_one_of_its_fields_is_rejected(name: str) -> None:
    fields = {key: value for key, value in json.loads(LINE).items() if key != name}

    with pytest.raises(EvidenceError):
        Evidence(ts="2026-01-31T12:00:00Z", **fields)


@pytest.mark.parametrize("contract", ["missing checks", "unknown recommendation", "other task"])
def test_a_validator_that_does_not_keep_to_its_contract_is_refused(contract: str) -> None:
    data: dict[str, Any] = {
        "task_id": "004-implementation" if contract != "other task" else "005-testing",
        "validator": "agent.08-testing",
        "status": "PASS",
        "checks": [],
        "issues": [],
        "retry_recommendation": "none" if contract != "unknown recommendation" else "shrug",
    }
    if contract == "missing checks":
        del data["checks"]

    with pytest.raises(ContractError):
        read_validator(json.dumps(data), task_id="004-implementation")


def test_the_nine_guardrails_have_the_names_and_defaults_that_they_had() -> None:
    theirs = {
        "maxTaskAttempts": 2,
        "maxDestructiveTaskAttempts": 1,
        "maxToolCallsPerTask": 40,
        "maxMessagesPerTask": 25,
        "requireBuilderContract": True,
        "requireValidatorContract": True,
        "requireEvidenceForPass": True,
        "requireUserApprovalForDestructiveActions": True,
        "requireUserApprovalForPublishDeployOrForcePush": True,
    }

    ours = list(asdict(Guardrails()).items())[:9]

    assert {"".join(part.title() for part in name.split("_")): value for name, value in ours} == {
        name[0].upper() + name[1:]: value for name, value in theirs.items()
    }
