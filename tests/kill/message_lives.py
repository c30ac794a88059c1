"""Lives of the program whose harnesses write to each other: killed at random, or at a chosen commit, write or sync.

At the end: each message and each question is in the state of its recipient once, each answer in that of who asked, each child
was started once, and nothing waits.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from orchestrator.codec import decode
from orchestrator.store import SqliteReader
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove

from .calls import SYNCS, WRITES, tampered
from .effects_lives import Life
from .lives import assert_sound

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


def live(store: Path, *arguments: str, steps: int, before: Sequence[str] = (), kill_after_s: float = 60.0) -> bool:
    """Let the program live once; return whether it was killed."""
    command = ["-m", "tests.kill.message_child", str(store), f"--steps={steps}", *arguments]
    life, deadline = Life(command, before), time.monotonic() + kill_after_s
    while life.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    life.process.kill()
    end = life.end()
    assert end.code in (0, *_KILLED), f"the program ended with code {end.code}:\n{end.errors[-4000:]}"
    return end.code != 0


def verify(path: Path, steps: int) -> None:
    """Assert what was promised."""
    numbers = list(range(1, steps + 1))
    with closing(SqliteReader(path)) as store:
        states = {known.name: decode(store.state_at(known.name, known.current_step)) for known in store.harnesses()}
        children = [child.name for child in store.children()]
        waiting = [store.mailbox(name) or store.replies(name) for name in states]
    assert states["doubling"] == numbers, "a question was lost, or handled twice"
    assert states["asking"] == 2 * sum(numbers), "an answer was lost, or counted twice"
    assert sorted(states["listening"]) == sorted([*(2 * number for number in numbers), *(-number for number in numbers)])
    assert children == [f"telling.{number}" for number in numbers]
    assert not any(waiting)
    assert list(prove(path, head_path(path).read_text("utf-8"), deep=True).findings) == []
    assert_sound(path)


def kill_at_random(path: Path, chance: random.Random, *, kills: int, steps: int) -> int:
    """Kill the program so often, the first time within its first steps, and let it end at last; return the kills."""
    killed = 0
    for _ in range(kills):
        begin = time.monotonic()
        while not path.exists() and time.monotonic() - begin < 10:
            killed += live(path, steps=steps, kill_after_s=1.0)
        if not live(path, steps=steps, kill_after_s=0.5 + chance.random()):
            break
        killed += 1
    assert not live(path, steps=steps)
    verify(path, steps)
    return killed


def die_and_go_on(path: Path, *arguments: str, steps: int, before: Sequence[str] = ()) -> bool:
    """Have the program die at a chosen moment, and the next one go on to the end; return whether it did die."""
    died = live(path, *arguments, steps=steps, before=before)
    assert not (died and live(path, steps=steps)), "the second life was killed"
    verify(path, steps)
    return died


def die_at_each_call(folder: Path, *, steps: int = 2) -> Iterator[tuple[str, int]]:
    """Have programs die at the first commit, the second, and so on, until one makes fewer; then at writes and syncs.

    Yields:
        What they died of, and how many of them.
    """
    for moment in ("before", "after"):
        number = 1
        while die_and_go_on(folder / f"{moment}-{number}.db", f"--fault={moment}:{number}", steps=steps):
            number += 1
        yield f"{moment} each commit", number - 1
    for calls in (SYNCS, WRITES):
        number = 1
        while die_and_go_on(
            folder / f"{calls}-{number}.db", steps=steps, before=tampered(calls, f"signal=KILL:when={number}")
        ):
            number += 1
        yield f"each of {calls}", number - 1
