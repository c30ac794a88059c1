"""Kill the program that takes a turn with three tool calls at every event of it.

python -m tests.kill.turns                 at each commit, request, piece of an answer and tool call
python -m tests.kill.turns --each-call     instead: at each write and each sync of the program, by strace
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.model_server import ModelServer
from tests.zygote import preload

from .calls import SYNCS, WRITES, why_no_strace
from .turn_lives import MOMENTS, killed_once, tampering, uninterrupted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.turns", description=__doc__)
    parser.add_argument("--each-call", action="store_true", help="instead: kill at each write and each sync, by strace")
    options = parser.parse_args()
    preload("openai", "harnesses.agents.chat.model_agent", "harnesses.agents.model.providers.openai_chat_provider")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ModelServer() as server:
        kills = kill_at_calls(Path(name), server) if options.each_call else kill_at_events(Path(name), server)
    print(f"{kills} kills; no tool acted twice, no finished call was paid again ({time.monotonic() - begin:.0f} s)")


def kill_at_events(folder: Path, server: ModelServer) -> int:
    """Kill at each moment that an uninterrupted turn passes by; return how many kills that were."""
    wanted, counts = uninterrupted(folder / "whole", server)
    kills = 0
    for moment in MOMENTS:
        for number in range(1, counts[moment] + 1):
            kills += killed_once(folder / f"{moment}-{number}", server, wanted, f"{moment}:{number}")
        print(f"{moment}: killed at each of {counts[moment]}", flush=True)
    return kills


def kill_at_calls(folder: Path, server: ModelServer) -> int:
    """Kill at the first write, the second, and so on, until a program makes fewer; then the same with the syncs."""
    if why := why_no_strace():
        sys.exit(why)
    wanted, _ = uninterrupted(folder / "whole", server)
    kills = 0
    for calls in (SYNCS, WRITES):
        number = 1
        while killed_once(folder / f"{calls}-{number}", server, wanted, before=tampering(calls, number)):
            kills, number = kills + 1, number + 1
        print(f"{calls}: killed at each of {number - 1}", flush=True)
    return kills


if __name__ == "__main__":
    main()
