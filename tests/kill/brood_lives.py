"""Lives of the program whose harnesses start harnesses: killed, and what its store says held against what must be.

After each life: one record per name, with a step of its parent that is recorded, and its own steps 1, 2, 3 … without gap or
repeat. At the end: exactly the harnesses on record have run, each to its last step.
"""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from attrs import define

from orchestrator import HarnessRecord, Status, StoreUnusable
from orchestrator.store import SqliteReader

from .brood import family
from .effects_lives import Life
from .lives import assert_sound, assert_untouched

_LONGEST_S = 120.0
_MOST_LIVES = 100_000


@define
class Brood:
    """One store, over all lives of the programs that work on it."""

    store: Path
    children: int = 4
    steps: int = 6
    kills: int = 0
    lives: int = 0
    unstarted: int = 0
    """Children whose start was on record at a kill, and that had not begun."""
    cut_off: int = 0
    """Children that had begun and not ended at a kill."""

    def start(self) -> Life:
        """Start the program."""
        self.lives += 1
        options = [f"--children={self.children}", f"--steps={self.steps}"]
        return Life(["-m", "tests.kill.brood", str(self.store), *options])

    def known(self) -> dict[str, HarnessRecord]:
        """Return every harness that has begun."""
        try:
            with closing(SqliteReader(self.store)) as reader:
                return {harness.name: harness for harness in reader.harnesses()}
        except StoreUnusable:
            # Killed before there was a store.
            return {}

    def live_and_be_killed(self, chance: random.Random) -> None:
        """Kill the program at any moment after it has done something; it may come to its end before that."""
        size, life = self._written(), self.start()
        deadline = time.monotonic() + _LONGEST_S
        while time.monotonic() < deadline and life.process.poll() is None and self._written() == size:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.12))
        life.process.kill()
        end = life.end()
        assert end.code in (-signal.SIGKILL, 0), f"the program ended by itself with code {end.code}:\n{end.errors[-4000:]}"
        self.kills += end.code != 0
        self.verify(killed=True)

    def finish(self) -> None:
        """Let it come to its end, and verify that nobody is missing."""
        end = self.start().end()
        assert end.code == 0, f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
        self.verify(killed=False)
        known = self.known()
        assert set(known) == family("root", self.children), "a harness is missing, or one is too many"
        for name, harness in known.items():
            assert harness.status in (Status.COMPLETED, Status.FINISHED), f"{name} is {harness.status}"
            assert harness.current_step == self.steps, f"{name} was at step {harness.current_step} at its end"
        with closing(SqliteReader(self.store)) as reader:
            assert {child.name for child in reader.children()} | {"root"} == set(known)
        assert_sound(self.store)
        assert_untouched(self.store)

    def is_complete(self) -> bool:
        """Return whether everybody has come to an end."""
        known = self.known()
        ended = {harness.status for harness in known.values()} <= {Status.COMPLETED, Status.FINISHED}
        return ended and set(known) == family("root", self.children)

    def verify(self, *, killed: bool) -> None:
        """Assert that who has begun is on record with a step of its parent, once, and has its steps without a gap."""
        known = self.known()
        if not known:
            return
        with closing(SqliteReader(self.store)) as reader:
            records = reader.children()
            counts = Counter(child.name for child in records)
            assert not [name for name, count in counts.items() if count > 1], "a child is on record twice"
            assert set(known) <= {"root", *counts}, "a child runs whose start is not on record"
            for child in records:
                parent, _, number = child.name.rpartition(".")
                assert (child.harness, child.step_number) == (parent, int(number)), f"{child.name}: not with its step"
                assert child.step_number <= known[parent].current_step, f"{child.name}: its parent's step is not recorded"
            for name, harness in known.items():
                steps = reader.steps(name, limit=1_000_000)
                numbers = list(range(1, harness.current_step + 1))
                assert [step.step_number for step in steps] == numbers, f"{name}: its steps have a gap or a repeat"
                told = {step.output for step in steps if step.output}
                assert told == {child.name for child in records if child.harness == name}, f"{name}: a start is not on record"
        if killed:
            self.unstarted += len(counts.keys() - known.keys())
            self.cut_off += sum(one.status not in (Status.COMPLETED, Status.FINISHED) for one in known.values())

    def _written(self) -> int:
        """Return how much was written, of which a program that has begun writes more."""
        log = self.store.with_name(f"{self.store.name}-wal")
        return sum(path.stat().st_mtime_ns for path in (self.store, log) if path.exists())


def kill_at_random(brood: Brood, chance: random.Random, *, kills: int) -> None:
    """Kill the program so many times, or until it has come to its end; then let it end."""
    while brood.kills < kills and not brood.is_complete():
        assert brood.lives < _MOST_LIVES
        brood.live_and_be_killed(chance)
    brood.finish()
