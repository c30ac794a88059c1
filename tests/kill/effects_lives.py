"""Lives of the program that acts: started, killed, and what the world has seen held against what the store says.

After each life, and at the end: no act without an intent on disk, none twice, each that is confirmed once and with its own
receipt, none that is refused or not done, and what is unknown belongs to a step that is not recorded.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from attrs import define, field

from harnesses.effects.effect import EffectOutcome
from orchestrator import SqliteStore, Status, StoreUnusable
from orchestrator.codec import encode
from orchestrator.records import EffectRecord
from orchestrator.store import SqliteReader
from orchestrator.store.store_protocol import Settle

from .calls import SYNCS, WRITES, tampered
from .effects import KINDS
from .effects_world import acts, receipts
from .lives import End, assert_sound, start

_LONGEST_S = 120.0
_MOST_LIVES = 10_000


@define
class Place:
    """One store and one world, over all lives of the programs that work on them."""

    folder: Path
    kills: int = field(default=0, kw_only=True)
    """Of the program."""
    lives: int = field(default=0, kw_only=True)

    @property
    def store(self) -> Path:
        return self.folder / "run.db"

    @property
    def world(self) -> Path:
        return self.folder / "world.txt"


@define
class Case(Place):
    """The lives of a program that acts in one of its ways."""

    steps: int
    way: str = "once"
    group: bool = False
    """Whether the harnesses go on before their steps are stored."""
    pace_s: float = 0.001
    halts: int = 0
    """How often a harness was blocked, and a person has settled what it did not know."""
    cut_off: int = 0
    """Effects that were under way at a death."""
    happened: int = 0
    """Of these, those that had happened."""

    def start(self, *arguments: str, before: Sequence[str] = ()) -> Life:
        """Start the program."""
        return Life(self._next_life(arguments), before)

    def live(self, *arguments: str) -> End:
        """Let the program live to its end, whatever that is."""
        return Life(self._next_life(arguments)).end()

    def _next_life(self, arguments: Sequence[str]) -> list[str]:
        self.lives += 1
        assert self.lives < _MOST_LIVES
        options = [f"--steps={self.steps}", f"--way={self.way}", f"--pace={self.pace_s}"]
        options += ["--group"] if self.group else []
        return ["-m", "tests.kill.effects", str(self.store), str(self.world), *options, *arguments]

    def bury(self, end: End) -> bool:
        """Take in the end of a life, and verify; return whether it was killed."""
        # A second signal may come when nobody heeds it any more.
        died = end.code in (-signal.SIGKILL, 128 + signal.SIGKILL, -signal.SIGTERM)
        assert died or end.code == 0, f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
        self.kills += died
        if self.way == "once":
            self.cut_off += len(found := [effect for effect in self.effects() if effect.is_open])
            self.happened += sum(acts(self.world)[_ticket(effect)] for effect in found)
            self.verify()
        return died

    def effects(self) -> list[EffectRecord]:
        """Return all that the store says of effects."""
        try:
            with closing(SqliteReader(self.store)) as reader:
                return reader.effects()
        except StoreUnusable:
            if acts(self.world):
                raise
            # Killed before there was a store.
            return []

    def heads(self) -> dict[str, int]:
        """Return the last step of each harness."""
        with closing(SqliteReader(self.store)) as reader:
            return {harness.name: harness.current_step for harness in reader.harnesses()}

    def verify(self) -> None:
        """Hold what the world has seen against what the store says."""
        seen, said = acts(self.world), self.effects()
        harmless = {ticket for ticket in seen if ticket.startswith("harmless/")}
        assert set(seen) <= {_ticket(effect) for effect in said}, "something was done without an intent on disk"
        assert not {ticket: count for ticket, count in seen.items() if count > 1}.keys() - harmless
        known, heads = receipts(self.world), self.heads() if said else {}
        for effect in said:
            _verify_one(effect, known.get(_ticket(effect)), heads[effect.harness])

    def settle(self) -> None:
        """Do what a person would: look at the world, and say what became of the effects of blocked harnesses."""
        with closing(SqliteStore(self.store)) as store:
            blocked = {known.name for known in store.harnesses() if known.status is Status.BLOCKED}
            assert blocked <= {"halting"}, f"{blocked} are blocked although there is somebody to ask"
            known = receipts(self.world)
            for effect in store.effects():
                if effect.harness in blocked and effect.is_open:
                    receipt = known.get(_ticket(effect))
                    word = Settle(effect.harness, effect.key, receipt is not None, encode(receipt), "I looked", 0)
                    (seq,) = store.commit([], [word]).results
                    assert isinstance(seq, int), seq
                    self.halts += 1

    def finish(self) -> None:
        """Go on, settling what has to be, until every harness is complete; then verify the whole."""
        while not self.is_complete():
            assert not self.bury(self.live())
            if self.way == "once":
                self.settle()
        self._verify_all()
        assert_sound(self.store)

    def is_complete(self) -> bool:
        """Return whether every harness has made its last step."""
        try:
            with closing(SqliteReader(self.store)) as reader:
                known = {harness.name: harness.status for harness in reader.harnesses()}
        except StoreUnusable:
            return False
        return set(known) == set(KINDS) and set(known.values()) == {Status.COMPLETED}

    def _verify_all(self) -> None:
        """Assert that every harness has all its steps, and that what they say they did was done."""
        if self.way != "once":
            return
        known, said = receipts(self.world), {_ticket(effect): effect for effect in self.effects()}
        assert not [effect for effect in said.values() if effect.is_open]
        with closing(SqliteReader(self.store)) as reader:
            for name in KINDS:
                steps = reader.steps(name, limit=1_000_000)
                assert [step.step_number for step in steps] == list(range(1, self.steps + 1))
                for step in steps:
                    keys = {"several": ("a", "b", "c", "first")}.get(name, ("only",))
                    tickets = [f"{name}/{step.step_number}/{key}" for key in keys]
                    refused = name == "losing" and step.step_number % 5 == 0
                    told = [f"no {step.step_number}"] if refused else [said[ticket].result for ticket in tickets]
                    assert step.output == told
                    assert all((ticket in known) is not refused for ticket in tickets)

    def acts(self) -> int:
        """Return how many acts there were."""
        return sum(acts(self.world).values())

    def doubled(self) -> int:
        """Return how many acts were done a second time, though they do harm."""
        counts = acts(self.world).items()
        return sum(count - 1 for ticket, count in counts if self.way != "once" or not ticket.startswith("harmless/"))


class Life:
    """One process."""

    def __init__(self, arguments: Sequence[str], before: Sequence[str] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `end`)
        self.process = start(arguments, before, stdout=self._errors, stderr=self._errors)

    def end(self) -> End:
        """Wait for its end."""
        try:
            code = self.process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")
        self._errors.close()
        return End(code, errors)


def _verify_one(effect: EffectRecord, receipt: str | None, head: int) -> None:
    ticket = _ticket(effect)
    assert effect.arguments == [ticket]
    assert effect.step_number <= head + 1
    assert not (effect.is_open and effect.step_number <= head), f"{ticket} is {effect.outcome}, and its step is recorded"
    if effect.outcome is EffectOutcome.CONFIRMED:
        assert receipt is not None, f"{ticket} is confirmed, and did not happen"
        assert effect.result == receipt or effect.harness == "harmless"
    elif effect.outcome in (EffectOutcome.REFUSED, EffectOutcome.NOT_DONE):
        assert receipt is None, f"{ticket} is {effect.outcome}, and happened"


def _ticket(effect: EffectRecord) -> str:
    return f"{effect.harness}/{effect.step_number}/{effect.key}"


def kill_at_random(case: Case, chance: random.Random, *, kills: int) -> None:
    """Kill the program at any moment after its first act of each life, so many times; then have it come to its end.

    One life in five ends by two signals instead, which cancel everything at once.
    """
    while case.kills < kills and not case.is_complete():
        _live_and_be_killed(case, chance)
        if case.way == "once" and chance.random() < 0.5:
            case.settle()
    case.finish()


def kill_until_doubled(case: Case, chance: random.Random, *, kills: int) -> None:
    """Kill the program until something was done twice, at most so many times."""
    while case.kills < kills and not case.doubled():
        assert not case.is_complete(), "it has come to its end before it was killed often enough: give it more steps"
        _live_and_be_killed(case, chance)


def die_and_go_on(case: Case, *arguments: str, before: Sequence[str] = ()) -> bool:
    """Have the program die at a chosen moment, verify, and have it go on to its end.

    Returns:
        Whether it did die; if it made fewer calls than that, it came to its end.
    """
    died = case.bury(case.start(*arguments, before=before).end() if before else case.live(*arguments))
    case.finish()
    return died


def die_at_each_call(folder: Path, *, steps: int = 3, say: bool = False) -> dict[str, int]:
    """Have programs die at the first commit, the second, and so on, until one makes fewer; then at acts, writes and syncs.

    Returns:
        How many died of each. Writes and syncs are counted for each thread by itself.
    """
    deaths: dict[str, int] = {}
    ways: dict[str, Callable[[int], dict[str, list[str]]]] = {
        f"{option} {moment}": lambda number, option=option, moment=moment: {"arguments": [f"--{option}={moment}:{number}"]}  # type: ignore[misc]
        for option in ("fault", "die")
        for moment in ("before", "after")
    }
    for calls in (SYNCS, WRITES):
        ways[calls] = lambda number, calls=calls: {"before": tampered(calls, f"signal=KILL:when={number}")}  # type: ignore[misc]
    for name, how in ways.items():
        number = 1
        while True:
            case = Case(folder / f"{name}-{number}".replace(" ", "-").replace(",", "-"), steps=steps, pace_s=0)
            case.folder.mkdir()
            options = how(number)
            if not die_and_go_on(case, *options.get("arguments", ()), before=options.get("before", ())):
                break
            number += 1
        deaths[name] = number - 1
        if say:
            print(name, deaths[name], file=sys.stderr, flush=True)
    return deaths


def _live_and_be_killed(case: Case, chance: random.Random) -> None:
    before = case.world.stat().st_size if case.world.exists() else 0
    life = case.start()
    deadline = time.monotonic() + _LONGEST_S
    while time.monotonic() < deadline and life.process.poll() is None:
        if case.world.exists() and case.world.stat().st_size > before:
            break
        time.sleep(0.002)
    time.sleep(chance.uniform(0.0, 0.05))
    if chance.random() < 0.2:
        for _ in range(2):
            life.process.send_signal(signal.SIGTERM)
            time.sleep(0.02)
    else:
        life.process.kill()
    case.bury(life.end())
