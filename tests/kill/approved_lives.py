"""Lives of the program whose effects need approvals, and of the commands by which a person answers: all of them are killed.

A person denies what is asked first in a step, reopens that, and approves what is asked then, each by the real command.

After each life, and at the end: nothing is done but with the second request of its step approved and used, and once.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence
from contextlib import closing

from attrs import define

from orchestrator import Status, StoreUnusable
from orchestrator.status import Shown, known_approvals
from orchestrator.store import SqliteReader

from .approved import NAME
from .effects_lives import Life, Place
from .effects_world import acts
from .lives import assert_sound, assert_untouched

_MOST_LIVES = 200
_ANSWERS = {("pending", 1): ["deny"], ("denied", 1): ["approvals", "reopen"], ("pending", 2): ["approve"]}
"""What a person says to the newest request, by where it stands and which one of its step it is."""


@define
class Office(Place):
    """The lives of the program and of a person's commands."""

    steps: int = 2
    commands_killed: int = 0

    def start(self, *arguments: str) -> Life:
        """Start the program."""
        self.lives += 1
        assert self.lives < _MOST_LIVES, "it does not come to its end"
        command = ["-m", "tests.kill.approved", str(self.store), str(self.world), f"--steps={self.steps}"]
        return Life([*command, *arguments])

    def live(self, *arguments: str, kill_after_s: float = 1e9, chance: random.Random | None = None) -> bool:
        """Let the program live once, with a person beside it; return whether it was killed.

        Args:
            chance: kills some of the person's commands, too.
        """
        self.answer(chance)
        life, deadline = self.start(*arguments), time.monotonic() + kill_after_s
        while life.process.poll() is None:
            if time.monotonic() > deadline:
                life.process.kill()
                life.process.wait()
            elif not self.answer(chance):
                time.sleep(0.01)
        end = life.end()
        died = end.code == -signal.SIGKILL
        assert died or end.code == 0, f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
        self.kills += died
        self.verify()
        return died

    def answer(self, chance: random.Random | None) -> bool:
        """Answer the newest request, if it waits for that; return whether it did."""
        words = self._answer_due()
        if words is None:
            return False
        command = ["-m", "orchestrator", *words, "--by", "ann", "--store", str(self.store)]
        if chance is not None and chance.random() < 0.5:
            life = Life(command)
            time.sleep(chance.uniform(0.0, 0.05))
            life.process.kill()
            end = life.end()
        else:
            end = Life(command).end()
        self.commands_killed += end.code == -signal.SIGKILL
        assert end.code in (0, -signal.SIGKILL), f"{' '.join(words)} ended with code {end.code}:\n{end.errors[-4000:]}"
        return True

    def _answer_due(self) -> Sequence[str] | None:
        asked = self.asked()
        if not asked or not asked[-1].is_current:
            return None
        newest = asked[-1]
        count = sum(one.record.step_number == newest.record.step_number for one in asked)
        words = _ANSWERS.get((newest.word, count))
        return None if words is None else [*words, newest.record.id]

    def asked(self) -> list[Shown]:
        """Return every request, oldest first."""
        try:
            with closing(SqliteReader(self.store)) as reader:
                return known_approvals(reader, None, every=True)
        except StoreUnusable:
            # Killed before there was a store.
            return []

    def verify(self) -> None:
        """Hold what was done against what was asked and answered."""
        words: dict[str, list[str]] = {}
        for one in self.asked():
            words.setdefault(f"{NAME}/{one.record.step_number}/only", []).append(one.word)
        for ticket, count in acts(self.world).items():
            assert count == 1, f"{ticket} was done {count} times"
            assert words[ticket] == ["reopened", "used"], f"{ticket} was done, and its requests are {words[ticket]}"
        assert all(len(said) <= 2 for said in words.values()), f"the same was asked more often than it was reopened: {words}"

    def is_complete(self) -> bool:
        """Return whether the last step is made."""
        try:
            with closing(SqliteReader(self.store)) as reader:
                return [harness.status for harness in reader.harnesses()] == [Status.COMPLETED]
        except StoreUnusable:
            return False

    def finish(self) -> None:
        """Let it come to its end, and verify the whole."""
        while not self.is_complete():
            assert not self.live()
        assert set(acts(self.world)) == {f"{NAME}/{step}/only" for step in range(1, self.steps + 1)}
        assert_sound(self.store)
        assert_untouched(self.store)


def die_each_life(office: Office, moment: str, first: int) -> None:
    """Have each life die one commit later than the one before it, until one comes to its end."""
    while not office.is_complete():
        office.live(f"--fault={moment}:{first + office.lives}")
    office.finish()


def kill_at_random(office: Office, chance: random.Random, *, kills: int) -> None:
    """Kill every other program, and commands, at any moment, until there were so many kills, or all is done."""
    while office.kills + office.commands_killed < kills and not office.is_complete():
        office.live(kill_after_s=chance.choice([1e9, chance.uniform(0.1, 1.0)]), chance=chance)
    office.finish()
