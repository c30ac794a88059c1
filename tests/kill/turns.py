"""Kill and stop the program that takes a turn with three tool calls at every event of it, in two kinds of harness.

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
from .turn_lives import KILL, MOMENTS, WAYS, ended_once, tampering, uninterrupted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.turns", description=__doc__)
    parser.add_argument("--each-call", action="store_true", help="instead: kill at each write and each sync, by strace")
    options = parser.parse_args()
    preload("openai", "harnesses.agents.chat.model_agent", "harnesses.agents.model.providers.openai_chat_provider")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ModelServer() as server:
        ends = kill_at_calls(Path(name), server) if options.each_call else end_at_events(Path(name), server)
    print(f"{ends} kills and stops; no tool acted twice, no finished call was paid again ({time.monotonic() - begin:.0f} s)")


def end_at_events(folder: Path, server: ModelServer) -> int:
    """End programs in each way at each moment that an uninterrupted turn passes by; return how many ends that were."""
    ends = 0
    for way in WAYS:
        place = folder / way.name.replace(" ", "-")
        wanted, counts = uninterrupted(place / "whole", server, way)
        for moment in MOMENTS:
            for number in range(1, counts[moment] + 1):
                ends += ended_once(place / f"{moment}-{number}", server, wanted, way, f"{moment}:{number}")
            print(f"{way.name}: at each of {counts[moment]} moments: {moment}", flush=True)
    return ends


def kill_at_calls(folder: Path, server: ModelServer) -> int:
    """Kill at the first write, the second, and so on, until a program makes fewer; then the same with the syncs."""
    if why := why_no_strace():
        sys.exit(why)
    wanted, _ = uninterrupted(folder / "whole", server)
    kills = 0
    for calls in (SYNCS, WRITES):
        number = 1
        while ended_once(folder / f"{calls}-{number}", server, wanted, KILL, before=tampering(calls, number)):
            kills, number = kills + 1, number + 1
        print(f"{calls}: killed at each of {number - 1}", flush=True)
    return kills


if __name__ == "__main__":
    main()
