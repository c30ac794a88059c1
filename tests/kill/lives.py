"""Lives of the program: started, killed, and what the store says held against what was acknowledged."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from orchestrator import StoreUnusable
from orchestrator.codec import decode, encode
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.tampering.proof import judge
from tests.zygote import Program, run_python

from .beside import Beside
from .workload import KINDS

_LONGEST_S = 120.0


@frozen
class End:
    """How a life ended."""

    code: int
    """Exit code; the negative number of a signal."""
    errors: str
    """What the program wrote to standard error."""


def start(arguments: Sequence[str], before: Sequence[str] = (), **options: Any) -> subprocess.Popen[bytes]:
    """Start a Python program, by a command such as `strace` if there is one."""
    if before:
        return subprocess.Popen([*before, sys.executable, *arguments], cwd=ROOT, **options)
    return Program(arguments, cwd=ROOT, **options)


class Life:
    """One process that runs the workload.

    Args:
        before: a command that runs it, such as `strace`.
    """

    def __init__(self, store: Path, *arguments: str, steps: int, before: Sequence[str] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`)
        self._read, write = os.pipe()
        command = ["-m", "tests.kill.child", str(store), f"--steps={steps}", f"--acknowledge={write}", *arguments]
        self.process = start(command, before, pass_fds=[write], stdout=self._errors, stderr=self._errors)
        os.close(write)
        self._said = b""

    def listen(self, seconds: float = _LONGEST_S, *, until: bytes | None = None) -> bool:
        """Take in acknowledgements until one begins with `until`, the time is over or the process has ended.

        Returns:
            Whether the process has ended.
        """
        deadline = time.monotonic() + seconds
        while until is None or until not in self._said:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                return True
            self._said += chunk
        return False

    def kill(self) -> None:
        """Kill it with `kill -9`, wherever it is."""
        self.process.send_signal(signal.SIGKILL)

    def end(self) -> End:
        """Wait for its end, and take in what is left."""
        if not self.listen():
            self.process.kill()
        code = self.process.wait()
        self.listen()
        os.close(self._read)
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")
        self._errors.close()
        return End(code, errors)

    @property
    def acknowledged(self) -> list[tuple[str, int]]:
        """Which steps were acknowledged, in order."""
        lines = self._said.decode().splitlines()
        return [(name, int(step)) for name, _, step in (line.partition(" ") for line in lines)]


@define
class History:
    """What one store must hold: all that was ever acknowledged."""

    store: Path
    acknowledged: dict[str, int] = field(factory=dict[str, int])
    """The last acknowledged step of each harness."""
    pruned: bool = False
    """Whether old steps may be gone."""
    group: bool = False
    """Whether steps are stored in groups, after the harness has gone on."""

    def add(self, life: Life) -> None:
        """Take in a life: each of its steps is the next of its harness, and none was acknowledged before."""
        before = dict.fromkeys(KINDS, 0) | self.acknowledged
        seen: set[str] = set()
        for name, step in life.acknowledged:
            last = self.acknowledged.get(name, 0)
            if name in seen:
                assert step == last + 1, f"{name}: step {step} was acknowledged after step {last}"
            else:
                # Between two lives there may be steps that were recorded and never acknowledged.
                assert step > before[name], f"{name}: step {step} was acknowledged twice"
            seen.add(name)
            self.acknowledged[name] = step

    def verify(self, only: Iterable[str] = KINDS) -> dict[str, int]:
        """Assert that the store holds every acknowledged step, once and whole; return the last step of each harness."""
        reader = SqliteReader(self.store)
        try:
            known = {harness.name: harness.current_step for harness in reader.harnesses()}
        except StoreUnusable:
            # Killed before there was a store.
            known = {}
        try:
            for name in only:
                assert known.get(name, 0) >= self.acknowledged.get(name, 0), (
                    f"{name}: step {self.acknowledged[name]} was acknowledged, the last in the store is {known.get(name)}"
                )
            for name in KINDS.keys() & known:
                verify_harness(reader, name, known[name], pruned=self.pruned)
        finally:
            reader.close()
        return {name: known[name] for name in KINDS if name in known}


def verify_harness(reader: SqliteReader, name: str, head: int, *, pruned: bool = False) -> None:
    """Assert that one harness has its steps up to `head` and the states after them: from 1, or where it was pruned."""
    kind = KINDS[name]
    steps = reader.steps(name, limit=1_000_000)
    first = steps[0].step_number if pruned and steps else 1
    assert [step.step_number for step in steps] == list(range(first, head + 1)), f"{name}: its steps have a gap or a repeat"
    seqs = [step.seq for step in steps]
    assert seqs == sorted(set(seqs)), f"{name}: its steps are out of order"
    for step in steps:
        assert (step.input, step.output) == (step.step_number, kind.say(step.step_number)), f"{name}: a step was changed"
    # The last two are kept, however it is pruned meanwhile.
    for number in {head - 1, head} - {-1} | (set() if pruned else {0, head // 3}):
        found, wanted = decode(reader.state_at(name, number)), decode(encode(kind.after(number)))
        assert found == wanted, f"{name}: expected the state {wanted} after step {number}, was {found}"


@define
class Tally:
    """What a series of lives came to."""

    kills: int = 0
    lives: int = 0
    stores: int = 0
    steps: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0
    """Steps that were in the store though the program was killed before it could acknowledge them."""
    beside: Counter[str] = field(factory=Counter[str])
    """What was done meanwhile by another process, and how often."""

    def __str__(self) -> str:
        meanwhile = "; beside: " + ", ".join(f"{count} {act}" for act, count in sorted(self.beside.items()))
        return (
            f"{self.kills} kills in {self.lives} lives over {self.stores} stores: {self.steps} steps recorded, of which "
            f"{self.unacknowledged} were on disk and not yet acknowledged when a kill came; none missing, repeated or changed"
            + (meanwhile if self.beside else "")
        )


def kill_at_random(
    folder: Path, *, kills: int, seed: int, steps: int = 1500, say: bool = False, beside: bool = False, group: bool = False
) -> Tally:
    """Run programs over one store after the other, each to its end, until there were so many kills; verify after each.

    One kill in five comes at any moment after the start, the others within 0.6 s of the first acknowledged step.

    Args:
        beside: whether another process verifies, prunes, forks, exports, asks and orders meanwhile; it is killed too.
        group: whether the harnesses go on before their steps are stored, in groups.
    """
    chance = random.Random(seed)
    tally = Tally()
    while tally.kills < kills:
        tally.stores += 1
        history = History(folder / f"kill-{seed}-{tally.stores}.db", pruned=beside, group=group)
        company = Beside(history.store, seed + tally.stores) if beside else None
        while not _live_once(history, chance, tally, steps=steps, last=tally.kills >= kills):
            if say and tally.kills % 25 == 0:
                print(tally, file=sys.stderr, flush=True)
            if company is not None and chance.random() < 0.1:
                tally.beside += company.kill()
                company = Beside(history.store, chance.randrange(1_000_000))
        if company is not None:
            tally.beside += company.end()
            assert_untouched(history.store)
        heads = history.verify()
        assert heads == dict.fromkeys(KINDS, steps)
        assert_sound(history.store)
        tally.steps += sum(heads.values())
        for file in folder.glob(f"{history.store.name}*"):
            file.unlink()
    return tally


def _live_once(history: History, chance: random.Random, tally: Tally, *, steps: int, last: bool) -> bool:
    """Let the program live once; return whether it came to its end."""
    tally.lives += 1
    options = [name for name, is_on in (("--control", history.pruned), ("--group", history.group)) if is_on]
    life = Life(history.store, *options, steps=steps)
    if last:
        ended = life.listen()
    elif chance.random() < 0.2:
        ended = life.listen(chance.uniform(0.0, 0.3))
    else:
        ended = life.listen(until=b"\n") or life.listen(chance.uniform(0.02, 0.6))
    if not ended:
        life.kill()
    end = life.end()
    before = sum(history.acknowledged.values())
    history.add(life)
    if end.code == 0:
        return True
    assert end.code == -signal.SIGKILL, f"the program ended by itself with code {end.code}:\n{end.errors[-4000:]}"
    tally.kills += 1
    tally.acknowledged += sum(history.acknowledged.values()) - before
    tally.unacknowledged += sum(history.verify().values()) - sum(history.acknowledged.values())
    return False


def assert_untouched(store: Path) -> None:
    """Assert that both verifiers find nothing."""
    proof, alone = judge(store)
    assert (list(proof.findings), alone) == ([], [])


def assert_sound(store: Path) -> None:
    """Assert that SQLite finds nothing wrong with a file."""
    check = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check'))"
    done = run_python("-c", check, store, capture_output=True, text=True, check=True)
    assert done.stdout == "('ok',)\n", done.stdout
