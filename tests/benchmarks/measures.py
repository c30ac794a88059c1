"""What is measured. Each function takes a folder and returns the figures of one run, compared within that run."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore
from tests.benchmarks.trading import backtest, backtest_stored
from tests.benchmarks.work import TEXTS, Acting, Appending, Replacing, Script, Stepping, scripts

Figures = dict[str, Any]


def throughput(folder: Path, harnesses: int = 1000, steps: int = 50, rounds: int = 5) -> Figures:
    """Durable steps a second against the bare pipeline: same generators and data, one channel, nothing stored."""
    script = scripts(harnesses, steps)
    pairs = [_pair(folder / f"throughput-{number}.db", script) for number in range(rounds)]
    return {
        "harnesses": harnesses,
        "steps_each": steps,
        "bare_per_s": round(median(bare for _, bare in pairs)),
        "durable_per_s": round(median(ours for ours, _ in pairs)),
        "ratio": round(median(ours / bare for ours, bare in pairs), 3),
        "ratios": [round(ours / bare, 3) for ours, bare in pairs],
    }


def texts(folder: Path, rounds: int = 3) -> Figures:
    """Durable steps a second of words and of random hex, with redaction and without, by number of harnesses."""
    figures: Figures = {}
    for count, steps in ((1, 3000), (100, 200), (1000, 50)):
        for text in TEXTS:
            script = scripts(count, steps, text)
            for redact in (True, False):
                paths = [folder / f"{count}-{text}-{redact}-{number}.db" for number in range(rounds)]
                pairs = [_pair(path, script, redact=redact) for path in paths]
                figures[f"{text}{'' if redact else '_unredacted'}_at_{count}"] = {
                    "per_s": round(median(ours for ours, _ in pairs)),
                    "ratio": round(median(ours / bare for ours, bare in pairs), 3),
                }
    return figures


def effects(folder: Path, harnesses: int = 1000, steps: int = 30, rounds: int = 5) -> Figures:
    """Steps a second with one effect in each, intent and outcome on disk, against the same without effects."""
    pairs = []
    script = scripts(harnesses, steps)
    for number in range(rounds):
        plain = _rate(script, _run_all, folder / f"plain-{number}.db", _make(Stepping, script))
        acting = _rate(script, _run_all, folder / f"effects-{number}.db", _make(Acting, script))
        pairs.append((acting, plain))
    return {
        "harnesses": harnesses,
        "steps_each": steps,
        "without_per_s": round(median(plain for _, plain in pairs)),
        "with_per_s": round(median(acting for acting, _ in pairs)),
        "ratio": round(median(acting / plain for acting, plain in pairs), 3),
        "ratios": [round(acting / plain, 3) for acting, plain in pairs],
    }


def scale(folder: Path) -> Figures:
    """Durable steps a second at 1, 10, 100, 1,000 and 10,000 harnesses, start and end included."""
    plan = {1: 3000, 10: 2000, 100: 500, 1000: 100, 10_000: 10}
    figures: Figures = {}
    for count, steps in plan.items():
        script = scripts(count, steps)
        figures[f"at_{count}"] = round(_rate(script, _run_all, folder / f"scale-{count}.db", _make(Stepping, script)))
    return figures


def one_alone(folder: Path, steps: int = 3000, rounds: int = 5) -> Figures:
    """One harness against a loop that does one INSERT and COMMIT per step on such a file; and one with group durability."""
    pairs = []
    groups: list[tuple[float, float]] = []
    script, longer = scripts(1, steps), scripts(1, 10 * steps)
    for number in range(rounds):
        loop = steps / _time(lambda number=number: _insert_and_commit(folder / f"loop-{number}.db", steps))
        ours = _rate(script, _run_all, folder / f"alone-{number}.db", _make(Stepping, script))
        pairs.append((ours, loop))
        before = time.process_time()
        rate = _rate(longer, _run_all, folder / f"group-{number}.db", _make(Stepping, longer), True, "group")
        groups.append((rate, 1e6 * (time.process_time() - before) / len(longer[0])))
    return {
        "insert_commit_per_s": round(median(loop for _, loop in pairs)),
        "harness_per_s": round(median(ours for ours, _ in pairs)),
        "ratio": round(median(ours / loop for ours, loop in pairs), 3),
        "group_per_s": round(median(rate for rate, _ in groups)),
        "group_processor_us": round(min(spent for _, spent in groups), 1),
    }


def live(folder: Path, harnesses: int = 10_000, steps: int = 10) -> Figures:
    """Memory of ten thousand live harnesses that have made ten steps each, in a process of its own."""
    code = f"from tests.benchmarks.measures import _live; _live({str(folder / 'live.db')!r}, {harnesses}, {steps})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    made, bytes_each = map(int, done.stdout.split())
    return {"harnesses": harnesses, "steps": made, "bytes_each": bytes_each}


def growth(folder: Path, steps: int = 10_000) -> Figures:
    """Appending one item to a list a step, against replacing one field as large."""
    sizes, times = [], []
    for cls in (Appending, Replacing):
        path = folder / f"{cls.__name__}.db"
        times.append(_time(lambda path=path, cls=cls: trio.run(_run_all, path, [cls(steps)])))
        sizes.append(path.stat().st_size)
    return {
        "steps": steps,
        "appending_bytes": sizes[0],
        "replacing_bytes": sizes[1],
        "bytes_ratio": round(sizes[0] / sizes[1], 2),
        "appending_s": round(times[0], 2),
        "replacing_s": round(times[1], 2),
        "time_ratio": round(times[0] / times[1], 2),
    }


def long_run(folder: Path, steps: int = 200_000) -> Figures:
    """Resident memory over the steps of one harness, in a process of its own."""
    code = f"from tests.benchmarks.measures import _long_run; _long_run({str(folder / 'long.db')!r}, {steps})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kilobytes = [int(text) // 1024 for text in done.stdout.split()]
    return {"steps": steps, "resident_kb_by_tenth": kilobytes, "grown_kb_after_first_tenth": kilobytes[-1] - kilobytes[1]}


def resume(folder: Path, harnesses: int = 1000, steps: int = 200) -> Figures:
    """From entering an Orchestrator over a store with many steps to the first new step of every harness."""
    path = folder / "resume.db"
    trio.run(_run_all, path, [Stepping(steps, number) for number in range(harnesses)])
    to_first_step = trio.run(_first_steps, path, harnesses, steps)
    store = SqliteStore(path)
    asked = [_time(lambda name=f"h{n}": store.steps(name, limit=10 * steps)) for n in range(0, harnesses, harnesses // 20)]
    with sqlite3.connect(path) as db:
        seen = _time(lambda: db.execute("SELECT * FROM steps WHERE harness = 'h7'").fetchall())
    db.close()
    store.close()
    return {
        "stored_steps": harnesses * steps,
        "first_step_of_all_s": round(to_first_step, 3),
        "steps_of_one_ms": round(max(asked) * 1000, 1),
        "steps_of_one_by_view_ms": round(seen * 1000, 1),
    }


def size(folder: Path, harnesses: int = 100, steps: int = 200) -> Figures:
    """Bytes on disk for a step of about 200 bytes, the ten-field state, index and snapshots included."""
    path = folder / "size.db"
    trio.run(_run_all, path, [Stepping(steps, number) for number in range(harnesses)])
    return {"bytes_per_step": round(path.stat().st_size / (harnesses * steps))}


def imports(folder: Path, rounds: int = 7) -> Figures:
    """What `import harnesses, orchestrator` takes over importing trio, attrs and structlog."""
    base, ours = "import trio, attrs, structlog", "import trio, attrs, structlog, harnesses, orchestrator"
    pairs = [(_import_s(ours), _import_s(base)) for _ in range(rounds)]
    return {"over_ms": round(1000 * median(one - other for one, other in pairs))}


MEASURES: dict[str, Callable[[Path], Figures]] = {
    "throughput": throughput,
    "texts": texts,
    "effects": effects,
    "scale": scale,
    "one_alone": one_alone,
    "live": live,
    "growth": growth,
    "long_run": long_run,
    "resume": resume,
    "size": size,
    "imports": imports,
    "backtest": backtest,
    "backtest_stored": backtest_stored,
}


def _pair(path: Path, script: list[Script], *, redact: bool = True) -> tuple[float, float]:
    """Return the steps a second of harnesses, and of the bare pipeline beside it on the same data."""
    bare = _rate(script, _bare, _make(Stepping, script))
    return _rate(script, _run_all, path, _make(Stepping, script), redact), bare


def _make(cls: type[Stepping], script: list[Script]) -> list[BaseHarness[Any, Any, Any]]:
    return [cls(len(turns), number, turns) for number, turns in enumerate(script)]


async def _bare(harnesses: Sequence[BaseHarness[Any, Any, Any]]) -> None:
    send, receive = trio.open_memory_channel[trio.lowlevel.Task](len(harnesses))

    async def one(harness: BaseHarness[Any, Any, Any]) -> None:
        async for _ in harness.execute():
            send.send_nowait(trio.lowlevel.current_task())
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)

    async def wake() -> None:
        async for task in receive:
            trio.lowlevel.reschedule(task)

    async with trio.open_nursery() as outer:
        outer.start_soon(wake)
        async with trio.open_nursery() as nursery:
            for harness in harnesses:
                nursery.start_soon(one, harness)
        outer.cancel_scope.cancel()


async def _run_all(
    path: Path,
    harnesses: Sequence[BaseHarness[Any, Any, Any]],
    redact: bool = True,
    durability: Literal["step", "group"] = "step",
) -> None:
    async with Orchestrator(path, redact=redact) as orchestrator:
        for number, harness in enumerate(harnesses):
            orchestrator.start(harness, name=f"h{number}", durability=durability)


async def _first_steps(path: Path, harnesses: int, steps: int) -> float:
    begin = time.perf_counter()
    async with Orchestrator(path) as orchestrator:
        made = [Stepping(steps + 1, number) for number in range(harnesses)]
        for number, harness in enumerate(made):
            orchestrator.start(harness, name=f"h{number}")
        while any(harness.current_step <= steps for harness in made):  # noqa: ASYNC110
            await trio.sleep(0.005)
        return time.perf_counter() - begin


def _insert_and_commit(path: Path, steps: int) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE steps (step INTEGER PRIMARY KEY, time REAL, body TEXT)")
    for step in range(steps):
        db.execute("BEGIN")
        db.execute("INSERT INTO steps VALUES (?, ?, ?)", (step, time.time(), "x" * 300))
        db.execute("COMMIT")
    db.close()


def _live(path: str, harnesses: int, steps: int) -> None:
    class Waiting(Stepping):
        async def execute(self) -> Any:
            while (count := self.state.count + 1) <= self.steps:
                yield self.make(count)
            await trio.sleep_forever()

    async def main() -> None:
        made = [Waiting(steps, number) for number in range(harnesses)]
        before = _resident()
        async with Orchestrator(path) as orchestrator:
            for number, harness in enumerate(made):
                orchestrator.start(harness, name=f"h{number}")
            while any(harness.current_step < steps for harness in made):  # noqa: ASYNC110
                await trio.sleep(0.05)
            print(sum(harness.current_step for harness in made), (_resident() - before) // harnesses)
            orchestrator.stop(grace=0)

    trio.run(main)


def _long_run(path: str, steps: int) -> None:
    class Watched(Stepping):
        async def execute(self) -> Any:
            async for pair in super().execute():
                if self.current_step % (steps // 10) == 0:
                    print(_resident())
                yield pair
            print(_resident())

    trio.run(_run_all, Path(path), [Watched(steps)])


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _import_s(statement: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - begin


def _rate(script: list[Script], work: Callable[..., Awaitable[None]], *args: Any) -> float:
    return sum(map(len, script)) / _time(lambda: trio.run(work, *args))


def _time(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
