"""A command ends within its limit, its last words are kept, and nothing of it is left. Real processes, so real time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from harnesses.agents.sandbox import sandbox_launcher
from harnesses.processes.bounded_command import run_bounded

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")

STUBBORN = 'trap "" TERM INT HUP; sleep 60 & echo $$; wait; sleep 60'
"""Ignores every polite signal, so does its child; says its process group."""


def members(group: int) -> list[int]:
    """Return the processes of a group that are not dead."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(process_group) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


def alive(process: int) -> bool:
    """Return whether there is such a process, dead ones that nobody has collected included."""
    return Path(f"/proc/{process}").exists()


def gone(group: int, within_s: float = 5.0) -> bool:
    """Return whether a group has no member, now or soon: a killed process takes a moment to die."""
    deadline = time.monotonic() + within_s
    while members(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not members(group)


def number_in(path: Path, within_s: float = 20.0) -> int:
    """Return the number that someone will have written to a file, soon."""
    deadline = time.monotonic() + within_s
    while not (path.exists() and path.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return int(path.read_text())


async def test_output_and_errors_are_kept_with_the_exit_code():
    ran = await run_bounded(["sh", "-c", "echo out; echo err >&2; exit 3"], limit_s=30)

    assert (ran.code, ran.tail) == (3, "out\nerr\n")
    assert 0 < ran.duration_s < 30


async def test_of_much_output_the_end_is_kept():
    flood = "import sys\nfor _ in range(1000): print('x' * 1000)\nprint('the end')"

    ran = await run_bounded([sys.executable, "-S", "-c", flood], limit_s=30, tail_bytes=100)

    assert len(ran.tail) == 100
    assert ran.tail.endswith("x\nthe end\n")


async def test_output_that_is_no_text_is_kept_as_far_as_it_is():
    ran = await run_bounded(["printf", r"\377ok"], limit_s=30)

    assert ran.tail == "\N{REPLACEMENT CHARACTER}ok"


async def test_a_command_has_nothing_to_read():
    ran = await run_bounded(["cat"], limit_s=30)

    assert (ran.code, ran.tail) == (0, "")


async def test_a_command_that_does_not_exist_ends_with_127():
    ran = await run_bounded(["no-such-command"], limit_s=30)

    assert ran.code == 127
    assert ran.tail == "no-such-command: cannot be run: not found\n"


async def test_the_interpreter_that_a_command_lacks_is_named(tmp_path, monkeypatch):
    program = tmp_path / "lacking"
    program.write_text("#!/no/such/interpreter -x\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("lacking", str(program)):
        for command in ([name], [sys.executable, sandbox_launcher.__file__, "--", name]):
            ran = await run_bounded(command, limit_s=30)
            assert ran.code == 127
            assert ran.tail == f"{name}: cannot be run: its interpreter /no/such/interpreter was not found\n"


async def test_a_command_that_is_no_program_ends_with_126(tmp_path):
    ran = await run_bounded([str(tmp_path)], limit_s=30)

    assert (ran.code, ran.tail) == (126, f"{tmp_path}: cannot be run: Permission denied\n")


async def test_a_directory_that_is_not_there_is_an_error_that_says_so(tmp_path):
    for place in (tmp_path / "gone", __file__):
        with pytest.raises(
            NotADirectoryError, match=f"'true' cannot be run: expected a directory to run it in, got '{place}'"
        ):
            await run_bounded(["true"], limit_s=30, cwd=place)


async def test_a_command_killed_by_a_signal_says_so():
    ran = await run_bounded(["sh", "-c", "kill -KILL $$"], limit_s=30)

    assert ran.code == -signal.SIGKILL


async def test_past_its_limit_a_command_and_its_children_are_killed_though_they_ignore_signals():
    ran = await run_bounded(["sh", "-c", STUBBORN], limit_s=0.3)

    assert ran.code is None
    assert 0.3 <= ran.duration_s < 10
    assert gone(int(ran.tail))


async def test_a_child_left_in_the_background_is_killed_when_its_command_ends():
    ran = await run_bounded(["sh", "-c", "sleep 60 & echo $$"], limit_s=30)

    assert ran.code == 0
    assert ran.duration_s < 10
    assert gone(int(ran.tail))


async def test_a_cancelled_command_is_killed_with_its_children(tmp_path):
    said = tmp_path / "group"
    command = ["sh", "-c", f"exec > {said}; {STUBBORN}"]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: run_bounded(command, limit_s=60))
        group = await trio.to_thread.run_sync(number_in, said)
        assert members(group)

        nursery.cancel_scope.cancel()

    assert gone(group)


def test_when_this_program_is_killed_the_command_dies_with_it(tmp_path):
    said = tmp_path / "group"
    command = ["sh", "-c", f"exec > {said}; {STUBBORN}"]
    program = (
        "import trio; from harnesses.processes.bounded_command import run_bounded; "
        f"trio.run(lambda: run_bounded({command}, limit_s=60))"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as running:
        group = number_in(said)
        assert members(group)

        running.kill()

    assert gone(group)


async def test_a_process_that_leaves_the_group_is_killed_all_the_same(tmp_path):
    leaver = "setsid sh -c 'echo $$; touch left; exec sleep 60' & until [ -e left ]; do sleep 0.01; done"

    ran = await run_bounded(["sh", "-c", leaver], limit_s=30, cwd=tmp_path)

    assert ran.code == 0
    assert ran.duration_s < 10
    assert not alive(int(ran.tail))
