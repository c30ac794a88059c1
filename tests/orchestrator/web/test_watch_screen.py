"""The screen of `orchestrator watch`, about a program that runs: what needs a person, and keys that are the verbs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.web.site import Site
from tests.orchestrator.web.conftest import Live

_TURNS = 600
TROUBLED = {"blocked": "blocked", "halted": "halted", "hung": "hung", "approval": "asking"}


def test_the_screen_names_what_needs_a_person_and_approves_after_it_was_asked(live: Live) -> None:
    pytest.importorskip("textual", reason="no Textual: install the extra watch")
    from textual.widgets import DataTable, TabbedContent

    from orchestrator.cli.read.watch_screen import HarnessScreen, Question, WatchApp, plain

    assert (plain("    pair/").plain, plain(" " * 99 + "x").plain) == ("    pair/", " " * 20 + "x")

    async def use(site: Site) -> None:
        app = WatchApp(site)
        async with app.run_test(size=(160, 50)):

            async def until(condition: Any) -> None:
                for _ in range(_TURNS):
                    if condition():
                        return
                    await asyncio.sleep(0.1)
                raise AssertionError("it did not come to that")

            await until(lambda: app.query("#needs"))
            needs: DataTable[Any] = app.query_one("#needs", DataTable)
            await until(lambda: {need["kind"]: need["harness"] for need in app.shown_needs.values()} == TROUBLED)
            shown = "\n".join(str(cell) for row in needs.rows for cell in needs.get_row(row))
            assert not {"\x1b", "\u202e"} & {*shown}

            needs.move_cursor(row=[key.split()[0] for key in app.shown_needs].index("approval"))
            app.simulate_key("a")
            await until(lambda: isinstance(app.screen, Question))
            app.simulate_key("n")
            await until(lambda: not isinstance(app.screen, Question))
            assert step("asking", live) == 0
            app.simulate_key("a")
            await until(lambda: isinstance(app.screen, Question))
            app.simulate_key("y")
            await until(lambda: step("asking", live) > 0)
            await until(lambda: "approval" not in {need["kind"] for need in app.shown_needs.values()})

            app.query_one(TabbedContent).active = "fleet-tab"
            fleet: DataTable[Any] = app.query_one("#fleet", DataTable)
            fleet.focus()
            await until(lambda: fleet.row_count == len(TROUBLED) + 1)
            fleet.move_cursor(row=[str(row.value) for row in fleet.rows].index("healthy"))
            app.simulate_key("p")
            await until(lambda: status("healthy", live) == "paused")
            app.simulate_key("r")
            await until(lambda: status("healthy", live) == "running")
            app.simulate_key("enter")
            await until(lambda: isinstance(app.screen, HarnessScreen))
            await until(lambda: app.screen.query_one("#steps", DataTable).row_count > 3)

    # In a thread of its own: the browser of other tests leaves an event loop running in this one.
    with closing(Site(live.store)) as site, ThreadPoolExecutor(1) as threads:
        threads.submit(lambda: asyncio.run(use(site))).result()


def step(name: str, live: Live) -> int:
    with closing(SqliteReader(live.store)) as reader:
        return next(one.current_step for one in reader.harnesses() if one.name == name)


def status(name: str, live: Live) -> str:
    with closing(SqliteReader(live.store)) as reader:
        return next(one.status.value for one in reader.harnesses() if one.name == name)
