"""The program that is killed: `python -m tests.flood.child STORE SENDERS EACH CHANCE`.

With one argument less it is another one, which posts to the same store: `python -m tests.flood.child STORE FIRST-LAST EACH`.

A sender knows from its state what it has sent: a message is in the mailbox exactly if the step that sent it is recorded.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import trio

from harnesses import BaseHarness
from orchestrator import Backoff, Orchestrator, SqliteStore
from orchestrator.codec import encode
from orchestrator.store.store_protocol import Post

EARS = 4
_PAGE = 100
"""Messages to a step of a sender, or to a commit of the other program."""
_TAKEN = 300
"""Messages to a step of a receiver: more than a mailbox reads at once."""


class Sender(BaseHarness[int, int, int]):
    """Sends `each` messages, one after the other, and crashes by chance with what it has sent."""

    def __init__(self, number: int, each: int, chance: float) -> None:
        super().__init__(0)
        self.number, self.each, self.chance = number, each, chance

    def is_complete(self) -> bool:
        return self.state >= self.each

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        while True:
            sent = self.state
            for index in range(sent, min(sent + _PAGE, self.each)):
                await self.send(f"ear{self.number % EARS}", [self.number, index])
                sent = index + 1
            crash(self.chance)
            self.update_state(lambda _, sent=sent: sent)  # type: ignore[misc]
            yield sent, 0


class Ear(BaseHarness[int, list[Any], int]):
    """Makes a step of all that is there, and crashes by chance with what it has taken."""

    def __init__(self, expected: int, chance: float) -> None:
        super().__init__(0)
        self.expected, self.chance = expected, chance

    def is_complete(self) -> bool:
        return self.state >= self.expected

    async def execute(self) -> AsyncIterator[tuple[list[Any], int]]:
        while True:
            taken = [await self.receive()]
            try:
                while len(taken) < _TAKEN:
                    taken.append(self.receive_nowait())
            except trio.WouldBlock:
                pass
            crash(self.chance)
            more = len(taken)
            self.update_state(lambda count, more=more: count + more)  # type: ignore[misc]
            yield taken, len(taken)


def crash(chance: float) -> None:
    if random.random() < chance:
        raise ConnectionError("by chance")


def senders_of(ear: int, senders: int) -> int:
    """Return how many of so many senders write to one receiver."""
    return len(range(ear, senders, EARS))


async def run(path: Path, senders: int, each: int, chance: float) -> None:
    """Run all receivers, and three of four senders; the others write from another process."""
    soon = Backoff(base_s=0.01, factor=1, jitter=0)
    async with Orchestrator(path, intensity=1_000_000, backoff=soon) as orchestrator:
        for ear in range(EARS):
            orchestrator.start(Ear(each * senders_of(ear, senders), chance), name=f"ear{ear}")
        for number in own(senders):
            orchestrator.start(Sender(number, each, chance), name=f"sender{number}")


def own(senders: int) -> range:
    """Return the numbers of the senders that are harnesses of the program."""
    return range(senders - senders // 4)


def post(path: Path, senders: range, each: int) -> None:
    """Post what each sender has not posted yet, a few of each in turn."""
    with closing(SqliteStore(path)) as store, closing(sqlite3.connect(path)) as db:
        count = "SELECT count(*) FROM mailbox WHERE sender = ?"
        sent = {number: db.execute(count, (f"sender{number}",)).fetchone()[0] for number in senders}
        while left := [number for number in senders if sent[number] < each]:
            chosen = random.sample(left, min(5, len(left)))
            posts: list[Post] = []
            for number in chosen:
                for index in range(sent[number], min(sent[number] + _PAGE // 5, each)):
                    posts.append(Post(f"ear{number % EARS}", f"sender{number}", 0, encode([number, index])))
                sent[number] = min(sent[number] + _PAGE // 5, each)
            assert all(isinstance(seq, int) for seq in store.commit([], posts).results)


if __name__ == "__main__":
    path, who, each, *chance = sys.argv[1:]
    if chance:
        trio.run(run, Path(path), int(who), int(each), float(chance[0]))
    else:
        first, _, last = who.partition("-")
        post(Path(path), range(int(first), int(last)), int(each))
