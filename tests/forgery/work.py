"""A piece of work with all that proves it, and how it is judged: by the same calls that a harness makes."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from attrs import define, field

from harnesses.governance import (
    Check,
    Claim,
    ContractError,
    Evidence,
    EvidenceError,
    EvidencePolicy,
    Grade,
    Guardrails,
    ValidatorContract,
    bind,
    completeness,
    file_checks,
    independent,
    judge,
    read_builder,
    read_ledger,
    read_reported,
    read_validator,
    telemetry_checks,
    unreadable,
)

STAGES = ("07-code", "08-testing")
FILES = ("src/parser.py", "src/words.py", "tests/test_parser.py")
POLICY = EvidencePolicy(Grade.OBSERVED, by_kind={"tests": Grade.RERUN}, by_stage={"08-testing": Grade.OBSERVED})
TS = "2026-01-31T12:00:00Z"


@define
class Work:
    """What is handed in, what is in the ledger, and what is in the folder."""

    root: Path
    claim: Claim
    builder: dict[str, Any]
    validator: dict[str, Any]
    ledger: list[dict[str, Any]]
    rails: Guardrails = field(factory=Guardrails)
    text: str | bytes | None = None
    """Of the builder's contract, where that is not the JSON of `builder`."""
    reported: list[dict[str, Any]] = field(factory=list)
    """What the agent would have in the ledger."""


def honest(folder: Path, chance: random.Random) -> Work:
    """Return work that counts; what it says, and how much of it there is, differs."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in FILES:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"# {chance.random()}\n")
    nonce, attempt = f"{chance.getrandbits(128):032x}", chance.randint(1, 2)
    said = ["wrote the parser and its words", "the parser reads what it could not read", "ready: parser, words, tests"]
    stages = [
        {"stage_id": stage, "agent_id": f"agent.{stage}", "work_done": chance.choice(said), "evidence": [FILES[place]]}
        for place, stage in enumerate(STAGES)
    ]
    builder = {
        "task_id": "004-implementation",
        "agent": "builder",
        "status": chance.choice(["PASS", "DONE_WITH_CONCERNS"]),
        "summary": chance.choice(said),
        "files_modified": chance.sample(FILES, 3),
        "tests_run": chance.choice(
            [["pytest: 12 passed"], ["pytest -q", "ruff"], ["SKIPPED: no network", "pytest: 3 passed"]]
        ),
        "risks": chance.choice([[], ["long lines"]]),
        "next_steps": [],
        "memory_summary": {"work_done": chance.choice(said), "evidence": [{"file": FILES[2]}]},
        "stage_summaries": stages,
        "execution": {"tool_calls": chance.randint(0, 40), "messages": chance.randint(0, 25)},
        "nonce": nonce,
        "mood": chance.choice(["good", None, {"level": 3}]),
    }
    validator = {
        "task_id": "004-implementation",
        "validator": chance.choice(["checker", "reviewer", "builder's keeper"]),
        "status": "PASS",
        "checks": [{"name": "reads well", "status": "PASS", "evidence": "it does"}],
        "issues": [],
        "retry_recommendation": "none",
        "nonce": nonce,
    }
    ledger = [
        _entry(folder, attempt, "validation", Grade.OBSERVED, FILES),
        _entry(folder, attempt, "tests", Grade.RERUN, FILES[1:], "08-testing"),
    ]
    return Work(folder, Claim(task_id="004-implementation", attempt=attempt, nonce=nonce), builder, validator, ledger)


def _entry(root: Path, attempt: int, kind: str, grade: Grade, files: tuple[str, ...], stage: str = "") -> dict[str, Any]:
    found = "12 passed"
    return Evidence(
        ts=TS,
        task_id="004-implementation",
        kind=kind,
        status="PASS",
        evidence=found,
        grade=grade,
        attempt=attempt,
        stage_id=stage,
        subject=bind(root, files),
    ).plain()


def judged(work: Work) -> ValidatorContract | str:
    """Return the verdict on it; why it was refused, if it came to none."""
    task = work.claim.task_id
    try:
        entries, bad = read_ledger(work.ledger)
        entries += tuple(_as_reported(work, row) for row in work.reported)
        said = read_validator(json.dumps(work.validator), task_id=task)
        try:
            contract = read_builder(work.text if work.text is not None else json.dumps(work.builder), task_id=task)
        except ContractError as error:
            return judge(work.claim, None, unreadable(error), (), validator=said)
        checks: tuple[Check, ...] = (
            *completeness(contract, stages=STAGES),
            *file_checks(contract, work.root),
            independent(contract, said),
            *telemetry_checks(contract, work.rails),
        )
        covering = contract.files_modified
        evidence = POLICY.met_by(entries, work.root, stages=STAGES, attempt=work.claim.attempt, covering=covering)
        return judge(work.claim, contract, checks, evidence, validator=said) if not bad else bad[0]
    except (ContractError, EvidenceError) as error:
        return str(error)


def _as_reported(work: Work, row: dict[str, Any]) -> Evidence:
    return read_reported(row, task_id=work.claim.task_id, attempt=work.claim.attempt, ts=TS)
