"""Lives of the program with agents' turns: killed, started again, and what the world has seen held against the store.

python -m tests.kill.agent_turn_lives --kills 200 --seed 1
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from attrs import define, field

from harnesses.effects.effect import EffectOutcome
from orchestrator import Status, StoreUnusable
from orchestrator.records import EffectRecord
from orchestrator.store import SqliteReader

from .agent_turns import NAMES, ROUNDS, TOOLS
from .effects_lives import Life, Place
from .effects_world import acts, receipts
from .lives import assert_sound

ENDED = (EffectOutcome.CONFIRMED, EffectOutcome.FAILED)
_MODEL_CALLS, _TOOL_CALLS = 2 * ROUNDS, 2 * ROUNDS * len(TOOLS)
"""In one step of one harness."""


@define
class TurnCase(Place):
    """The lives of one program, and the law of its turns."""

    steps: int
    pace_s: float = 0.001
    ended: Counter[str] = field(factory=Counter[str])
    """How often each call that is on record as ended was made, when that was first seen."""

    def live(self, *arguments: str) -> bool:
        """Have the program live to its end; return whether it was killed."""
        return self.bury(self.start(*arguments))

    def start(self, *arguments: str) -> Life:
        self.lives += 1
        options = [f"--steps={self.steps}", f"--pace={self.pace_s}", *arguments]
        return Life(["-m", "tests.kill.agent_turns", str(self.store), str(self.world), *options])

    def bury(self, life: Life) -> bool:
        """Take in the end of a life, and verify; return whether it was killed."""
        end = life.end()
        died = end.code == -signal.SIGKILL
        assert died or end.code == 0, f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
        self.kills += died
        self.verify()
        return died

    def finish(self) -> None:
        """Go on until every harness is complete, which needs nobody; then verify the whole."""
        while not self.is_complete():
            self.live()
        assert_sound(self.store)
        seen, known = acts(self.world), receipts(self.world)
        with closing(SqliteReader(self.store)) as reader:
            for name in NAMES:
                for step in reader.steps(name, limit=10_000):
                    assert len(step.output) == _MODEL_CALLS + _TOOL_CALLS
                    for ticket, told in step.output.items():
                        # Told is the receipt of the one act, or that the call was interrupted.
                        assert told == "interrupted" or (seen[ticket] == 1 and known[ticket] in told) or "model" in ticket
        spare = sum(count - 1 for ticket, count in seen.items() if "model" in ticket)
        assert spare <= self.kills * len(NAMES), f"{spare} model calls were repeated over {self.kills} kills"

    def is_complete(self) -> bool:
        try:
            with closing(SqliteReader(self.store)) as reader:
                known = {harness.name: harness.status for harness in reader.harnesses()}
        except StoreUnusable:
            return False
        assert Status.BLOCKED not in known.values(), "a turn is blocked by a call that was cut off"
        return set(known) == set(NAMES) and set(known.values()) == {Status.COMPLETED}

    def effects(self) -> list[EffectRecord]:
        try:
            with closing(SqliteReader(self.store)) as reader:
                return reader.effects()
        except StoreUnusable:
            return []

    def verify(self) -> None:
        """Assert that no tool was run twice, and no call again that is on record as ended."""
        seen = acts(self.world)
        twice = [ticket for ticket, count in seen.items() if count > 1 and "model" not in ticket]
        assert not twice, f"tools were run twice: {twice}"
        for effect in self.effects():
            ticket = f"{effect.harness}/{effect.step_number}/{effect.key}"
            assert not effect.is_open or "model" in ticket
            if effect.outcome in ENDED:
                assert seen[ticket] == self.ended.setdefault(ticket, seen[ticket]) > 0, f"{ticket} was called again"


def die_at(folder: Path, option: str, moment: str, number: int, *, steps: int) -> TurnCase:
    """Have a program die at a commit (`fault`) or an act (`die`), and go on to its end."""
    case = TurnCase(folder / f"{option}-{moment}-{number}", steps=steps, pace_s=0)
    case.folder.mkdir()
    case.live(f"--{option}={moment}:{number}")
    case.finish()
    return case


def kill_at_random(case: TurnCase, chance: random.Random, *, kills: int) -> None:
    """Kill the program at any moment of its turns, so many times; then have it come to its end."""
    while case.kills < kills and not case.is_complete():
        before = case.world.stat().st_size if case.world.exists() else 0
        life = case.start()
        while life.process.poll() is None and not (case.world.exists() and case.world.stat().st_size > before):
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.03))
        life.process.kill()
        case.bury(life)
    case.finish()


def main() -> None:
    """Kill programs at random."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        case = TurnCase(Path(folder), steps=options.kills)
        kill_at_random(case, random.Random(options.seed), kills=options.kills)
        seen = acts(case.world)
        models = [count for ticket, count in seen.items() if "model" in ticket]
        tools = [count for ticket, count in seen.items() if "model" not in ticket]
        print(f"{case.kills} kills: {len(tools)} tool calls, {sum(tools)} acts; {len(models)} model calls, {sum(models)} sent")


if __name__ == "__main__":
    main()
