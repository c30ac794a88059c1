"""Pruning beside a program that runs, and pruning that is killed.

python -m tests.kill.pruning kills [--moves 2000]      kill it at one statement after the other of a long run
python -m tests.kill.pruning wait [--steps 200000]     how long a program waits for its commits while its store is pruned
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from random import Random

from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.pruning import prune_store as pruning
from orchestrator.store.pruning import prune_survey as pruning_survey
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.sqlite.sqlite_file import open_writer
from tests import ROOT
from tests.orchestrator.store.pruning_runs import make_run, states
from tests.tampering.proof import judge
from tests.zygote import Program, run_python

_PORTION = 40
"""Records of one commit, where a few hundred have to be enough for many commits."""


def prune_and_die(store: Path, keep: int, at: int) -> int:
    """Prune in another process that kills itself at its n-th SQL statement; return its exit code."""
    return run_python("-m", "tests.kill.pruning", "die", store, f"--keep={keep}", f"--at={at}", cwd=ROOT).returncode


def die_until_done(path: Path, seed: int, moves: int) -> list[int]:
    """Make a run, and prune it in processes that die at a statement by chance until one of them comes to the end.

    After each death the store verifies, and each harness has all its states from its floor on. Returns the exit codes.
    """
    chance = Random(seed)
    make_run(path, chance, moves)
    whole = list(states(path))
    floors = {floor.harness: floor.first for floor in pruning.survey(path, Rule(keep=10, context=0)).floors}
    kept = [state for state in whole if state[1] >= floors[state[0]]]
    codes: list[int] = []
    while not codes or codes[-1] != 0:
        codes.append(prune_and_die(path, keep=10, at=chance.randrange(50, 400)))
        assert_clean(path)
        assert list(states(path, floors)) == kept
    assert list(states(path)) == kept
    return codes


def assert_clean(store: Path) -> None:
    """Have both verifiers find nothing."""
    proof, alone = judge(store)
    assert (list(proof.findings), alone) == ([], [])


def _kills(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        codes = die_until_done(Path(folder) / "run.db", options.seed, options.moves)
    print(f"killed {codes.count(-9)} times, verified after each; nothing is lost (seed {options.seed})")


def _die(options: argparse.Namespace) -> None:
    left = options.at

    def count(statement: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(path: Path, busy_s: float) -> sqlite3.Connection:
        db = open_writer(path, busy_s)
        db.set_trace_callback(count)
        return db

    pruning.open_writer = watched
    pruning_survey.PORTION = _PORTION
    pruning.prune(options.store, Rule(keep=options.keep, context=0), by="tests")


def _wait(options: argparse.Namespace) -> None:
    """Measure the commits of a process of its own, first alone, then while this one prunes."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.db"
        _fill(store, options.steps)
        print(f"alone:   {_stepping(store, lambda: time.sleep(5))}")
        print(f"pruning: {_stepping(store, lambda: pruning.prune(store, Rule(keep=100, context=0), by='tests'))}")


def _fill(path: Path, steps: int) -> None:
    with closing(SqliteStore(path)) as store:
        claims = [claim(store, f"h{number}") for number in range(100)]
        for step in range(1, steps // 100 + 1):
            saved = f'{{"total":{step}}}' if step % 32 == 0 else None
            store.commit([step_row(claimed, step, state=saved) for claimed in claims])


def _stepping(store: Path, act: object) -> str:
    command = ["-m", "tests.kill.pruning", "step", str(store)]
    process = Program(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    assert callable(act)
    act()
    told, _ = process.communicate("\n")
    return told.strip()


def _step(options: argparse.Namespace) -> None:
    """Record a step every 5 ms until standard input ends, then tell how long the commits have taken."""
    os.set_blocking(0, False)
    took: list[float] = []
    with closing(SqliteStore(options.store)) as store:
        claimed, number = claim(store, "live"), 0
        print("ready", flush=True)
        while not os.read(0, 1) if _has_input() else True:
            number += 1
            began = time.perf_counter()
            store.commit([step_row(claimed, claimed.step + number)])
            took.append(time.perf_counter() - began)
            time.sleep(0.005)
    took.sort()
    at = {name: 1000 * took[int(len(took) * part)] for name, part in (("median", 0.5), ("99 %", 0.99), ("99.9 %", 0.999))}
    late = sum(one > 0.05 for one in took)
    figures = ", ".join(f"{name} {value:.1f} ms" for name, value in at.items())
    print(f"{len(took)} commits: {figures}, most {1000 * took[-1]:.1f} ms; {late} took more than 50 ms")


def _has_input() -> bool:
    import select

    return bool(select.select([0], [], [], 0)[0])


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    die = verbs.add_parser("die")
    die.add_argument("store", type=Path)
    die.add_argument("--keep", type=int)
    die.add_argument("--at", type=int)
    die.set_defaults(act=_die)
    kills = verbs.add_parser("kills")
    kills.add_argument("--moves", type=int, default=2000)
    kills.add_argument("--seed", type=int, default=4)
    kills.set_defaults(act=_kills)
    wait = verbs.add_parser("wait")
    wait.add_argument("--steps", type=int, default=200_000)
    wait.set_defaults(act=_wait)
    step = verbs.add_parser("step")
    step.add_argument("store", type=Path)
    step.set_defaults(act=_step)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
