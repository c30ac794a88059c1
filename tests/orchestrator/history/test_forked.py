"""A forked process has nothing of its parent's: neither lock, nor store, nor files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio._core._run
import trio.lowlevel
import trio.testing

from harnesses.processes.fork_safety import close_unshared, keep_from_forks
from orchestrator import MemoryStore, Orchestrator, SqliteStore
from orchestrator.store.conformance.conformance_tools import claim, numbers, step_row
from orchestrator.store.file.run_lock import is_alive
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove
from tests import ROOT

PROGRAM = """
import os, sys, trio
from harnesses import BaseHarness
from orchestrator import Orchestrator

class Forking(BaseHarness[int, int, int]):
    async def execute(self):
        pid = None
        for number in range(1, 21):
            if number == 5 and os.fork() == 0:
                pid = 0
                {forked}
            yield number, 0 if pid is None else -1
        status = os.wait()[1]
        yield 21, os.waitstatus_to_exitcode(status)

class Other(BaseHarness[int, int, int]):
    async def execute(self):
        for number in range(1, 31):
            await self.sleep(0.01)
            yield number, 0

async def main():
    async with Orchestrator(sys.argv[1], control=True) as orchestrator:
        orchestrator.start(Forking(0), name="forking", restart="temporary")
        orchestrator.start(Other(0), name="other")
        print(*os.listdir(os.path.dirname(sys.argv[1])), flush=True)

trio.run(main)
"""


@pytest.mark.parametrize(
    ("forked", "code"),
    [
        ("pass", 70),
        ("sys.exit(3)", 70),
        ("os._exit(7)", 7),
    ],
)
def test_a_harness_that_forks_and_goes_on_records_each_step_once(tmp_path: Path, forked: str, code: int) -> None:
    store = tmp_path / "run.db"
    root = ROOT
    args = [sys.executable, "-c", PROGRAM.format(forked=forked), str(store)]
    done = subprocess.run(args, capture_output=True, text=True, cwd=root, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert ("was forked off a running program" in done.stderr) == (code == 70)
    with closing(SqliteStore(store)) as found:
        assert numbers(found, "forking") == list(range(1, 22))
        assert [step.output for step in found.steps("forking")] == [0] * 20 + [code]
        assert numbers(found, "other") == list(range(1, 31))
    assert prove(store, head_path(store).read_text(), deep=True).findings == []


def in_a_fork(work: Callable[[], str]) -> str:
    """Return what `work` gives in a forked process, at whose end everything is finalized as at the end of a program."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, work().encode())
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(write)
    with open(read) as out:
        text = out.read()
    os.waitpid(pid, 0)
    return text


def test_a_fork_can_neither_commit_nor_let_go_nor_open_the_store_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)])
        before = sorted(os.listdir(tmp_path))

        def commit() -> str:
            store.commit([step_row(claimed, 2)])
            return "committed"

        def close() -> str:
            store.close()
            store._db.close()  # pyright: ignore[reportPrivateUsage]
            return "closed"

        def open_anew() -> str:
            SqliteStore(path).close()
            return "opened"

        assert "forked from it: expected a commit by the process that has the store open" in in_a_fork(commit)
        assert in_a_fork(close) == "closed"
        assert "use `spawn` instead of `fork`" in in_a_fork(open_anew)

        assert sorted(os.listdir(tmp_path)) == before
        assert is_alive(path, store.run)
        store.commit([step_row(claimed, 2)])
        assert numbers(store, "one") == [1, 2]
    with closing(SqliteStore(path)) as again:
        assert numbers(again, "one") == [1, 2]


def test_a_descriptor_that_is_kept_from_forks_is_not_there(tmp_path: Path) -> None:
    kept = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    keep_from_forks(kept)

    def look() -> str:
        try:
            os.fstat(kept)
        except OSError:
            os.dup2(os.open(tmp_path / "lock", os.O_RDWR), kept)
            close_unshared(kept)
            os.fstat(kept)
            return "its number was free, and what has it then is not closed by mistake"
        return "it is there"

    assert in_a_fork(look) == "its number was free, and what has it then is not closed by mistake"
    os.fstat(kept)
    close_unshared(kept)
    close_unshared(kept)


async def test_a_fork_takes_no_event_from_the_loop_of_the_program() -> None:
    async with Orchestrator(MemoryStore()), trio.open_nursery() as nursery:
        read, write = os.pipe()
        nursery.start_soon(trio.lowlevel.wait_readable, read)
        await trio.testing.wait_all_tasks_blocked()
        os.write(write, b"x")  # the loop has an event to take
        loop = trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager._epoll
        pid = os.fork()
        if pid == 0:
            os._exit(len(loop.poll(0.2)))
        assert os.waitpid(pid, 0)[1] == 0  # noqa: ASYNC222 - the loop must not take the event first
        with trio.fail_after(10):
            while nursery.child_tasks:
                await trio.lowlevel.checkpoint()
    os.close(read)
    os.close(write)
