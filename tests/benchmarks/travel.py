"""How long it takes to look up a state at any of a million steps, for states of several shapes, and to fork a million."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field

from harnesses.data.delta import Delta
from orchestrator import SqliteStore
from orchestrator.codec import encode, encode_private
from orchestrator.history import diff, state_at, state_hash
from orchestrator.history.forking import fork
from orchestrator.recording.snapshot_policy import SnapshotPolicy
from orchestrator.store import SqliteReader
from orchestrator.store.conformance import TIME_US, claim
from orchestrator.store.store_protocol import Claimed, StepRow

Figures = dict[str, Any]
Advance = Callable[[Any, int], Delta]
MEGABYTE = 1_000_000
_BATCH = 20_000
_TAIL = 3_000
"""Steps of the end that are in no index yet: as many as may be."""


def travel(folder: Path, steps: int = 1_000_000, looks: int = 200) -> Figures:
    """Return milliseconds, by the shape of the state: the median look, the slowest of a hundred, and the slowest.

    The store holds a million steps of a small state, and a tenth as many of each other shape; each state found is held against
    the hash that the live one had.
    """
    path, chance = folder / "travel.db", Random(4)
    with closing(SqliteStore(path)) as store:
        runs = [_Run(name, store, steps if name == "small" else steps // 10) for name in SHAPES]
        for run in runs:
            run.make(store, chance, looks)
        figures: Figures = {"steps": sum(run.steps for run in runs), "megabytes": round(_size(path) / MEGABYTE)}
        with closing(SqliteReader(path)) as reader:
            for run in runs:
                figures[run.name] = run.look(reader)
            figures["diff_ms"] = round(1000 * _time(lambda: diff(reader, "wide", steps // 20, steps // 10)), 1)
    figures["fork_s"] = round(_time(lambda: fork(path, "small", steps, to="forked")), 2)
    figures["fork_100000_s"] = round(_time(lambda: fork(path, "small", steps // 10, to="forked.too")), 2)
    figures["fork_into_another_s"] = round(_time(lambda: fork(path, "small", steps, to="forked", into=folder / "other.db")), 2)
    return figures


@define
class _Run:
    """One harness that makes steps, and what its state is at some of them."""

    name: str
    store: SqliteStore
    steps: int
    state: Any = None
    advance: Advance = field(default=lambda state, step: {})
    claimed: Claimed = field(init=False)
    hashes: dict[int, str] = field(factory=dict[int, str])
    far: tuple[int, int] = (0, 0)
    """The step that is furthest from a snapshot, and how far that is."""

    def __attrs_post_init__(self) -> None:
        self.state, self.advance = SHAPES[self.name]()
        self.claimed = claim(self.store, self.name, state=encode(self.state))

    def make(self, store: SqliteStore, chance: Random, looks: int) -> None:
        """Record all steps, the last ones so that they are in no index; note some hashes."""
        tail = range(max(0, self.steps - _TAIL), self.steps + 1)
        wanted = {*chance.sample(range(self.steps + 1), looks), *chance.sample(tail, looks // 10 + 1), 0, 1, self.steps}
        savings, last = SnapshotPolicy(snapshot_bytes=len(self.claimed.state)), 0
        rows: list[StepRow] = []
        for step in range(1, self.steps + 1):
            delta = self.advance(self.state, step)
            body = encode_private({"input": {"tick": step}, "output": {"ok": True, "text": "x" * 60}, "delta": delta})
            saved = savings.snapshot(body, delta, lambda: self.state)
            rows.append(StepRow(self.claimed.harness, self.claimed.epoch, 1, step, TIME_US + step, body, saved))
            if saved is not None and step - last > self.far[1]:
                self.far, wanted = (step - 1, step - last), {*wanted, step}
            last = step if saved is not None else last
            if step in wanted or (self.far[1] and step == self.far[0]):
                self.hashes[step] = state_hash(self.state)
            if len(rows) == (_BATCH if step < self.steps - _TAIL else 400):
                store.commit(rows)
                rows = []
        store.commit(rows)

    def look(self, reader: SqliteReader) -> Figures:
        """Return what looking at states takes."""
        steps = [*self.hashes, self.far[0]]
        took = sorted((*_times(partial(reader.state_at, self.name, step)), step) for step in steps)
        for step, hash in self.hashes.items():
            assert state_hash(state_at(reader, self.name, step)) == hash, f"{self.name} at {step}"
        plain = max(_times(partial(state_at, reader, self.name, step)) for *_, step in took[-5:])
        return {
            "state_kb": round(len(reader.state_at(self.name, self.steps)) / 1000),
            "furthest": self.far[1],
            "median_ms": round(1000 * took[len(took) // 2][0], 1),
            "p99_ms": round(1000 * took[-1 - len(took) // 100][0], 1),
            "most_ms": round(1000 * took[-1][0], 1),
            "most_cpu_ms": round(1000 * max(cpu_s for _, cpu_s, _ in took), 1),
            "most_cpu_as_data_ms": round(1000 * plain[1], 1),
        }


# shapes: a first state, and what a step changes in it


def _small() -> tuple[Any, Advance]:
    def advance(state: Any, step: int) -> Delta:
        state["count"] = step
        return {"set": {"count": step}}

    return {"count": 0, "name": "eurusd", "cash": "1000.00"}, advance


def _unchanged() -> tuple[Any, Advance]:
    return {"text": "x" * MEGABYTE}, lambda state, step: {}


def _wide() -> tuple[Any, Advance]:
    def advance(state: Any, step: int) -> Delta:
        key = f"k{step * 7919 % 50_000}"
        state["values"][key] = step
        return {"in": {"values": {"set": {key: step}}}}

    return {"values": {f"k{number}": 1_000_000 + number for number in range(50_000)}}, advance


def _records() -> tuple[Any, Advance]:
    def advance(state: Any, step: int) -> Delta:
        place = step * 7919 % 5_000
        state["features"][place]["turns"] = step
        return {"in": {"features": {"in": {str(place): {"set": {"turns": step}}}}}}

    one = {"status": "pending", "turns": 0, "description": "x" * 140}
    return {"features": [{"id": f"f{number}", **one} for number in range(5_000)]}, advance


def _window() -> tuple[Any, Advance]:
    size = 80_000

    def advance(state: Any, step: int) -> Delta:
        del state["readings"][0]
        state["readings"].append(step / 7)
        return {"in": {"readings": {"keep": [1, size], "append": [step / 7]}}}

    return {"readings": [float(number) for number in range(size)]}, advance


def _growing() -> tuple[Any, Advance]:
    def advance(state: Any, step: int) -> Delta:
        state["fills"].append(step)
        return {"in": {"fills": {"append": [step]}}}

    return {"fills": []}, advance


def _replaced() -> tuple[Any, Advance]:
    def advance(state: Any, step: int) -> Delta:
        state["plan"] = plan = f"{step:02000}"
        return {"set": {"plan": plan}}

    return {"plan": ""}, advance


SHAPES: dict[str, Callable[[], tuple[Any, Advance]]] = {
    "unchanged": _unchanged,
    "wide": _wide,
    "records": _records,
    "window": _window,
    "growing": _growing,
    "replaced": _replaced,
    "small": _small,
}


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in _files(path))


def _files(path: Path) -> Iterator[Path]:
    return path.parent.glob(f"{path.name}*")


def _times(work: Callable[[], object]) -> tuple[float, float]:
    """Return what it took by the clock, and of the processor: apart where others are at work on the machine."""
    begin, cpu = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - begin, time.thread_time() - cpu


def _time(work: Callable[[], object]) -> float:
    return _times(work)[0]
