"""Steps that are to be seen: a summary that begins with a mark is shown while a run goes on, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harnesses import BaseHarness, StepYield
from harnesses.effects.approval import Action, request_of
from orchestrator import Orchestrator, SqliteStore
from orchestrator.cli.run.live_display import EventLines, LiveTable
from orchestrator.cli.run.new_records import Notices
from orchestrator.store.conformance.conformance_tools import claim
from orchestrator.store.store_operations import Ask
from orchestrator.store.store_protocol import Migrate

SUMMARIES = ("quiet", "! seen \x1b[31mred", None, "not ! at the beginning", "! again")


class Telling(BaseHarness[int, None, dict]):
    """Makes a step for each summary; its output looks like a step of its own."""

    def is_complete(self) -> bool:
        return self.state == len(SUMMARIES)

    async def execute(self) -> AsyncIterator[StepYield[None, dict]]:
        for summary in SUMMARIES:
            self.update_state(lambda state: state + 1, summary=summary)
            yield StepYield(None, {"summary": "! of the output"})


async def told(store: SqliteStore) -> None:
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Telling(0), name="t")


async def test_marked_steps_are_noticed_once_each_and_no_others(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    notices = Notices(store)
    await told(store)

    found, more = notices.next(), notices.next()
    notices.close()
    store.close()

    assert [(one.step, one.text) for one in found] == [(2, "seen \x1b[31mred"), (5, "again")]
    assert more == []


async def test_lines_show_them_among_the_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "run.db")
    view = EventLines(store)
    await told(store)

    view.close()
    store.close()

    lines = capsys.readouterr().err.splitlines()
    assert lines[1:3] == [r"t: step 2: seen \x1b[31mred", "t: step 5: again"]
    assert (lines[0][:10], lines[3][:12]) == ("t: started", "t: completed")


async def test_the_table_has_them_above_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "run.db")
    view = LiveTable(store, lambda: ["t"])
    view.open()
    await told(store)

    view.show()
    view.close()
    store.close()

    err = capsys.readouterr().err
    assert [err.count(line) for line in (r"t: step 2: seen \x1b[31mred", "t: step 5: again", "not ! at")] == [1, 1, 0]


def test_the_table_shows_what_an_agent_is_saying(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "run.db")
    view = LiveTable(store, lambda: ["t"], lambda name: f"{name} thinks\nthat \x1b[31mall is well")
    view.open()
    claim(store, "t")

    view.show()
    shown = StringIO()
    Console(file=shown, width=200).print(view._live.renderable)  # pyright: ignore[reportPrivateUsage]
    view.close()
    store.close()

    assert r"… t thinks that \x1b[31mall is well" in shown.getvalue()


def test_what_is_asked_names_the_command_for_this_store(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        notices = Notices(store)
        wanted = request_of("a1", "one", 1, "push", Action("publish", "push", {}), now_us=1)
        store.commit((), [Ask(claimed.harness, claimed.epoch, 1, wanted, b"k" * 32)])

        (notice,) = notices.next()
        notices.close()

    assert notice.text.endswith(f"`orchestrator approve a1 --store {path}`")


def test_a_migrated_state_is_told_as_it_happens(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        notices = Notices(store)
        store.commit((), [Migrate(claimed.harness, claimed.epoch, 1, 0, 1, 1, 2, '{"sum":0}')])

        (notice,) = notices.next()
        notices.close()

    assert notice.line == "one: step 0: its state was migrated from version 1 to 2"
