"""What type checkers know of steps, handles and messages, and how they say that a yield has the wrong type."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

KNOWN = """\
from collections.abc import AsyncIterator
from attrs import frozen
from harnesses import BaseHarness, Request
from orchestrator import Handle, Orchestrator
from typing_extensions import reveal_type

@frozen
class Count:
    total: int = 0

class Counting(BaseHarness[Count, str, int]):
    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        reveal_type(self.state)  # Count
        reveal_type(self.step_history[0].input)  # str
        reveal_type(await self.receive(Count))  # Count
        reveal_type(await self.receive(Count, Request))  # Count | Request
        reveal_type(await self.receive())  # Any
        reveal_type(self.receive_nowait(Count))  # Count
        yield "one", 1

async def main() -> None:
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Counting(Count()), name="count")
        reveal_type(handle)  # Handle[Count, str, int]
        async for step in handle.steps():
            reveal_type(step.input)  # str
            reveal_type(step.output)  # int
        reveal_type(handle.outcome)  # Outcome | None
        reveal_type(await handle.stop())  # Outcome
        handles: list[Handle] = [handle]
        reveal_type([step async for step in handles[0].steps()][0].output)  # Any
"""
WRONG = """\
from collections.abc import AsyncIterator
from harnesses import BaseHarness

class Counting(BaseHarness[int, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield "text", 2
"""
UNLIKE = WRONG.replace("tuple[int, int]", "tuple[str, int]")
CHECKERS = ("mypy", "pyright")


PROGRAMS = {"known.py": KNOWN, "wrong.py": WRONG, "unlike.py": UNLIKE}


def printed_by(checker: str, folder: Path) -> dict[str, list[str]]:
    """Return what a checker prints of each program, in strict mode: it is started once for all, since that takes seconds."""
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
    (folder / "pyrightconfig.json").write_text(f'{{"typeCheckingMode": "strict", "extraPaths": ["{ROOT}"]}}')
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\ncache_dir = {ROOT}/.mypy_cache\n")
    command = Path(sys.executable).with_name(checker)
    if not command.exists() and shutil.which(checker) is None:
        pytest.skip(f"{checker} is not installed")
    words = [str(command) if command.exists() else checker, *PROGRAMS]
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return {name: _lines_of(name, ended.stdout) for name in PROGRAMS}


def _lines_of(name: str, printed: str) -> list[str]:
    """Return the lines of one program: those that name it, and those that go on from one that does."""
    lines: list[str] = []
    is_its_own = False
    for line in printed.splitlines():
        named = re.match(r"\s*(?:/\S*/)?(\w+\.py)(:|$)", line)
        is_its_own = named[1] == name if named else is_its_own
        is_summary = re.match(r"Found \d|\d+ errors?,|/.*py$", line)
        if is_its_own and line.strip() and not is_summary:
            lines.append(line)
    assert lines, printed
    return lines


def shortened(line: str) -> str:
    """Return a type without the modules that its names are in."""
    found = re.search(r'is "([^"]+)"$', line)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", found[1] if found else line)


@pytest.mark.parametrize("checker", CHECKERS)
def test_steps_handles_and_messages_are_typed_and_a_wrong_yield_is_told_in_few_lines(checker: str, tmp_path: Path) -> None:
    printed = printed_by(checker, tmp_path)

    check_what_is_known(printed["known.py"])
    check_a_yield_of_the_wrong_type(printed["wrong.py"])
    check_a_yield_type_that_the_class_does_not_declare(printed["unlike.py"])


def check_what_is_known(lines: list[str]) -> None:
    wanted = re.findall(r"reveal_type\(.*\)  # (.*)", KNOWN)

    assert not [line for line in lines if "error" in line]
    assert [shortened(line) for line in lines if re.search(r'(?:Revealed type|Type of ".*") is "', line)] == wanted


def check_a_yield_of_the_wrong_type(lines: list[str]) -> None:
    assert len(lines) <= 2, lines
    assert "wrong.py:6:" in lines[0]
    assert "error" in lines[0]


def check_a_yield_type_that_the_class_does_not_declare(lines: list[str]) -> None:
    assert len(lines) <= 7, lines
    assert "execute" in lines[0]
    assert any('"AsyncIterator[tuple[int, int]]"' in line for line in lines)
