"""Programs with large results die at each write, sync, renaming and removal: no record is ever without its file.

python -m tests.kill.values                 every system call of each kind, some minutes
python -m tests.kill.values run STORE       the program that dies: three steps with large results, two of them equal
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore
from orchestrator.store import SqliteReader
from orchestrator.store.file.value_files import files_folder
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import is_unmade, prove

from .calls import SYNCS, WRITES, tampered
from .lives import assert_sound, start

CALLS = (SYNCS, WRITES, "mkdir,rename,unlink")
_STEPS = 3


class Looking(BaseHarness[int, int, int]):
    """Has a large result in each step; each call leaves a line in a file, so that a second one shows."""

    def __init__(self, calls: Path) -> None:
        super().__init__(0)
        self.calls = calls

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for step in range(self.current_step + 1, _STEPS + 1):
            yield step, len(await self.once("look", self._look, step, idempotent=True))

    def _look(self, step: int) -> str:
        with self.calls.open("a") as file:
            file.write(f"{step}\n")
        return "xyx"[step - 1] * 100_000


async def run(path: Path) -> None:
    """Make the steps."""
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(Looking(path.with_suffix(".calls")), name="one")


def die_and_go_on(path: Path, calls: str, number: int) -> bool:
    """Have the program die at a call, verify, and have it go on to its end; return whether it died."""
    program = ["-m", "tests.kill.values", "run", str(path)]
    code = start(program, tampered(calls, f"signal=KILL:when={number}")).wait()
    assert code in (0, -signal.SIGKILL, 128 + signal.SIGKILL), code
    verify(path, at_end=code == 0)
    if code != 0:
        assert start(program).wait() == 0
        verify(path, at_end=True)
    return code != 0


def verify(path: Path, *, at_end: bool) -> None:
    """Assert that each record has its file, and at the end that each file has its record and all steps are there."""
    head = head_path(path)
    if not head.exists() or not path.exists() or is_unmade(path, head.read_text()):
        assert not at_end
        return
    assert_sound(path)
    assert prove(path, head.read_text(), deep=True).findings == []
    folder = files_folder(path)
    with closing(SqliteReader(path)) as reader:
        named = {effect.file.sha256 for effect in reader.effects() if effect.file is not None}
        for effect in reader.effects():
            assert effect.file is None or len(reader.read_file(effect.file)) == 100_002
        if at_end:
            SqliteStore(path).close()
            assert {file.name for file in folder.iterdir()} == named
            assert len(named) == 2
            assert [step.output for step in reader.steps("one")] == [100_000] * _STEPS


def die_at_each_call(folder: Path) -> dict[str, int]:
    """Have programs die at the first call of each kind, the second, and so on; return how many died of each."""
    deaths: dict[str, int] = {}
    for calls in CALLS:
        number = 1
        while die_and_go_on(folder / f"{calls}-{number}.db", calls, number):
            number += 1
        deaths[calls] = number - 1
        print(calls, deaths[calls], file=sys.stderr, flush=True)
    return deaths


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if sys.argv[1:2] == ["run"]:
        trio.run(run, Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as place:
            print(die_at_each_call(Path(place)))
