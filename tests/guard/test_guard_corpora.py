"""The table of harmless commands against dangerous and everyday ones, against bash, and in a sandbox."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harnesses.guard import classify
from tests.guard.dangerous import dangerous
from tests.guard.proof import HERE, World, everyday, prove
from tests.guard.shell_proof import prove as prove_reading
from tests.guard.shell_scripts import BASH

SANDBOXED = pytest.mark.skipif(shutil.which("bwrap") is None or shutil.which("git") is None, reason="needs bubblewrap and git")


def test_no_dangerous_command_passes() -> None:
    corpus = [*dangerous(), *(HERE / "blocked.txt").read_text(encoding="utf-8").splitlines()]

    assert len(corpus) > 3_000
    assert [text for text in corpus if not classify(text)] == []


def test_no_dangerous_command_passes_in_a_workspace(tmp_path: Path) -> None:
    assert [text for text in dangerous() if not classify(text, root=str(tmp_path))] == []


def test_everyday_commands_pass() -> None:
    corpus = everyday()

    blocked = [text for text in corpus if classify(text)]
    assert len(corpus) > 325
    assert len(blocked) <= len(corpus) // 100, blocked


@pytest.mark.skipif(not BASH.exists(), reason="there is no bash to compare with")
def test_nothing_that_bash_runs_is_missed() -> None:
    figures = prove_reading(500, seed=7)

    assert figures.missed == ()
    assert figures.ran > 20


@SANDBOXED
def test_what_passes_does_no_harm_when_it_runs() -> None:
    figures = prove(400, seed=2, most=12)

    assert figures.harmed == ()
    assert figures.passed == 12


@SANDBOXED
@pytest.mark.parametrize(
    "text", ["touch ../outside/x", "./ls", "echo x > .git/config", "cat ~/.ssh/id_rsa", "make", "./-exec"]
)
def test_the_sandbox_finds_harm(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = World(tmp_path_factory.mktemp("world"), traced=False)

    assert world.run(text)
