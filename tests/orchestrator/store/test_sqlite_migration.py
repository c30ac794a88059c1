"""G10: a store that an earlier release wrote is brought up to date, says what it said, and is gone on with.

`version-2.db.gz` was written by a program of the release before there were effects, which was killed (`kill -9`) after step
220 of `trading`: 287 records of three harnesses, a crash and ten messages among them.
"""

from __future__ import annotations

import gzip
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from harnesses import BaseHarness
from orchestrator import Orchestrator, OutcomeKind, SqliteStore, Status, StoreUnusable
from orchestrator.codec import decode
from orchestrator.store import SqliteReader
from orchestrator.store.conformance import claim, intent_row, numbers
from orchestrator.store.file.schema import VERSION

OLD = Path(__file__).with_name("version-2.db.gz")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a store as the earlier release has left it."""
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


@frozen
class Account:
    trades: int = 0
    cash: Decimal = Decimal("100.00")
    notes: tuple[str, ...] = ()


def after(step: int) -> Account:
    """Return the account after a step."""
    cash = Decimal("100.00") + Decimal("0.10") * step * (step + 1) / 2
    return Account(step, cash, tuple(f"day {number}" for number in range(10, step + 1, 10)))


class Trading(BaseHarness[Account, int, str]):
    """Goes on as the harness of the earlier release did, and buys something in each step."""

    bought: list[int]

    def is_complete(self) -> bool:
        return self.current_step == 250

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        self.bought = []
        assert self.state == after(self.current_step)
        while True:
            step = self.current_step + 1
            await self.once("buy", self.bought.append, step)
            self.update_state(lambda _: after(step))  # noqa: B023  (called at once)
            yield step, f"step {step}"


def shape(path: Path) -> list[Any]:
    """Return what the schema of a file is made of."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name").fetchall()


def ask(path: Path, question: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(question).fetchall()


def test_it_was_written_by_an_earlier_release(path: Path) -> None:
    assert ask(path, "PRAGMA user_version") == [(2,)]
    assert VERSION > 2
    with pytest.raises(StoreUnusable, match=f"schema version 2: expected {VERSION}; `orchestrator doctor --repair"):
        SqliteReader(path).harnesses()


def test_it_says_what_it_said(path: Path) -> None:
    before = ask(path, "SELECT * FROM records ORDER BY seq")

    with closing(SqliteStore(path)) as store:
        assert ask(path, "SELECT * FROM records ORDER BY seq") == before
        assert {known.name: (known.status, known.attempt, known.current_step) for known in store.harnesses()} == {
            "waiting": (Status.RUNNING, 1, 10),
            "trading": (Status.RUNNING, 2, 220),
            "counting": (Status.COMPLETED, 1, 40),
        }
        assert numbers(store, "trading") == list(range(1, 221))
        for step in (0, 1, 29, 30, 100, 220):
            assert decode(store.state_at("trading", step))["cash"] == str(after(step).cash)
        assert store.effects() == []


def test_its_shape_is_that_of_a_new_one(path: Path, tmp_path: Path) -> None:
    SqliteStore(tmp_path / "new.db").close()

    SqliteStore(path).close()

    assert shape(path) == shape(tmp_path / "new.db")
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]


def test_its_views_say_what_they_said(path: Path) -> None:
    questions = [f"SELECT * FROM {view} ORDER BY 1" for view in ("steps", "events", "harness_status")]
    questions.append("SELECT seq, harness, sender, body, consumed_step FROM messages ORDER BY 1")
    before = [ask(path, question) for question in questions]

    SqliteStore(path).close()

    assert [ask(path, question) for question in questions] == before


def test_effects_are_recorded_in_it(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "trading")
        store.commit([], effects=[intent_row(claimed, 221, "buy", 7)])

        assert (claimed.step, claimed.marks) == (220, ())
        assert claim(store, "trading", take_over=True).marks == (("intent", '{"key":"buy","arguments":[7]}'),)


async def test_its_harnesses_go_on_where_they_were_killed(path: Path, autojump_clock: Any) -> None:
    harness = Trading(Account())

    async with Orchestrator(path, handle_signals=False) as orchestrator:
        outcome = await orchestrator.start(harness, name="trading").wait()
        assert [effect.step_number for effect in orchestrator.store.effects("trading")] == list(range(221, 251))

    assert (outcome.kind, outcome.step, outcome.attempt) == (OutcomeKind.COMPLETED, 250, 3)
    assert harness.bought == list(range(221, 251))
    assert harness.state == after(250)
    with closing(SqliteReader(path)) as reader:
        assert [step.step_number for step in reader.steps("trading")] == list(range(1, 251))


def test_programs_that_come_at_the_same_time_bring_it_up_to_date_once(path: Path) -> None:
    wrong: list[BaseException] = []

    def open_it() -> None:
        try:
            SqliteStore(path).close()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert ask(path, "PRAGMA user_version") == [(VERSION,)]
