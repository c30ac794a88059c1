"""Two processes that send to one bounded mailbox of a running program at the same time never overfill it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.orchestrator.commanding import Command, Ended, ended, steps_of, wait_until
from tests.orchestrator.operated import Bounded

EACH = 10
SENDERS = ("ann", "bob")


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        table = '[[harness]]\nname = "bounded"\nharness = "tests.orchestrator.operated:Bounded"\ninitial_state = 0\n'
        command.write("run.toml", table)
        yield command


def send_one_each(command: Command) -> dict[str, Ended]:
    """Have four processes send a message at the same time."""
    messages = [f"{who} {number}" for who in SENDERS for number in (1, 2)]
    senders = [command.start("send", "bounded", message) for message in messages]
    return {message: ended(sender) for message, sender in zip(messages, senders, strict=True)}


def send_many_each(command: Command) -> dict[str, Ended]:
    """Have two processes send messages at the same time, one after the other."""
    messages = [[f"{who} many {number}" for number in range(EACH)] for who in SENDERS]
    lines = [[["send", "bounded", message] for message in each] for each in messages]
    with ThreadPoolExecutor() as pool:
        done = [pool.submit(command.each, *each) for each in lines]
    return dict(zip(chain(*messages), chain(*(one.result() for one in done)), strict=True))


def query(command: Command, question: str) -> list[Any]:
    with closing(sqlite3.connect(command.folder / "run.db")) as db:
        return db.execute(question).fetchall()


def test_two_senders_at_once_never_overfill_a_mailbox_and_what_is_accepted_arrives_once(command: Command) -> None:
    program = command.start("run", "run.toml")
    wait_until(lambda: (command.folder / "waiting").exists())
    sent = send_one_each(command)
    accepted_at_first = sum(done.code == 0 for done in sent.values())
    (command.folder / "open").touch()
    sent |= send_many_each(command)
    wait_until(lambda: not query(command, "SELECT 1 FROM messages WHERE consumed_step IS NULL"))
    program.terminate()
    assert ended(program).code in (3, 143)

    accepted = [message for message, done in sent.items() if done.code == 0]
    refused = [done for done in sent.values() if done.code != 0]
    heard = [step.input for step in steps_of(command.folder / "run.db", "bounded")]
    kept = query(command, "SELECT m.seq, s.seq FROM messages m JOIN steps s ON s.step_number = m.consumed_step")
    waiting = [sum(seq <= at < used for seq, used in kept) for at, _ in kept]

    assert accepted_at_first == Bounded.mailbox_limit
    assert all((done.code, "the mailbox of 'bounded' is full" in done.err) == (1, True) for done in refused)
    assert sorted(heard) == sorted(accepted)
    assert max(waiting) == Bounded.mailbox_limit
