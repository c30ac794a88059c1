"""What must hold at the end of all lives of the program of `tests.kill.both`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import frozen

from harnesses.effects.effect import EffectOutcome
from orchestrator.codec import decode, encode
from orchestrator.records import StepRecord
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.harnesses.coding.git_repositories import git
from tests.venue.placing import reach
from tests.venue.running import RunningVenue
from tests.venue.test_trading import assert_the_same_books
from tests.venue.trading import Known
from tests.zygote import run_python

from .both_world import Work
from .coding_lives import wait_until_gone
from .lives import assert_sound, assert_untouched

TRADING = "trading"
_ALL = 1_000_000
_LONGEST_S = 300.0
Marks = Mapping[tuple[str, int], bytes]


@frozen
class Counts:
    """What was done in all."""

    steps: int
    orders: int
    crashes: int


def mark_of(step: StepRecord[Any, Any]) -> bytes:
    """Return a hash of what a step says."""
    return sha256(encode([step.seq, step.input, step.output]).encode()).digest()


def verify(folder: Path, venue: RunningVenue, work: Work, coding: Sequence[str], seen: Marks) -> Counts:
    """Assert that everything is as it should be; return how much that is.

    Args:
        coding: the names of the coding harnesses, and of their repositories.
        seen: the marks of the steps that were in the store after a kill.
    """
    store = folder / "run.db"
    wait_until_gone(folder)
    assert_sound(store)
    assert_untouched(store)
    done = run_python("-m", "orchestrator", "verify", "--deep", "--store", store, cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with closing(SqliteReader(store)) as reader:
        heads = _verify_steps(reader, seen)
        crashes = _verify_log(folder / "log.jsonl", heads)
        left = [one for one in reader.effects() if one.is_open]
        assert not left, f"effects without an outcome: {left[:3]}"
        known = _known(reader, heads[TRADING])
        for name in coding:
            _verify_features(reader, folder, work, name, heads[name])
    trio.run(assert_the_same_books, venue, reach(venue.url, 4), known)
    return Counts(sum(heads.values()), len(known.taken), crashes)


def _verify_steps(reader: SqliteReader, seen: Marks) -> dict[str, int]:
    """Assert that all harnesses are complete, with their steps without a gap and as they were seen; return the last ones."""
    heads: dict[str, int] = {}
    marks: dict[tuple[str, int], bytes] = {}
    for one in reader.harnesses():
        assert str(one.status) == "completed", f"{one.name} is {one.status}"
        steps = reader.steps(one.name, limit=_ALL)
        numbers = [step.step_number for step in steps]
        assert numbers == list(range(1, one.current_step + 1)), f"{one.name}: its steps have a gap or a repeat"
        marks |= {(one.name, step.step_number): mark_of(step) for step in steps}
        heads[one.name] = one.current_step
    changed = [key for key, mark in seen.items() if marks.get(key) != mark]
    assert not changed, f"steps were lost or changed: {changed[:3]}"
    return heads


def _verify_log(log: Path, heads: Mapping[str, int]) -> int:
    """Assert that each step that the log tells is in the store, and told once; return how many crashes it tells."""
    crashes, logged = 0, Counter[tuple[str, int]]()
    for line in log.read_bytes().splitlines():
        told = json.loads(line)
        crashes += told["event"] == "harness.failed"
        if told["event"] == "harness.step":
            logged[told["harness"], told["step"]] += 1
    assert logged, "the log has no steps"
    for (name, step), count in logged.items():
        assert count == 1, f"{name}: step {step} was logged {count} times"
        assert step <= heads[name], f"{name}: step {step} was logged, and is not in the store"
    return crashes


def _known(reader: SqliteReader, head: int) -> Known:
    """Return the book and the orders that the trading harness knows."""
    book = decode(reader.state_at(TRADING, head))["book"]
    outputs: list[Any] = [step.output for step in reader.steps(TRADING, limit=_ALL)]
    taken = {report["client_id"] for output in outputs for report in output["reports"]}
    return msgspec.json.decode(encode({"book": book, "taken": sorted(taken)}), type=Known)


def _verify_features(reader: SqliteReader, folder: Path, work: Work, name: str, head: int) -> None:
    """Assert that a repository has each feature proven and merged once, and nothing left of a life that was killed."""
    state = decode(reader.state_at(name, head))
    assert [one["passes"] for one in state["features"]] == [True] * work.features, name
    repository, branch = folder / name, f"harness/{name}/main"
    log = git(repository, "log", "--first-parent", "--merges", "--format=%(trailers:key=Feature,valueonly)", branch)
    assert sorted(log.split()) == [f"tests/test_{part}.py::test_price" for part in work.names], (name, log)
    merges = [one for one in reader.effects(name) if one.key.startswith("merge")]
    assert [one.outcome for one in merges] == [EffectOutcome.CONFIRMED] * work.features, (name, merges)
    git(repository, "fsck", "--strict", "--no-dangling")
    for place in ("trees", "judging", "desks"):
        assert not list((folder / f"{name}-space" / place).glob("*")), f"{name}: a worktree is left"
    assert git(repository, "status", "--porcelain") == "", f"{name}: the checkout was touched"
    with tempfile.TemporaryDirectory() as place:
        tree = Path(place) / "tree"
        git(repository, "worktree", "add", "--quiet", "--detach", tree, branch)
        suite = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(suite, cwd=tree, capture_output=True, text=True, timeout=_LONGEST_S, check=False)
        git(repository, "worktree", "remove", "--force", tree)
    assert done.returncode == 0, done.stdout + done.stderr
