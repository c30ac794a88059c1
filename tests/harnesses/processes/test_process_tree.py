"""Nothing of a command is left, whatever it does, and although this program is killed. Real processes, so real time."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from harnesses.processes import process_tree
from harnesses.processes.bounded_command import run_bounded
from harnesses.processes.process_tree import HAS_REAPER
from tests.harnesses.leavers import WAYS, named, soon, way

pytestmark = pytest.mark.skipif(not HAS_REAPER, reason="needs a reaper, which needs Linux")


@pytest.fixture
def word() -> str:
    """Return a word that no process is called by yet."""
    return f"left-{uuid4().hex}"


def program(command: list[str], cwd: Path, first: str = "") -> str:
    """Return the source of a program that runs a command."""
    run = f"run_bounded({command!r}, limit_s=60, cwd={str(cwd)!r})"
    imports = (
        "import trio\nfrom harnesses.processes import bounded_command, process_tree\nrun_bounded = bounded_command.run_bounded"
    )
    return f"{imports}\n{first}\ntrio.run(lambda: {run})"


@pytest.mark.parametrize("name", WAYS)
async def test_when_a_command_has_ended_nothing_of_it_is_left(name, word):
    ran = await run_bounded(way(name, word), limit_s=30)

    assert not named(word)
    assert (ran.code, ran.left) == (0, ())


@pytest.mark.parametrize("name", WAYS)
async def test_past_its_limit_nothing_of_a_command_is_left(name, word):
    ran = await run_bounded(["sh", "-c", '"$@"; sleep 60', "sh", *way(name, word)], limit_s=0.7)

    assert not named(word)
    assert (ran.code, ran.left) == (None, ())


@pytest.mark.parametrize("name", WAYS)
def test_when_this_program_is_killed_nothing_of_a_command_is_left(name, word, tmp_path):
    command = ["sh", "-c", '"$@"; touch up; sleep 60', "sh", *way(name, word)]
    with subprocess.Popen([sys.executable, "-c", program(command, tmp_path)]) as running:
        assert soon((tmp_path / "up").exists)
        assert soon(lambda: named(word))

        running.kill()

    assert soon(lambda: not named(word))


def test_a_copy_of_this_program_that_lives_on_does_not_keep_a_command_alive(word, tmp_path):
    copying = f"""
import os, threading, time
def copy():
    while not os.path.exists({str(tmp_path / "up")!r}):
        time.sleep(0.01)
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    open({str(tmp_path / "copied")!r}, "w").close()
threading.Thread(target=copy, daemon=True).start()
"""
    command = ["sh", "-c", '"$@"; touch up; sleep 60', "sh", *way("background", word)]
    with subprocess.Popen([sys.executable, "-c", program(command, tmp_path, copying)]) as running:
        assert soon((tmp_path / "copied").exists)
        assert soon(lambda: named(word))

        running.kill()

    assert soon(lambda: not named(word), within_s=10)


async def test_a_cancelled_command_is_gone_when_the_cancellation_arrives(word, tmp_path):
    command = ["sh", "-c", '"$@"; touch up; sleep 60', "sh", *way("double fork", word)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run_bounded(command, limit_s=60, cwd=tmp_path))
        assert await trio.to_thread.run_sync(soon, (tmp_path / "up").exists)
        assert named(word)

        nursery.cancel_scope.cancel()

    assert not named(word)


async def test_many_commands_at_once_do_not_end_each_other(word):
    codes: list[int | None] = []

    async def run(number: int) -> None:
        codes.append((await run_bounded(["sh", "-c", f"setsid sleep 300 & sleep 0.{number}; exit {number}"], limit_s=60)).code)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(run, number)

    assert sorted(code for code in codes if code is not None) == list(range(8))


@pytest.mark.parametrize("blow", ["KILL", "STOP"])
async def test_what_watches_over_a_command_being_attacked_nothing_is_left_and_it_is_no_success(blow, word):
    leaves = " ".join(f"'{part}'" if " " in part else part for part in way("background", word))

    ran = await run_bounded(
        ["bash", "-c", f"setsid {leaves}; kill -{blow} $PPID; sleep 0.1"], limit_s=1, may_gain_privileges=True
    )

    assert not named(word)
    assert ran.code == (-signal.SIGKILL if blow == "KILL" else None)
    assert ("what watched over the command was killed" in ran.tail) == (blow == "KILL")


def landlock() -> int:
    """Return the version of the kernel's Landlock; from 6 on it scopes signals."""
    return int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))


@pytest.mark.skipif(landlock() < 6, reason="the kernel has no Landlock that scopes signals")
async def test_a_command_can_not_attack_what_watches_over_it_nor_speak_for_it():
    attack = "kill -KILL $PPID; for fd in 3 4 5 6 7; do echo 0 > /proc/$PPID/fd/$fd; echo 0 >&$fd; done; exit 7"

    ran = await run_bounded(["bash", "-c", attack], limit_s=30)

    assert ran.code == 7
    assert "Operation not permitted" in ran.tail


async def test_a_command_may_signal_what_it_has_started_itself():
    ran = await run_bounded(["sh", "-c", "sleep 60 & kill -TERM $!; wait $! 2>/dev/null; echo $?"], limit_s=30)

    assert (ran.code, ran.tail) == (0, "143\n")


async def test_a_command_has_no_more_than_three_streams_open():
    ran = await run_bounded([sys.executable, "-S", "-c", "import os; print(os.listdir('/proc/self/fd'))"], limit_s=30)

    assert ran.tail == "['0', '1', '2', '3']\n"  # the last one is the listing itself


async def test_a_command_begins_with_signals_as_they_are_by_default():
    show = "import signal as s; print([n.name for n in s.Signals if s.getsignal(n) is s.SIG_IGN], s.pthread_sigmask(0, []))"

    plain = await trio.run_process([sys.executable, "-c", show], capture_stdout=True)
    ran = await run_bounded([sys.executable, "-c", show], limit_s=30)

    assert ran.tail == plain.stdout.decode()


async def test_the_environment_is_the_one_that_is_given_and_a_mark(monkeypatch):
    monkeypatch.setenv("HARNESS_TREE", "around:")

    ran = await run_bounded(["/usr/bin/env"], limit_s=30, env={"ONE": "1", "ODD": "a=b\nc"})

    one, odd, rest, mark = ran.tail.splitlines()
    assert (one, odd, rest) == ("ONE=1", "ODD=a=b", "c")
    assert mark.startswith("HARNESS_TREE=around:")
    assert mark.endswith(":")


async def test_elsewhere_a_process_group_is_ended(monkeypatch, word):
    monkeypatch.setattr(process_tree, "HAS_REAPER", False)

    ran = await run_bounded(way("background", word), limit_s=30)
    fed = await run_bounded(["cat"], limit_s=30, input=b"words")
    late = await run_bounded(["sh", "-c", "sleep 60 & sleep 60"], limit_s=0.3)

    assert soon(lambda: not named(word))
    assert (ran.code, fed.tail, late.code) == (0, "words", None)


def test_elsewhere_a_process_group_ends_with_this_program(word, tmp_path):
    command = ["sh", "-c", '"$@"; touch up; sleep 60', "sh", *way("background", word)]
    with subprocess.Popen([sys.executable, "-c", program(command, tmp_path, "process_tree.HAS_REAPER = False")]) as running:
        assert soon((tmp_path / "up").exists)
        assert soon(lambda: named(word))

        running.kill()

    assert soon(lambda: not named(word))


def test_the_reaper_needs_nothing_of_the_project():
    text = Path(process_tree.__file__).with_name("reaper.py").read_text()

    assert "harnesses" not in text.partition('"""\n\nfrom')[2]
