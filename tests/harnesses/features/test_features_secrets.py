"""What an agent says and a validator has seen enters the state without the secrets in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from harnesses import Agent
from harnesses.features import TurnResult, Verdict
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT
from harnesses.redaction.redactor import MARK
from orchestrator import Orchestrator
from tests.harnesses.features.worked import features, harness
from tests.secrets.leaks import GITHUB, STRIPE, WORD


class Careless:
    """Sees secrets, and says so."""

    async def validate(self, *_: object) -> Verdict:
        return Verdict(passed=False, evidence=f"$ curl -H 'Authorization: Bearer {STRIPE}'\n401", validator="curl")


async def _work(run: object) -> TurnResult:
    return TurnResult(message=f"I logged in with password: {WORD}")


async def _fail(run: object) -> TurnResult:
    raise OSError(f"https://{GITHUB}:x@github.example is not reachable")


def _content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("work", [_work, _fail])
async def test_no_file_of_a_run_holds_what_an_agent_let_slip(tmp_path: Path, work: Callable, autojump_clock: object) -> None:
    careless = harness(Agent(work), Careless(), list=features("a"), handoff=tmp_path / "handoff")

    with suppress(ExceptionGroup):
        async with Orchestrator(tmp_path / "run.db", log=tmp_path / "log.jsonl") as orchestrator:
            orchestrator.start(careless, name="shop", restart="temporary")

    content = _content(tmp_path)
    assert MARK.encode() in content
    assert [secret for secret in (GITHUB, STRIPE, WORD) if secret.encode() in content] == []


def test_a_secret_whose_name_is_cut_off_is_not_kept() -> None:
    for size in range(MAX_TEXT - 40, MAX_TEXT + 5):
        text = "before " * 3000 + f"\npassword: {WORD}{WORD}\n" + "x" * (size - 1) + "\n"
        assert WORD not in kept_part(text)


def test_a_text_without_secrets_is_kept_as_it_was() -> None:
    assert kept_part("12 tests passed") == "12 tests passed"
    assert kept_part("é" * 2 * MAX_TEXT) == "…" + "é" * (MAX_TEXT - 1)
