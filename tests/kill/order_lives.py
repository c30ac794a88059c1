"""Lives of the program that places, cancels and replaces orders and brackets: killed at one moment, gone on with to its end.

At the end the venue has each order once, the same fills, and no order open that the harness does not know; every step of the
harness has the equity that it has in a program that was not killed.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from pathlib import Path

from attrs import frozen

from harnesses.trading import PaperBroker
from orchestrator.store import SqliteReader
from tests.zygote import run_python

from .lives import ROOT, assert_sound
from .order_child import NAME

MOMENTS = ("commit-before", "commit-after", "submit-before", "submit-after", "cancel-before", "cancel-after")
_LONGEST_S = 60.0


@frozen
class World:
    """What is left when the recording is over."""

    accepted: int
    """Orders that the venue has taken."""
    fills: str
    open_at_venue: tuple[str, ...]
    open_on_record: tuple[str, ...]
    equity: tuple[str, ...]
    """Of each step."""


def live(folder: Path, *how: str) -> bool:
    """Let the program live once; return whether it was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ["-m", "tests.kill.order_child", str(folder), *how]
    with (folder / "errors").open("wb") as errors:
        env = {**os.environ, "XDG_STATE_HOME": str(folder)}
        code = run_python(*arguments, cwd=ROOT, env=env, stdout=errors, stderr=errors, timeout=_LONGEST_S).returncode
    killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert killed or code == 0, f"the program ended with code {code}:\n{(folder / 'errors').read_text()[-4000:]}"
    return killed


def world(folder: Path) -> World:
    """Return what is left."""
    assert_sound(folder / "run.db")
    with closing(SqliteReader(folder / "run.db")) as reader:
        outputs = [step.output for step in reader.steps(NAME)]
        state = json.loads(reader.state_at(NAME, len(outputs)))
    broker = PaperBroker(path=folder / "venue.db")
    ledger = broker._ledger  # pyright: ignore[reportPrivateUsage]
    found = World(
        accepted=broker.accepted,
        fills=str(ledger.fills("A", 0)),
        open_at_venue=tuple(sorted(ledger.books().orders)),
        open_on_record=tuple(sorted(state["open"])),
        equity=tuple(output["equity"] for output in outputs),
    )
    broker.close()
    return found


def killed_once(folder: Path, wanted: World, moment: str, *how: str) -> bool:
    """Kill a program at one moment, have the next one go on to the end, and assert what has to hold.

    Returns:
        Whether it was killed; if it passed by fewer such moments, it came to its end.
    """
    killed = live(folder, *how, "--kill", moment)
    if killed:
        assert not live(folder, *how)
    assert world(folder) == wanted, f"killed at {moment}"
    return killed


def uninterrupted(folder: Path, *how: str) -> tuple[World, dict[str, int]]:
    """Return what a program leaves that is not killed, and how many moments of each kind it passes by."""
    assert not live(folder, *how)
    return world(folder), json.loads((folder / "counts.json").read_text())
