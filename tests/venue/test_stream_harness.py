"""A harness with a stream: killed at any moment it has each bar once, and it ends at once whatever the socket does."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses.trading.exchange.ccxt_client import CcxtOptions
from tests import ROOT, zygote

from .running import RunningVenue
from .test_stream import polled

SLICES = 10
_LONGEST_S = 30.0


def start_program(venue: RunningVenue, store: Path, start: datetime) -> zygote.Program:
    zygote.preload("ccxt.pro")
    arguments = [str(store), f"--venue={venue.url}", f"--start={start.isoformat()}", f"--slices={SLICES}"]
    return zygote.Program(["-m", "tests.venue.streamed_life", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def end(program: zygote.Program) -> None:
    program.kill()
    program.wait()
    if program.stdout is not None:
        program.stdout.close()


def wait_for_listeners(venue: RunningVenue, program: zygote.Program) -> bool:
    """Wait until the program listens; return False if it has ended."""
    deadline_s = time.monotonic() + _LONGEST_S
    while not venue.control("stream")["listeners"]:
        if program.poll() is not None:
            return False
        assert time.monotonic() < deadline_s, f"the program does not listen within {_LONGEST_S} s"
        time.sleep(0.01)
    return True


async def test_a_harness_that_is_killed_has_each_bar_once_and_in_order_and_those_of_polling(
    venue: RunningVenue, options: CcxtOptions, tmp_path: Path
) -> None:
    start, chance, kills = datetime.now(UTC) - timedelta(minutes=2), random.Random(3), 0
    program = start_program(venue, tmp_path / "run.db", start)
    try:
        for _ in range(SLICES + 2):
            if not wait_for_listeners(venue, program):
                break
            venue.control("clock", jump_s=60)
            await trio.sleep(chance.uniform(0.0, 0.3))
            if kills < 4 and program.poll() is None:
                program.kill()
                program.communicate(timeout=_LONGEST_S)
                kills += 1
                program = start_program(venue, tmp_path / "run.db", start)
        said, _ = program.communicate(timeout=_LONGEST_S)
    finally:
        end(program)

    told: list[Any] = json.loads(said)
    expected = (await polled(options, start))[:SLICES]
    assert kills == 4
    assert [(datetime.fromisoformat(when), bars) for when, bars in told] == [
        (one.time, {symbol: str(bar.close) for symbol, bar in one.bars.items()}) for one in expected
    ]


@pytest.mark.parametrize("fault", ["none", "deaf"])
def test_a_program_with_a_stream_ends_at_a_signal_whatever_the_socket_does(
    venue: RunningVenue, tmp_path: Path, fault: str
) -> None:
    program = start_program(venue, tmp_path / "run.db", datetime.now(UTC) - timedelta(minutes=2))
    try:
        assert wait_for_listeners(venue, program)
        venue.control("stream", do="fault", name=fault)
        began_s = time.monotonic()
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=_LONGEST_S)
        took_s = time.monotonic() - began_s
    finally:
        end(program)

    assert took_s < 5.0
