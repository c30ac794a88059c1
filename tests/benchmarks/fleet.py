"""Ten thousand harnesses in one program: what starting, stepping and ending each costs, its memory, and `/status` of all."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import trio
from attrs import define, field

from orchestrator import Orchestrator
from tests.benchmarks.work import Script, Stepping, scripts

Figures = dict[str, Any]
_ASKED = 7


@define
class _Gates:
    """Holds all harnesses before their first step and after their last one."""

    count: int
    steps: trio.Event = field(factory=trio.Event)
    end: trio.Event = field(factory=trio.Event)
    arrived: int = 0
    all_in: trio.Event = field(factory=trio.Event)

    async def wait(self, gate: trio.Event) -> None:
        self.arrived += 1
        if self.arrived == self.count:
            self.all_in.set()
        await gate.wait()

    async def gather(self) -> None:
        await self.all_in.wait()
        self.arrived, self.all_in = 0, trio.Event()


class _Gated(Stepping):
    def __init__(self, number: int, script: Script, gates: _Gates) -> None:
        super().__init__(len(script), number, script)
        self.gates = gates

    async def execute(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
        await self.gates.wait(self.gates.steps)
        while (count := self.state.count + 1) <= self.steps:
            yield self.make(count)
        await self.gates.wait(self.gates.end)


def fleet(folder: Path, harnesses: int = 10_000, steps: int = 10) -> Figures:
    """Microseconds of processor time a harness for start, each step and end; `/status` of all, in a process of its own."""
    code = f"from tests.benchmarks.fleet import main; main({str(folder / 'fleet.db')!r}, {harnesses}, {steps})"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = eval(done.stdout)
    return {"harnesses": harnesses, "steps_each": steps, **figures}


def main(path: str, harnesses: int, steps: int) -> None:
    """Run one fleet, and print its figures."""
    print(trio.run(_measure, path, scripts(harnesses, steps)))


async def _measure(path: str, script: list[Script]) -> Figures:
    count, gates = len(script), _Gates(len(script))
    made = [_Gated(number, turns, gates) for number, turns in enumerate(script)]
    before, moments = _resident(), [time.process_time()]
    async with Orchestrator(path, control=True, handle_signals=False) as orchestrator:
        for number, harness in enumerate(made):
            orchestrator.start(harness, name=f"h{number}")
        await gates.gather()
        moments.append(time.process_time())
        gates.steps.set()
        await gates.gather()
        moments.append(time.process_time())
        memory = (_resident() - before) // count
        figures = await _ask(str(orchestrator.beside.control_path))
        moments.append(time.process_time())
        gates.end.set()
    moments.append(time.process_time())
    started, stepped, _, ended = (late - soon for soon, late in pairwise(moments))
    return {
        "start_us": round(started / count * 1e6),
        "step_us": round(stepped / sum(map(len, script)) * 1e6, 1),
        "end_us": round(ended / count * 1e6),
        "bytes_each": memory,
        **figures,
    }


async def _ask(path: str) -> Figures:
    """Ask for the status of all from another process, which reads the response and drops it."""
    waits: list[float] = []
    works: list[float] = []
    loops: list[float] = []
    for _ in range(_ASKED):
        began = time.perf_counter(), time.process_time(), time.thread_time()
        done = await trio.run_process(["curl", "-s", "-o", "/dev/null", "--unix-socket", path, "http://x/status"])
        assert done.returncode == 0
        waits.append(time.perf_counter() - began[0])
        works.append(time.process_time() - began[1])
        loops.append(time.thread_time() - began[2])
    return {
        "status_ms": round(median(waits) * 1e3, 1),
        "status_processor_ms": round(median(works) * 1e3, 1),
        "status_loop_ms": round(median(loops) * 1e3, 1),
    }


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
