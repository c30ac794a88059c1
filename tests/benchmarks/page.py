"""The page about 10,000 harnesses of 100 steps: the server's answers, and a browser that draws, scrolls and sorts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.web.site import Site
from tests import ROOT
from tests.benchmarks.large_store import write_large_store
from tests.orchestrator.web.conftest import TOKEN, open_browser, serving

Figures = dict[str, Any]
_VIEW = {"width": 1280, "height": 900}
_ROUNDS, _STEPPED = 7, 4_000
_PAIRS, _FOLLOWERS, _STEPPING, _EACH = 3, 50, 500, 50
_FRAMES = """
async ([place, distance]) => {
  const box = document.querySelector(place), times = [];
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  let last = await frame();
  for (let count = 0; count < 120; count++) {
    if (box) box.scrollTop += distance;
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  times.sort((a, b) => a - b);
  const sum = times.reduce((a, b) => a + b, 0);
  const [per_s, p95_ms, slowest_ms] = [1000 * times.length / sum, times[113], times.at(-1)].map(Math.round);
  return { per_s, p95_ms, slowest_ms };
}
"""
_CHANGE = """
async ([label, value]) => {
  const input = document.querySelector(`[aria-label="${label}"]`);
  const began = performance.now();
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  const worked = performance.now() - began;
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  return [worked, performance.now() - began];
}
"""
_SEARCHES = ("c", "co", "cod", "coder-9", "coder-99", "trader", "")
_SORTS = ("by name", "by steps", "as a tree", "longest step first", "newest first", "worst first")


def page(folder: Path, harnesses: int = 10_000, steps: int = 100) -> Figures:
    """Measure the page about a store, which is written first unless it is there."""
    path = folder / "run.db"
    if not path.exists():
        write_large_store(path, harnesses * steps, harnesses)
    figures: Figures = {"harnesses": harnesses, "steps": harnesses * steps, "server": _server(path)}
    figures["live"] = live(folder / "live.db", harnesses)
    with serving(path, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}) as url, open_browser() as browser:
        figures["browser"] = _browser(browser, url, harnesses)
        figures["watched"] = _watched(folder, browser)
    return figures


def _server(path: Path) -> Figures:
    """Return milliseconds of processor time for `/fleet`: the first time, all rows again, what is new, and read anew.

    It is read anew with nothing recorded since, and after another step of 2,000 harnesses, which stay in the store.
    """
    site = Site(path)
    took = {"cold_ms": _ms(lambda: site.fleet.changed(0))}
    took["again_ms"] = median(_ms(lambda: site.fleet.changed(0)) for _ in range(_ROUNDS))
    version = site.fleet.version
    took["nothing_new_ms"] = median(_ms(lambda: site.fleet.changed(version)) for _ in range(_ROUNDS))
    anew = list[float]()
    for _ in range(_ROUNDS):
        time.sleep(0.6)  # what was read is told again for half a second
        anew.append(_ms(lambda: site.fleet.changed(version)))
    took["read_anew_ms"] = median(anew)
    with closing(SqliteStore(path)) as store:
        names = [row["harness"] for row in site.fleet.rows()[1:_STEPPED:2]]
        working = [claim(store, name, take_over=True, reopen=True) for name in names]
        site.fleet.changed(version)
        stepped = list[float]()
        for number in range(1, _ROUNDS + 1):
            rows = [step_row(one, one.step + number) for one in working]
            for first in range(0, len(rows), 500):
                store.commit(rows[first : first + 500])
            time.sleep(0.6)
            stepped.append(_ms(lambda: site.fleet.changed(site.fleet.version)))
    site.close()
    took["read_anew_after_2000_steps_ms"] = median(stepped)
    return {name: round(each, 1) for name, each in took.items()}


def live(path: Path, harnesses: int) -> Figures:
    """Return milliseconds of processor time for `/fleet` when 2,000 of the harnesses of a program have made a step.

    Of the server, of the program that tells it what they do, and of both when nothing has happened.
    """
    command = [sys.executable, "-m", "tests.benchmarks.page", "live", str(path), str(harnesses)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            took = dict[str, list[float]]()
            program.stdout.readline()
            site = Site(path)
            site.fleet.changed(0)
            for number in range(2 * _ROUNDS):
                name = ("steps", "idle")[number % 2]
                if name == "steps":
                    program.stdin.write("step\n")
                    program.stdin.flush()
                    program.stdout.readline()
                time.sleep(1.2)  # what the programs told is told again for a second
                clock = (~program.pid << 3) | 2  # the processor time of another process; see clock_getcpuclockid(3)
                began = time.clock_gettime(clock)
                took.setdefault(name, []).append(_ms(lambda: site.fleet.changed(site.fleet.version)))
                took.setdefault(f"{name}_program", []).append((time.clock_gettime(clock) - began) * 1000)
            site.close()
        finally:
            program.kill()
    return {f"{name}_ms": round(median(each), 1) for name, each in took.items()}


def _ms(function: Any) -> float:
    begin = time.process_time()
    function()
    return (time.process_time() - begin) * 1000


def _browser(browser: Any, url: str, harnesses: int) -> Figures:
    context = browser.new_context(viewport=_VIEW)
    tab, origin = context.new_page(), url.partition("?")[0]
    tab.goto("about:blank")
    floor = tab.evaluate(_FRAMES, ["none", 0])
    tab.goto(url)
    figures: Figures = {"frames_of_an_empty_page": floor, "first_rows_s": _first_rows(tab, origin)}
    tab.get_by_text(f"{harnesses:,} of {harnesses:,}").wait_for()
    figures["frames_scrolling"] = tab.evaluate(_FRAMES, [".grid", 400])
    for name, label, values in (("search", "Search", _SEARCHES), ("sort", "Order", _SORTS)):
        times = [tab.evaluate(_CHANGE, [label, value]) for value in values]
        figures[f"{name}_ms"] = {
            "script": round(max(worked for worked, _ in times), 1),
            "with_the_frame": round(max(whole for _, whole in times), 1),
        }
    session = context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    figures["heap_mb"], figures["nodes"] = round(metrics["JSHeapUsedSize"] / 1e6, 1), int(metrics["Nodes"])
    context.close()
    return figures


def _first_rows(tab: Any, origin: str) -> Figures:
    """Return seconds from the request for the page to the first row of the fleet."""
    times = list[float]()
    for _ in range(_ROUNDS):
        tab.goto("about:blank")
        began = time.perf_counter()
        tab.goto(f"{origin}#/fleet")
        tab.locator("div.row[data-harness]").first.wait_for()
        times.append(time.perf_counter() - began)
    return {"first": round(times[0], 2), "median": round(median(times), 2)}


def _watched(folder: Path, browser: Any) -> Figures:
    """Return what 50 followers and a page cost a program: the share of its steps a second, in pairs, and its own time."""
    pairs = [(_stepping(folder / f"bare-{n}.db", None), _stepping(folder / f"watched-{n}.db", browser)) for n in range(_PAIRS)]
    return {
        "share_of_steps_per_s": round(median(watched[0] / bare[0] for bare, watched in pairs), 2),
        "us_of_the_program_for_a_step": [round(median(us), 1) for us in zip(*((a[1], b[1]) for a, b in pairs), strict=True)],
    }


def _stepping(path: Path, browser: Any) -> tuple[float, float]:
    """Return steps a second, and microseconds of processor time a step, of a program in a process of its own."""
    SqliteStore(path).close()
    with ExitStack() as stack:
        if browser is not None:
            url = stack.enter_context(serving(path, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}))
            followers = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.page", "follow", url], cwd=ROOT)
            stack.callback(followers.wait)
            stack.callback(followers.kill)
            tab = browser.new_page()
            stack.callback(tab.close)
            tab.goto(url)
            tab.goto(f"{url.partition('?')[0]}#/fleet")
            time.sleep(1.5)  # until all of them follow
        ran = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.page", "step", str(path)], cwd=ROOT, capture_output=True, check=True
        )
    took_s, processor_s = map(float, ran.stdout.split())
    return _STEPPING * _EACH / took_s, processor_s / (_STEPPING * _EACH) * 1e6


class _Stepping(BaseHarness[int, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(_EACH):
            self.update_state(lambda count: count + 1)
            yield number, self.state


async def _step(path: str) -> None:
    began, worked = time.perf_counter(), time.process_time()
    async with Orchestrator(path, control=True) as orchestrator:
        for number in range(_STEPPING):
            orchestrator.start(_Stepping(0), name=f"h{number}")
    print(time.perf_counter() - began, time.process_time() - worked)


class _Stirred(BaseHarness[int, int, int]):
    """Makes a step each time that it is woken."""

    def __init__(self) -> None:
        super().__init__(0)
        self.bell, self.begun = trio.Event(), trio.Event()

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            self.begun.set()
            await self.bell.wait()
            self.bell = trio.Event()
            self.update_state(lambda count: count + 1)
            yield 0, self.state


async def _live(path: str, count: str) -> None:
    """Run harnesses, of which some make a step for each line of standard input; say so when they have."""
    async with Orchestrator(path, control=True) as orchestrator:
        made = [_Stirred() for _ in range(int(count))]
        for number, harness in enumerate(made):
            orchestrator.start(harness, name=f"h{number}")
        for harness in made:
            await harness.begun.wait()
        print("begun", flush=True)
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            stirred = made[1:_STEPPED:2]
            for harness in stirred:
                harness.begun = trio.Event()
                harness.bell.set()
            for harness in stirred:
                await harness.begun.wait()
            print("stepped", flush=True)


async def _follow(url: str) -> None:
    """Follow the events of a page server with many connections, until killed."""
    port = int(url.partition("?")[0].rstrip("/").rpartition(":")[2])
    asked = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()

    async def one() -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(asked)
        async for _ in stream:
            pass

    async with trio.open_nursery() as nursery:
        for _ in range(_FOLLOWERS):
            nursery.start_soon(one)


if __name__ == "__main__":
    trio.run({"step": _step, "follow": _follow, "live": _live}[sys.argv[1]], *sys.argv[2:])
