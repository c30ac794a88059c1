"""The program that is killed while it works features of a repository.

python -m tests.kill.coding_child FOLDER --fault after:7
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import trio

from harnesses.agents.scripted_agent import ScriptedAgent, ScriptedAttempt
from harnesses.coding import Candidate, CodingHarness, Command
from harnesses.features.feature import Feature, Verdict
from harnesses.features.health_checks import NoHealthCheck
from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

FEATURES = [
    Feature(f"f{number:02}", f"f{number:02}.txt is right", steps=["grep finds it"], priority=number % 3)
    for number in range(10)
]
"""Ten; a program may be told to work the first of them."""
WRONG_FIRST = frozenset({"f01", "f04", "f07"})
FAILS_FIRST = "f02"


class Greps:
    """Proves each feature by a command of its own."""

    proves = True

    def __init__(self) -> None:
        self._commands = {one.id: Command(["grep", "-qx", f"{one.id} is right", f"{one.id}.txt"]) for one in FEATURES}

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        return await self._commands[feature.id].validate(feature, work)


def attempts() -> Mapping[str, list[ScriptedAttempt]]:
    """Return what the agent does: three features wrong at first, and at one it fails at first."""
    written: dict[str, list[ScriptedAttempt]] = {}
    for feature in FEATURES:
        right = ScriptedAttempt(files={f"{feature.id}.txt": f"{feature.id} is right\n", "log.txt": f"{feature.id}\n"})
        wrong = ScriptedAttempt(files={f"{feature.id}.txt": "wrong\n", "garbage.txt": "garbage\n"})
        failing = ScriptedAttempt(files={"garbage.txt": "garbage\n"}, raises=RuntimeError("no answer"))
        first = [wrong] if feature.id in WRONG_FIRST else [failing] if feature.id == FAILS_FIRST else []
        written[feature.id] = [*first, right]
    return written


async def run_all(options: argparse.Namespace) -> None:
    """Work until every feature is proven."""
    store: Store = SqliteStore(options.folder / "run.db")
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    harness = CodingHarness(
        options.folder / "user.git",
        ScriptedAgent(attempts()),
        FEATURES[: options.features],
        Greps(),
        workspace=options.folder / "space",
        confirmations=1,
        health_check=NoHealthCheck(),
    )
    async with Orchestrator(store, backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        orchestrator.start(harness, name="coding")
    if isinstance(store, FaultyStore):
        (options.folder / "commits").write_text(str(store.commits))
    store.close()


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--features", type=int, default=len(FEATURES))
    parser.add_argument("--fault", metavar="before:N|after:N", help="the commit at which the program kills itself")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
