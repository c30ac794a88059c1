"""Commands that a harness runs: judged, approved, run once, nothing left; on a harness alone and in an orchestrator."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness, HarnessMisuse, LocalRuntime, Waiting
from harnesses.agents import Bubblewrap
from harnesses.effects.approval import Action
from harnesses.errors import ApprovalDenied, NotReady
from harnesses.governance.approved_commands import MAX_TAIL, CommandRan, CommandRefused, GovernedCommands
from harnesses.guard import bash_parser as bash
from orchestrator import MemoryStore, Orchestrator, OutcomeKind
from orchestrator.store.store_protocol import Settle


class Box:
    """A sandbox that only counts what runs in it."""

    def __init__(self, *, network: bool | None) -> None:
        self.network = network
        self.ran: list[list[str]] = []
        self.read_only: bool | None = None

    def check(self) -> None: ...

    def needs_privileges(self) -> bool:
        return False

    def wrap(self, command: Sequence[str], directory: Path, *, read_only: bool = False) -> list[str]:
        self.read_only = read_only
        self.ran.append(list(command))
        return list(command)


class Working(BaseHarness[int, str, Any]):
    """Runs `work(harness)` in its one step."""

    def __init__(self, work: Callable[[Working], Any]) -> None:
        super().__init__(0)
        self._work = work

    def is_complete(self) -> bool:
        return self.current_step == 1

    async def execute(self) -> AsyncIterator[tuple[str, Any]]:
        yield "command", await self._work(self)


def has_written(file: Path) -> bool:
    """Return whether the command has written its line: the shell makes the file a moment before."""
    return file.exists() and file.read_text() != ""


async def ran(folder: Path, command: str | list[str], approver: Any = None, **options: Any) -> CommandRan:
    """Return how a command ended in a harness that runs alone."""
    commands = GovernedCommands(cwd=folder, **options)
    kept: list[CommandRan] = []

    async def work(harness: Working) -> int | None:
        kept.append(await commands.run(harness, "it", command))
        return kept[0].code

    await Working(work).run(LocalRuntime("one", approver=approver))
    return kept[0]


async def test_a_harmless_command_runs_without_being_asked_for(tmp_path: Path) -> None:
    done = await ran(tmp_path, "echo hello > out.txt; cat out.txt; exit 3")

    assert (done.code, done.ok, done.tail) == (3, False, "hello\n")
    assert (tmp_path / "out.txt").read_text() == "hello\n"


async def test_words_are_read_by_no_shell(tmp_path: Path) -> None:
    done = await ran(tmp_path, ["echo", "a;", "rm -rf b", "$HOME"])

    assert done.tail == "a; rm -rf b $HOME\n"


async def test_a_dangerous_command_waits_for_a_person_and_names_exactly_what_would_run(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    asked: list[Action] = []

    def approve(key: str, action: Action) -> bool:
        asked.append(action)
        assert (tmp_path / "src").exists()
        return True

    done = await ran(tmp_path, "rm -rf src", approve)

    assert (done.code, (tmp_path / "src").exists()) == (0, False)
    assert asked[0].category == "broad-delete"
    assert asked[0].arguments["action"] == {"command": "rm -rf src", "cwd": str(tmp_path), "categories": ["broad-delete"]}


async def test_what_is_denied_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()

    with pytest.raises(ApprovalDenied):
        await ran(tmp_path, "rm -rf src", lambda key, action: False)

    assert (tmp_path / "src").exists()


async def test_with_nobody_to_ask_a_dangerous_command_is_blocked(tmp_path: Path) -> None:
    with pytest.raises(Waiting, match="needs an approval"):
        await ran(tmp_path, "git push --force")


async def test_where_nothing_may_be_changed_no_approval_helps(tmp_path: Path) -> None:
    with pytest.raises(CommandRefused, match="git-mutation"):
        await ran(tmp_path, "git commit --allow-empty -m x", lambda key, action: True, read_only=True)

    assert (await ran(tmp_path, "ls -a", read_only=True)).ok


async def test_nothing_is_refused_for_want_of_what_reads_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bash._parser.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)

    with pytest.raises(NotReady, match=r"run `python -m pip install .*\[guard\]'`"):
        await ran(tmp_path, "ls -a", read_only=True)


async def test_a_folder_that_may_go_is_deleted_without_asking(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()

    done = await ran(tmp_path, "rm -rf build", disposable={"build"})

    assert (done.ok, (tmp_path / "build").exists()) == (True, False)


async def test_output_is_bounded_and_keeps_no_secret(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3

    done = await ran(tmp_path, f"seq 10000; echo token={token}", tail_bytes=500)

    assert len(done.tail) <= 500
    assert token not in done.tail
    assert "[REDACTED]" in done.tail


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    done = await ran(tmp_path, "(sleep 600 & echo $! > pid; wait) & wait", limit_s=1.0)

    assert done.code is None
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_program_that_is_not_there_is_told_by_its_code(tmp_path: Path) -> None:
    assert (await ran(tmp_path, ["no-such-program"], allow={"unknown"})).code == 127


async def test_a_program_of_the_workspace_is_not_taken_for_one_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "ls").write_text("#!/bin/sh\necho trapped\n")
    (tmp_path / "ls").chmod(0o755)
    env = {"PATH": f".:{tmp_path}:/usr/bin:/bin"}

    assert "trapped" not in (await ran(tmp_path, "ls", env=env)).tail
    assert "trapped" not in (await ran(tmp_path, ["ls"], env=env)).tail
    assert "trapped" in (await ran(tmp_path, "ls; ./ls", lambda key, action: True, env=env)).tail


async def test_what_is_not_known_runs_in_a_sandbox_without_asking(tmp_path: Path) -> None:
    box = Box(network=False)

    assert (await ran(tmp_path, "x=$(echo a); $x || python3 -c 'print(7)'", sandbox=box)).tail.endswith("7\n")
    assert len(box.ran) == 1
    with pytest.raises(Waiting):
        await ran(tmp_path, "rm -rf src", sandbox=box)


@pytest.mark.parametrize("read_only", [False, True])
async def test_the_sandbox_of_one_who_may_only_look_is_read_only(tmp_path: Path, read_only: bool) -> None:
    box = Box(network=False)

    await ran(tmp_path, "ls", sandbox=box, read_only=read_only)

    assert box.read_only is read_only


@pytest.mark.skipif(not Bubblewrap().works(), reason="bubblewrap is not installed, or may not run")
async def test_what_is_let_through_by_mistake_changes_nothing_where_nothing_may_be_changed(tmp_path: Path) -> None:
    how: dict[str, Any] = {"read_only": True, "allow": {"run-code", "unknown"}, "sandbox": Bubblewrap(network=False)}

    done = await ran(tmp_path, ["python3", "-c", "open('made', 'w')"], **how)

    assert (done.ok, "Read-only file system" in done.tail, os.listdir(tmp_path)) == (False, True, [])


async def test_in_a_sandbox_are_no_secrets_of_the_environment_that_were_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "swordfish")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    show = "echo $DATABASE_PASSWORD $SSH_AUTH_SOCK | rev"
    env = {"PATH": os.environ["PATH"], "DATABASE_PASSWORD": "given"}

    assert (await ran(tmp_path, show, sandbox=Box(network=False))).tail == "\n"
    assert (await ran(tmp_path, show, sandbox=Box(network=False), env=env)).tail == "nevig\n"


@pytest.mark.parametrize(("network", "asks"), [(True, True), (False, False), (None, False)])
def test_a_sandbox_without_a_network_holds_what_publishes(tmp_path: Path, network: bool | None, asks: bool) -> None:
    commands = GovernedCommands(cwd=tmp_path, sandbox=Box(network=network))

    assert bool(commands.needed("git push")) is asks
    assert commands.needed("pytest -q && gdb") is None
    assert commands.needed("git push --force") is not None
    assert commands.needed("cat ~/.ssh/id_rsa") is not None


@pytest.mark.parametrize("level", ["landlock", "none"])
def test_below_bubblewrap_a_sandbox_holds_nothing_without_approval(tmp_path: Path, level: str) -> None:
    commands = GovernedCommands(cwd=tmp_path, sandbox=Bubblewrap(level=level, program="no-bubblewrap"))

    assert commands.needed("pytest -q && gdb") is not None
    assert commands.needed("ls") is None


async def test_a_command_has_its_sandbox_on_record(tmp_path: Path) -> None:
    done = await ran(tmp_path, "ls", sandbox=Bubblewrap(level="none", network=False))

    assert done.sandbox == Bubblewrap(network=False).describe()


async def test_an_allowed_category_runs_without_asking(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print(7)")

    with pytest.raises(Waiting):
        await ran(tmp_path, "python3 x.py")
    assert (await ran(tmp_path, "python3 x.py", allow={"run-code"})).tail == "7\n"


async def test_a_command_runs_once_though_its_step_is_made_again(tmp_path: Path) -> None:
    commands = GovernedCommands(cwd=tmp_path)
    codes: list[int | None] = []

    async def work(harness: Working) -> None:
        codes.append((await commands.run(harness, "it", "echo x >> out.txt")).code)
        if len(codes) == 1:
            raise ValueError("after the command, before the step is recorded")

    async with Orchestrator(MemoryStore()) as orchestrator:
        outcome = await orchestrator.start(Working(work), name="one").wait()

    assert (outcome.kind, codes) == (OutcomeKind.COMPLETED, [0, 0])
    assert (tmp_path / "out.txt").read_text() == "x\n"


async def test_an_approval_in_the_store_is_asked_for_once_and_used_for_the_command(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    commands = GovernedCommands(cwd=tmp_path)
    store = MemoryStore()

    async def work(harness: Working) -> int | None:
        return (await commands.run(harness, "it", "rm -rf src")).code

    async with Orchestrator(store) as orchestrator:
        handle = orchestrator.start(Working(work), name="one")
        with trio.fail_after(10):
            while not store.approvals():  # noqa: ASYNC110 - a store rings for nobody
                await trio.sleep(0.01)
        before = (tmp_path / "src").exists()
        await orchestrator.approve(store.approvals()[0].id, by="ann", reason="it can be made again")
        outcome = await handle.wait()

    assert (before, (tmp_path / "src").exists()) == (True, False)
    assert (outcome.kind, len(store.approvals())) == (OutcomeKind.COMPLETED, 1)


async def test_a_command_that_was_cut_off_is_not_run_again_blindly(tmp_path: Path) -> None:
    commands = GovernedCommands(cwd=tmp_path)
    store = MemoryStore()

    async def work(harness: Working) -> None:
        await commands.run(harness, "it", "echo x >> out.txt; sleep 600")

    with trio.CancelScope() as program:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Working(work), name="one")
            while not has_written(tmp_path / "out.txt"):  # noqa: ASYNC110 - the command is another program
                await trio.sleep(0.01)
            program.cancel()
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Working(work), name="one").wait()

    assert outcome.kind is OutcomeKind.BLOCKED
    assert (tmp_path / "out.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("result", "code", "ok"), [("null", None, False), ('{"code":0,"tail":"all passed","duration_s":2.5}', 0, True)]
)
async def test_a_command_that_a_person_has_settled_as_done_has_ended_as_they_say(
    tmp_path: Path, result: str, code: int | None, ok: bool
) -> None:
    commands = GovernedCommands(cwd=tmp_path)
    store = MemoryStore()
    kept: list[CommandRan] = []

    async def work(harness: Working) -> int | None:
        kept.append(await commands.run(harness, "it", "echo x >> out.txt; sleep 600"))
        return kept[0].code

    with trio.CancelScope() as program:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Working(work), name="one")
            while not has_written(tmp_path / "out.txt"):  # noqa: ASYNC110 - the command is another program
                await trio.sleep(0.01)
            program.cancel()
    assert isinstance(store.commit([], [Settle("one", "it", True, result, "I looked", 1)]).results[0], int)
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Working(work), name="one").wait()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert [(done.code, done.ok) for done in kept] == [(code, ok)]
    assert (tmp_path / "out.txt").read_text() == "x\n"


async def test_output_that_is_cut_says_how_much_is_missing(tmp_path: Path) -> None:
    whole, cut = [await ran(tmp_path, ["seq", "100"], tail_bytes=most) for most in (4_000, 8)]

    assert (whole.cut_bytes, len(whole.tail)) == (0, 292)
    assert (cut.cut_bytes, cut.tail) == (284, "\n99\n100\n")


@pytest.mark.parametrize("command", ["", [], ["a", 1], 5, "x" * 100_001])
async def test_what_is_no_command_is_refused_before_anything_is_done(tmp_path: Path, command: Any) -> None:
    with pytest.raises((HarnessMisuse, Waiting)):
        await ran(tmp_path, command)


@pytest.mark.parametrize("options", [{"limit_s": 0}, {"tail_bytes": MAX_TAIL + 1}, {"expires_s": float("inf")}])
def test_limits_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(HarnessMisuse):
        GovernedCommands(cwd=tmp_path, **options)
