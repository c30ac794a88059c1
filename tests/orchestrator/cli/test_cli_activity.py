"""`status` tells apart what a running harness is at: working, waiting, hung, halted, waiting for a person, backing off."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.orchestrator.commanding import Command, wait_until

TABLES = [
    ("working", "Working", ""),
    ("late", "Working", "step_timeout_s = 1000\n"),
    ("waiting", "Listening", ""),
    ("gated", "Gated", ""),
    ("halted", "Halted", ""),
    ("crashing", "Crashing", ""),
    ("denied", "Gated", ""),
    ("paused", "Ticking", ""),
]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def run(command: Command, top: str = "") -> subprocess.Popen[str]:
    tables = (
        f'[[harness]]\nname = "{name}"\nharness = "tests.orchestrator.gates:{cls}"\n{more}' for name, cls, more in TABLES
    )
    command.write("run.toml", "\n".join([top, *tables]))
    return command.start("run", "run.toml")


def shown(command: Command) -> dict[str, Any]:
    return {one["harness"]: one for one in command("status", "--json").objects}


def settled(command: Command) -> dict[str, Any]:
    """Return what is shown once the harnesses are where they are to be."""

    def look() -> Any:
        found = shown(command)
        gated = {name: found[name]["approval"] for name in ("gated", "denied") if name in found}
        return found if len(found) == len(TABLES) and all(gated.values()) else None

    found: Any = wait_until(look)
    command("deny", found["denied"]["approval"]["id"])
    command("pause", "paused")
    after: Any = wait_until(lambda: (now := shown(command))["crashing"]["activity"] == "backing_off" and now)
    return dict(after)


def test_what_each_is_at_is_told_apart(command: Command) -> None:
    run(command, "backoff = { base_s = 1000, cap_s = 1000 }")
    found = settled(command)
    text = command("status").out

    words = {name: one["activity"] for name, one in found.items()}
    assert words == {
        "working": "working",
        "late": "working",
        "waiting": "waiting",
        "gated": "waiting_for_approval",
        "halted": "halted",
        "crashing": "backing_off",
        "denied": "blocked",
        "paused": "paused",
    }
    assert found["gated"]["status"] == "running"
    assert found["gated"]["approval"]["left_s"] > 80_000
    assert found["crashing"]["until"] > "2026"
    assert found["halted"]["live"]["halted"] == "drawdown"
    assert 0 < found["working"]["step_age_s"] < 60
    assert "waiting for approval" in text
    assert "backing off" in text
    assert "halted: drawdown" in text
    assert "step 1 for " in text


def test_a_program_that_takes_no_questions_leaves_the_age_of_a_step_alone(command: Command) -> None:
    run(command, "control = false")
    wait_until(lambda: len(shown(command)) == len(TABLES))
    found = shown(command)

    assert found["working"]["activity"] == "running"
    assert found["working"]["live"] is None
    assert found["working"]["step_age_s"] >= 0


def test_a_program_that_stands_still_holds_nobody_up(command: Command) -> None:
    process = run(command)
    wait_until(lambda: len(shown(command)) == len(TABLES))
    process.send_signal(signal.SIGSTOP)

    done = command("status", "--json")

    assert done.code == 0
    assert "has not answered within 2 s" in done.err
    assert {one["harness"]: one["activity"] for one in done.objects}["working"] == "running"
