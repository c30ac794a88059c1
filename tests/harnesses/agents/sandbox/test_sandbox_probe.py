"""A level counts only if a program in it was seen to be confined: what the sandbox says of itself does not matter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harnesses.agents import AgentMissing
from harnesses.agents.sandbox import Level, Sandbox
from harnesses.agents.sandbox.control_group import join_group, make_group, remove_group

ESCAPES = "could reach loopback, read a hidden file, share the process ids, write outside of its directory"


def wall_that_does_not_hold(folder: Path, text: str) -> str:
    """Make a program that takes the arguments of bubblewrap, and confines nothing."""
    program = folder / "bwrap"
    program.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do [ "$1" = --chdir ] && cd "$2"; shift; done; shift\n{text}\n')
    program.chmod(0o755)
    return str(program)


def test_a_sandbox_that_lets_everything_out_is_found_out(tmp_path: Path) -> None:
    program = wall_that_does_not_hold(tmp_path, 'exec "$@"')

    with pytest.raises(AgentMissing, match=f"does not hold here.*{ESCAPES}; allow user namespaces"):
        Sandbox(program=program).check()

    assert Sandbox(program=program).in_force() is not Level.BUBBLEWRAP


def test_a_sandbox_that_lets_nothing_run_is_found_out(tmp_path: Path) -> None:
    program = wall_that_does_not_hold(tmp_path, '[ "$1" = true ] && exit 0; echo "no room" >&2; exit 3')

    with pytest.raises(AgentMissing, match="ended with 3: no room"):
        Sandbox(program=program).check()


def test_levels_are_ordered() -> None:
    reached = {level: [demanded for demanded in Level if level.reaches(demanded)] for level in Level}

    assert reached == {
        Level.NONE: [Level.NONE],
        Level.LANDLOCK: [Level.NONE, Level.LANDLOCK],
        Level.BUBBLEWRAP: [Level.NONE, Level.LANDLOCK, Level.BUBBLEWRAP],
    }


def _sleeps(pid: str) -> bool:
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it is gone, perhaps this moment
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a control group")
def test_a_control_group_limits_processes_and_leaves_none_behind() -> None:
    group = make_group(3)
    if group is None:
        pytest.skip("control groups cannot be written here")
    forks = "for i in 1 2 3 4 5 6 7 8 9; do sleep 600 >/dev/null 2>&1 & done"
    try:
        command = join_group(group, ["sh", "-c", forks])
        ran = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=30, check=False)
        left = (group / "cgroup.procs").read_text().split()
    finally:
        remove_group(group)

    assert b"annot fork" in ran.stderr
    assert 0 < len(left) <= 7
    assert not group.exists()
    assert [pid for pid in left if _sleeps(pid)] == []
