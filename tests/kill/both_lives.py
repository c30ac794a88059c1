"""Lives of one program, `orchestrator run`, that trades at a hostile venue beside an agent that mends a repository.

At the end of all lives: each order is at the venue once, and the books are the venue's; each feature of each repository is
proven, merged once, and its suite passes; no step that was seen or logged is missing, repeated or changed; `verify` finds
nothing.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from orchestrator import StoreUnusable
from orchestrator.codec import decode
from orchestrator.records import StepRecord
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.model_server import ModelServer
from tests.venue.hostility import HOSTILE
from tests.venue.running import RunningVenue
from tests.zygote import Program, preload

from .both_end import TRADING, mark_of, verify
from .both_world import Work, run_file

_LONGEST_S = 900.0
_LONGEST_TURN_S = 60.0
_HOSTILITY = evolve(HOSTILE, limited=0.0, restart=0.0, late_s=0.5)
_BEGIN = timedelta(days=40)
"""More minutes than are traded."""


@define
class Tally:
    """What a series of lives came to."""

    kills: int = 0
    venue_kills: int = 0
    steps: int = 0
    orders: int = 0
    repositories: int = 0
    features: int = 0
    requests: int = 0
    """To the model."""
    crashes: int = 0
    """Harnesses that were restarted because the venue did not answer for too long."""

    def __str__(self) -> str:
        return (
            f"{self.kills} kills of the program and {self.venue_kills} of the venue: {self.steps} steps, "
            f"{self.orders} orders, "
            f"{self.features} features in {self.repositories} repositories with {self.requests} requests to the model, "
            f"{self.crashes} restarts after a crash; nothing missing, repeated or wrong"
        )


@define
class Both:
    """One program, its venue and its model, over all of its lives."""

    folder: Path
    venue: RunningVenue
    model: ModelServer
    work: Work
    chance: random.Random
    start: datetime = field(factory=lambda: datetime.now(UTC) - _BEGIN)
    repositories: int = 0
    tally: Tally = field(factory=Tally)
    seen: dict[tuple[str, int], bytes] = field(factory=dict[tuple[str, int], bytes])
    """A hash of each step that was in the store after a kill."""

    def prepare(self) -> None:
        """Make the first repository."""
        self.venue.hostile(_HOSTILITY)
        (self.folder / "home").mkdir()
        self.add_repository()

    def add_repository(self) -> None:
        """Add a repository, and a harness that works on it."""
        self.repositories += 1
        self.work.make(self.folder / self.coding[-1])
        self._count_requests()
        self.model.reset()
        self.work.teach(self.model)
        start = self.start.isoformat()
        text = run_file(self.venue.url, self.model.url, self.folder / "home", start, self._told, self.coding)
        (self.folder / "run.toml").write_text(text)

    def _count_requests(self) -> None:
        self.tally.requests += len(self.model.requests())

    @property
    def coding(self) -> list[str]:
        """The names of the coding harnesses."""
        return [f"coding-{number}" for number in range(1, self.repositories + 1)]

    @property
    def store(self) -> Path:
        return self.folder / "run.db"

    @property
    def _told(self) -> Path:
        return self.folder / "end"

    def live(self, seconds: float | None, *, after: int = 0) -> bool:
        """Let the program live, and kill it after a while; return whether it has ended by itself.

        Args:
            seconds: how long it lives; None lets it come to its end.
            after: the step of the newest coding harness from which on they count.
        """
        with tempfile.TemporaryFile() as said:
            words = ["-m", "orchestrator", "run", str(self.folder / "run.toml"), "--quiet"]
            process = Program(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
            try:
                if seconds is not None:
                    self._wait_for_step(process, after)
                code = process.wait(_LONGEST_S if seconds is None else seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                code = process.wait()
            said.seek(0)
            text = said.read().decode(errors="replace")
        if code == -signal.SIGKILL and seconds is not None:
            self.tally.kills += 1
            return False
        assert code == 0, f"the program ended by itself with code {code}:\n{text[-4000:]}"
        return True

    def _wait_for_step(self, process: Program, step: int) -> None:
        deadline = time.monotonic() + _LONGEST_TURN_S
        while self._coding_step() < step and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.1)

    def _coding_step(self) -> int:
        """Return the last step of the newest coding harness."""
        return self._heads().get(self.coding[-1], 0)

    def _heads(self) -> dict[str, int]:
        try:
            with closing(SqliteReader(self.store)) as reader:
                return {one.name: one.current_step for one in reader.harnesses()}
        except StoreUnusable:
            return {}

    def look(self) -> None:
        """Assert that every step that was seen before is there and unchanged; take in the new ones."""
        for record in self._steps():
            key, mark = (record.harness, record.step_number), mark_of(record)
            assert self.seen.setdefault(key, mark) == mark, f"{record.harness}: step {record.step_number} was changed"

    def _steps(self) -> list[StepRecord[Any, Any]]:
        """Return the steps of all harnesses, from the last one seen of each, which is looked at again."""
        heads = Counter[str]()
        for name, step in self.seen:
            heads[name] = max(heads[name], step)
        found: list[StepRecord[Any, Any]] = []
        try:
            with closing(SqliteReader(self.store)) as reader:
                for one in reader.harnesses():
                    assert one.current_step >= heads[one.name], f"{one.name}: steps after {one.current_step} are lost"
                    found += reader.steps(one.name, after=max(0, heads[one.name] - 1), limit=1_000_000)
        except StoreUnusable:
            assert not self.seen
        return found

    def is_repository_done(self) -> bool:
        """Return whether the newest coding harness has proven all of its features."""
        try:
            with closing(SqliteReader(self.store)) as reader:
                return {one.name: str(one.status) for one in reader.harnesses()}.get(self.coding[-1]) == "completed"
        except StoreUnusable:
            return False

    def run_for(self, seconds: float, *, say: bool = False) -> None:
        """Kill the program at random moments for so long; then let it come to its end.

        One life in four is shorter than 1.5 s, one is shorter than 6 s, and two end within 3 s of the second step of coding:
        the first one says what was cut off.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            seconds, steps = self.chance.choice([(1.5, 0), (6.0, 0), (3.0, 2), (3.0, 2)])
            seconds = self.chance.uniform(0.0, seconds)
            assert not self.live(seconds, after=self._coding_step() + steps), "it ended before it was told to"
            self.look()
            if self.chance.random() < 0.05:
                self.venue.revive()
                self.tally.venue_kills += 1
            if self.is_repository_done():
                self.add_repository()
            if say and self.tally.kills % 10 == 0:
                left = max(0.0, deadline - time.monotonic())
                heads = f"{len(self.seen)} steps, {self.repositories} repositories"
                print(f"{self.tally.kills} kills, {heads}, {left:.0f} s left", file=sys.stderr, flush=True)
        self._tell_end()
        self.live(None)

    def _tell_end(self) -> None:
        """Have the feed end some slices after the last one, which may be of a step that was cut off."""
        with closing(SqliteReader(self.store)) as reader:
            (head,) = (one.current_step for one in reader.harnesses() if one.name == TRADING)
            last = datetime.fromisoformat(decode(reader.state_at(TRADING, head))["time"])
        draft = self._told.with_suffix(".part")
        draft.write_text((last + timedelta(minutes=5)).isoformat())
        draft.rename(self._told)

    def end(self) -> Tally:
        """Assert that everything is as it should be at the end."""
        self._count_requests()
        counts = verify(self.folder, self.venue, self.work, self.coding, self.seen)
        self.tally.steps, self.tally.orders, self.tally.crashes = counts.steps, counts.orders, counts.crashes
        self.tally.repositories, self.tally.features = self.repositories, self.repositories * self.work.features
        return self.tally


def kill_both(folder: Path, *, seconds: float, seed: int, features: int = 8, say: bool = False) -> Tally:
    """Run trading and coding side by side for so long under random kills, to their end; return what came of it."""
    preload("ccxt", "tests.kill.both_parts")
    with RunningVenue(folder / "books.db", f"--seed={seed}") as venue, ModelServer() as model:
        both = Both(folder, venue, model, Work(features), random.Random(seed))
        both.prepare()
        both.run_for(seconds, say=say)
        return both.end()
