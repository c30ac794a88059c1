"""Random sequences of run, prune, fork, kill, vacuum and seal: `python -m tests.tampering.sequences [--count N] [--seed N]`.

Invariant: nobody tampers, so after each act both verifiers say untouched, and the store opens and can be pruned again. A head
that was noted after an earlier act is known for as long as the seal that it names has not been pruned.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from attrs import define, field

from orchestrator.cli.export.prune_verb import vacuum_store as vacuum
from orchestrator.errors import UsageError
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US
from orchestrator.store.integrity.chain_head import head_path, read_head
from orchestrator.store.integrity.proof import prove
from orchestrator.store.integrity.residue import read_base
from orchestrator.store.pruning import prune_store as pruning
from orchestrator.store.pruning import prune_survey as pruning_survey
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.sqlite import sqlite_store as sqlite
from orchestrator.store.sqlite import store_repair as repair
from orchestrator.store.sqlite.sqlite_file import open_writer
from tests.orchestrator.store.pruning_runs import NAMES, go_on

from .proof import judge

ACTS = ("run", "run", "run", "prune", "prune", "prune", "fork", "vacuum", "seal")
_PORTION = (15, 40, 200)
"""Records of one commit of a prune: so few that a store of some hundred is pruned in many."""


@define
class Played:
    """What has been done to a store."""

    path: Path
    chance: Random
    told: list[str] = field(factory=list[str])
    forks: list[str] = field(factory=list[str])
    noted: list[tuple[int, str]] = field(factory=list[tuple[int, str]])
    """Position and text of each head."""

    def act(self) -> None:
        """Do something by chance, in a process that is killed at a statement by chance in a third of all cases."""
        verb = self.chance.choice(ACTS)
        seed, at = self.chance.random(), self.chance.randrange(1, 400) if self.chance.randrange(3) == 0 else 0
        self.told.append(f"{verb}{f' killed at {at}' * bool(at)}")
        in_child(lambda: getattr(self, verb)(Random(seed)), at)
        self.forks = _forks(self.path)

    def run(self, chance: Random) -> None:
        with closing(SqliteStore(self.path, seal_every_s=chance.choice([0, 1e9]))) as store:
            go_on(store, chance, chance.choice([3, 30, 120]), *self.forks)
            if chance.randrange(4) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def prune(self, chance: Random) -> None:
        pruning_survey.PORTION = chance.choice(_PORTION)
        rule = Rule(keep=chance.randrange(1, 60), context=0)
        if chance.randrange(4) == 0:
            rule = Rule(since_us=TIME_US + chance.randrange(200), context=0)
        names = chance.sample(NAMES, chance.choice([1, 2, 3])) if self.path.exists() else ()
        pruning.prune(self.path, rule, names if chance.randrange(2) else (), by="tests")

    def fork(self, chance: Random) -> None:
        with closing(SqliteReader(self.path)) as reader:
            origin = chance.choice(reader.harnesses())
        with suppress(UsageError):  # a step that was pruned cannot be forked
            fork(self.path, origin.name, chance.randrange(origin.current_step + 1), to=f"fork-{len(self.forks)}")

    def vacuum(self, _: Random) -> None:
        vacuum(self.path)

    def seal(self, chance: Random) -> None:
        with closing(SqliteStore(self.path, seal_every_s=0)) as store:
            go_on(store, chance, 1)

    def look(self) -> None:
        """Hold the store against the law."""
        proof, alone = judge(self.path)
        assert (list(proof.findings), alone) == ([], []), self.told
        text = head_path(self.path).read_text()
        self.noted.append((read_head(text).position, text))
        position, noted = self.chance.choice(self.noted)
        found = [finding.where for finding in prove(self.path, noted).findings]
        assert found == [] or (found == ["head"] and position < proof.pruned.position), (found, position, self.told)


def in_child(act: Callable[[], object], at: int) -> None:
    """Do something in a process of its own, which is killed at its n-th SQL statement that writes; never, if that is 0."""
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        assert status in (0, signal.SIGKILL), f"it ended with status {status}"
        return
    try:
        left = at

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def watched(path: Path, busy_s: float) -> sqlite3.Connection:
            db = open_writer(path, busy_s)
            db.set_trace_callback(count)
            return db

        sqlite.open_writer = pruning.open_writer = repair.open_writer = watched
        act()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(1)


def _forks(path: Path) -> list[str]:
    with closing(SqliteReader(path)) as reader:
        return [one.name for one in reader.harnesses() if one.name not in NAMES]


def play(folder: Path, seed: str, acts: int = 10) -> Played:
    """Make a store, and do so many things to it; the law is looked at after each."""
    played = Played(folder / f"{seed.replace('/', '-')}.db", Random(seed))
    in_child(lambda: played.run(Random(seed)), 0)
    for _ in range(acts):
        played.act()
        played.look()
    return played


def main() -> int:
    """Play, and tell what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong, told, bases = 0, Counter[str](), 0
    for number in range(options.count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                played = play(Path(folder), f"{options.seed}/{number}")
            except AssertionError as error:
                wrong += 1
                print(f"{options.seed}/{number}: {error}"[:2000])
                continue
            told.update(act.partition(" at")[0] for act in played.told)
            with closing(sqlite3.connect(played.path)) as db:
                bases += read_base(db).position > 0
    print(f"{options.count} sequences, {wrong} in which the law did not hold; {bases} of the stores were pruned")
    print("  ".join(f"{act} {count}" for act, count in sorted(told.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
