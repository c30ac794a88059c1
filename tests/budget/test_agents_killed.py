"""G14: what an agent has reported is not forgotten by a program that is killed in the midst of its turn; charged once."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import StoreUnusable
from tests import ROOT
from tests.budget.agents import books_of, told
from tests.zygote import Program

EACH = 100


def begin(folder: Path, program: str, *, tries: int, limit: int = 10**9) -> subprocess.Popen[bytes]:
    plan = json.dumps({"messages": 4, "tokens": EACH, "pause_s": 0.2})
    command = ["-m", "tests.budget.agents_program", str(folder), program, plan, str(tries), str(limit)]
    with (folder / "errors.txt").open("ab") as errors:
        return Program(command, cwd=ROOT, stderr=errors)


def wait_until(program: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def charged(folder: Path) -> int:
    try:
        books = books_of(folder / "run.db")
    except StoreUnusable:
        return 0
    return books["harness/work"].spent.tokens if "harness/work" in books else 0


def kill(folder: Path, program: subprocess.Popen[bytes]) -> int:
    """Kill the program, and return what was charged at the moment before."""
    before = charged(folder)
    program.kill()
    program.wait()
    return before


def test_messages_that_were_charged_stay_charged_and_no_message_is_charged_twice(tmp_path: Path) -> None:
    for kills in range(1, 4):
        running, already = begin(tmp_path, "claude", tries=2), charged(tmp_path)
        wait_until(running, lambda already=already: charged(tmp_path) >= already + 2 * EACH)
        before = kill(tmp_path, running)
        assert before <= charged(tmp_path) <= told(tmp_path) + kills * EACH

    running = begin(tmp_path, "claude", tries=2)

    assert running.wait(120) == 0, (tmp_path / "errors.txt").read_text()[-2000:]
    # Of each life, the message may be unread that was written as the program was killed.
    assert told(tmp_path) - 3 * EACH <= charged(tmp_path) <= told(tmp_path) + 3 * EACH
    assert books_of(tmp_path / "run.db")["agents/work"].spent.tokens == charged(tmp_path)


def test_the_total_of_a_thread_is_charged_once_whoever_was_killed_in_between(tmp_path: Path) -> None:
    for messages in (6, 9):  # in the second turn, and in the one that is made in its place
        running = begin(tmp_path, "codex", tries=3)
        wait_until(running, lambda messages=messages: told(tmp_path) >= messages * EACH)
        before = kill(tmp_path, running)
        assert charged(tmp_path) == before

    running = begin(tmp_path, "codex", tries=3)

    assert running.wait(120) == 0, (tmp_path / "errors.txt").read_text()[-2000:]
    (thread,) = tmp_path.glob("thread-*")
    assert charged(tmp_path) == int(thread.read_text()) == told(tmp_path)


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_a_limit_that_was_passed_in_a_program_that_was_killed_holds_in_the_next(program: str, tmp_path: Path) -> None:
    running = begin(tmp_path, program, tries=9, limit=150)
    wait_until(running, lambda: charged(tmp_path) > 150)
    kill(tmp_path, running)
    before = told(tmp_path)

    running = begin(tmp_path, program, tries=9, limit=150)

    assert running.wait(120) == 0
    assert told(tmp_path) == before
