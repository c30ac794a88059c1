"""The screen of `orchestrator watch`: every table and text is drawn, and is looked at cell by cell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from orchestrator.web.site import Site
from tests.inert.checkers import hidden
from tests.inert.hostile_store import Hostile
from tests.inert.surfaces import Shown

_TURNS = 1200


def look(hostile: Hostile) -> list[tuple[Shown, list[str]]]:
    """Return what the screen shows, and what of it is active."""

    async def use(site: Site) -> list[tuple[Shown, list[str]]]:
        from textual.widgets import DataTable, TabbedContent

        from orchestrator.cli.read.watch_screen import HarnessScreen, Question, WatchApp

        app, found = WatchApp(site), list[tuple[Shown, list[str]]]()
        async with app.run_test(size=(200, 60)) as pilot:

            async def until(condition: Any) -> None:
                for _ in range(_TURNS):
                    if condition():
                        return
                    await pilot.pause(0.05)
                raise AssertionError(f"the screen did not come to that: {app.screen}")

            await until(lambda: app.shown_needs)
            await pilot.pause()
            found.append(_drawn("watch needs", app.screen))
            await pilot.press("d")
            await until(lambda: isinstance(app.screen, Question) or app._notifications)  # pyright: ignore[reportPrivateUsage]
            found.append(_drawn("watch question", app.screen))
            await pilot.press("escape")
            app.query_one(TabbedContent).active = "fleet-tab"
            await until(lambda: app.query_one("#fleet", DataTable).row_count)
            await pilot.pause()
            found.append(_drawn("watch fleet", app.screen))
            for name in (*hostile.talking, "builds", "trades"):
                app.push_screen(HarnessScreen(site, name))
                await until(lambda: isinstance(app.screen, HarnessScreen) and bool(app.screen.query("#steps")))
                opened: Any = app.screen
                opened.read()
                steps: Any = opened.query_one("#steps", DataTable)
                await until(lambda steps=steps: steps.row_count)
                for step in range(1, min(3, steps.row_count)):
                    opened.read_step(step)
                    await pilot.pause(0.05)
                    found.append(_drawn("watch step", app.screen))
                for tab in list(opened.query_one(TabbedContent).query("TabPane")):
                    opened.query_one(TabbedContent).active = tab.id
                    await pilot.pause()
                    found.append(_drawn("watch harness", app.screen))
                app.pop_screen()
                await pilot.pause()
        return found

    from orchestrator.cli.read import watch_screen

    with closing(Site(hostile.path)) as site, ThreadPoolExecutor(1) as threads, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch_screen, "REFRESH_S", 3600.0)  # nothing changes: once is enough
        return threads.submit(lambda: asyncio.run(use(site))).result()


def _drawn(surface: str, screen: Any) -> tuple[Shown, list[str]]:
    """Return what is drawn of a screen; nothing in it is a link or an action of a text."""
    lines, wrong = list[str](), list[str]()
    for table in screen.query("DataTable"):
        for text in (cell for row in table.rows for cell in table.get_row(row)):
            lines.append(text.plain)
            wrong += [f"{surface}: markup: {text.plain[:40]!a}"] if text.spans else []
    for widget in _leaves(screen):
        for strip in widget.render_lines(widget.size.region):
            lines.append("".join(segment.text for segment in strip if not segment.control))
            for segment in strip:
                style = segment.style
                acts = style is not None and (style.link or style.blink or "@click" in style.meta)
                if acts:
                    wrong.append(f"{surface}: acts: {segment.text[:40]!a}")
    text = "\n".join(lines)
    return Shown(surface, "", text), wrong + hidden(text)


def _leaves(screen: Any) -> Iterator[Any]:
    from textual.widgets import DataTable, Static
    from textual.widgets._header import HeaderTitle

    for widget in screen.query("*"):
        if isinstance(widget, (DataTable, Static, HeaderTitle)) and widget.display and widget.size.area:
            yield widget
