"""What an agent in a sandbox can do to the run that it is part of: nothing. A real run, real walls, seen from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.agents import Bubblewrap
from harnesses.coding.workspace import Workspace
from harnesses.files.private_files import concealed_names
from orchestrator import Orchestrator
from tests.harnesses.agents.attacks import PYTHON, Ground, ground
from tests.harnesses.coding.git_repositories import git, judging, make_repository

pytestmark = pytest.mark.skipif(not Bubblewrap().works(), reason="bubblewrap is not installed, or may not run")

_STOP = b"POST /harnesses/sibling/stop?grace_s=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
_CONNECT = f"""
import glob, socket, sys
for path in glob.glob(sys.argv[1]):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5)
        one.connect(path)
        one.sendall({_STOP!r})
        print("answered", one.recv(4000))
"""


@pytest.fixture
def place() -> Iterator[Ground]:
    with ground() as made:
        yield made


class Sibling(BaseHarness[int, int, int]):
    """Steps until it is stopped."""

    async def execute(self):
        while True:
            yield 1, 1
            await self.sleep(0.05)


class Attacker(BaseHarness[int, int, int]):
    """Asks for an approval, so that there is a key, and has an agent attack."""

    def __init__(self, place: Ground, told: dict[str, Any]) -> None:
        super().__init__(0)
        self._place, self._told = place, told

    async def execute(self):
        folder = str(self._place.folder)
        self._told |= await self._place.attacked(
            f"""
            import glob, socket
            attempt("seen", lambda: sorted(os.listdir({folder!r})))
            attempt("key", lambda: open({folder!r} + "/run.db-key").read())
            attempt("sockets", lambda: glob.glob({folder!r} + "/*control*"))
            attempt("latch", lambda: os.mkdir({folder!r} + "/run.db-latch"))
            attempt("log", lambda: open({folder!r} + "/steps.jsonl").read())
            """
        )
        yield 1, 1


async def test_nothing_of_a_run_is_seen_by_an_agent_of_it(place: Ground) -> None:
    told: dict[str, Any] = {}
    store, log = place.folder / "run.db", place.folder / "steps.jsonl"
    async with Orchestrator(store, log=log, control=True) as orchestrator:
        orchestrator.start(Sibling(0), name="sibling")
        await orchestrator.start(Attacker(place, told), name="attacker").wait()
        orchestrator.stop(0)

    assert told.pop("seen") == ["work"]
    assert told.pop("sockets") == []
    assert {value.split(":")[0] for value in told.values()} == {"FileNotFoundError", "OSError"}
    assert not (place.folder / "run.db-latch").exists()
    assert str(place.folder) not in concealed_names()


async def test_the_control_socket_does_not_hear_who_is_in_a_sandbox(place: Ground) -> None:
    """Also where the file is visible: another program's sandbox, which does not know of this run."""
    sockets = f"{place.folder}/run.db.control-*"
    walls = ["bwrap", "--unshare-user-try", "--unshare-pid", "--bind", "/", "/", "--proc", "/proc", "--"]

    async with Orchestrator(place.folder / "run.db", control=True) as orchestrator:
        sibling = orchestrator.start(Sibling(0), name="sibling")
        command = [PYTHON, "-c", _CONNECT, sockets]
        inside = await trio.run_process([*walls, *command], capture_stdout=True, capture_stderr=True, check=False)
        still = sibling.outcome is None
        outside = await trio.run_process(command, capture_stdout=True)
        await sibling.wait()

    assert b"200" not in inside.stdout
    assert still
    assert b"HTTP/1.1 200" in outside.stdout


async def test_an_agent_commits_in_its_worktree_and_reaches_no_other(place: Ground) -> None:
    origin, judge, workshop = await judging(place.folder / "space", make_repository(place.folder / "user"))
    base = await origin.ensure("work", judge)
    mine, other = await workshop.open("mine", base, "harness/x/1"), await workshop.open("other", base, "harness/x/2")
    before = _files(other.repository) | _files(workshop.git.directory)
    concealed = Workspace(place.folder / "space")
    await concealed.take()
    try:
        told = await Ground(place.folder, mine.path).attacked(
            f"""
            import subprocess
            def git(*words):
                words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
                ran = subprocess.run(words, capture_output=True, text=True)
                return ran.stdout + ran.stderr
            open("a.txt", "w").write("mine\\n")
            attempt("commit", lambda: git("commit", "-qam", "mine"))
            attempt("log", lambda: git("log", "--format=%s"))
            attempt("hooks", lambda: git("config", "core.fsmonitor", "touch {place.folder}/owned"))
            for path in {[str(other.path), str(other.repository), str(judge.git.directory), str(workshop.git.directory)]!r}:
                attempt(path, lambda: open(path + "/config", "a").write("x"))
            """,
            None,
            writable=(str(mine.repository),),
            readable=(str(mine.objects),),
        )
    finally:
        concealed.release()

    assert told["log"] == "mine\nwork\n", told
    assert _files(other.repository) | _files(workshop.git.directory) == before
    tree = await judge.snapshot(mine.path, mine.index, base)
    assert await judge.read(await judge.commit(tree, base, message="try"), "a.txt") == b"mine\n"
    await workshop.close(mine)
    again = await workshop.open("again", base, "harness/x/3")
    assert git(again.path, "status", "--short") == ""
    assert not (place.folder / "owned").exists()


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
