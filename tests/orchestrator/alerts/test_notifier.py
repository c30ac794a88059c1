"""When people are told of what has lasted: the time counts from the record, not from the start of who tells."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from harnesses.errors import NotReady
from orchestrator import Orchestrator
from orchestrator.alerts.alert_book import Book, book_path, read_book
from orchestrator.alerts.alert_facts import Facts
from orchestrator.alerts.alert_rules import Alerts, Rule, Word
from orchestrator.alerts.notifier import Notifier
from orchestrator.web.site import Site
from tests.orchestrator.scripted import Scripted, Steps


async def unready(harness: Scripted) -> Steps:
    raise NotReady("program 'gh' was not found: expected it on PATH; install it")
    yield


@pytest.mark.parametrize(("for_s", "is_told"), [(0.05, True), (3600.0, False)])
async def test_what_began_before_the_notifier_is_told_when_it_has_lasted(for_s: float, is_told: bool, tmp_path: Path) -> None:
    path, said = tmp_path / "run.db", list[str]()
    with suppress(ExceptionGroup):
        async with Orchestrator(path, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(unready), name="one")
    time.sleep(0.06)  # noqa: ASYNC251 - the record has the wall clock's time
    rules = Alerts((Rule({"blocked": Word("blocked")}, (), for_s=for_s),))

    with closing(Site(path)) as site, closing(Book(book_path(path))) as book:
        facts = Facts(site, lambda sql: (), said.append)
        await Notifier(
            site=site,
            facts=facts,
            book=book,
            alerts=rules,
            targets={},
            store=path,
            tell=said.append,
            has_ended=lambda: True,
        ).run()

    told = [(one.alert.kind, one.alert.harness) for one in read_book(path)]
    assert told == ([("blocked", "one")] if is_told else [])
