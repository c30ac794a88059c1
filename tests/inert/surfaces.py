"""Every surface of a store with hostile texts but the page: each output with the name of its checker."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from harnesses.timing.clock import now_us
from orchestrator import Orchestrator, analysis
from orchestrator.alerts.alert_book import Book, book_path
from orchestrator.alerts.alert_delivery import MOST, message
from orchestrator.alerts.alert_facts import Facts
from orchestrator.alerts.alert_rules import Rule, condition_of
from orchestrator.analysis import questions
from orchestrator.analysis.frames.frame_queries import FRAMES
from orchestrator.cli import main
from orchestrator.cli.export.export_sheets import SHEETS
from orchestrator.cli.run.live_display import EventLines, JsonLines, LiveTable
from orchestrator.history.transcript_formats import FORMATS
from orchestrator.mcp.tool_box import ToolBox
from orchestrator.store import SqliteReader
from orchestrator.web.record_events import Wanted, events
from orchestrator.web.site import Site
from orchestrator.web.site_routes import ROUTES
from tests.inert.hostile_store import Hostile
from tests.orchestrator.control.asked import ask
from tests.orchestrator.web.asking import asking


@frozen
class Shown:
    """What a surface showed."""

    surface: str
    checker: str
    text: str


_ROWS = 18
"""Of a live table, at a time: fewer than a terminal of 25 lines has."""
_QUESTIONS = ("summary", "timeline", "slow", "failures", "restarts", "throughput", "loops", "cost", "progress", "turns")
_QUESTION = re.compile(f"analyze ({'|'.join(_QUESTIONS)}) ")
_EVERY = " union all ".join(f"select {name}::varchar said from {name}" for name in FRAMES)


class Live:
    """The views of a program that runs; they are opened before anything happens.

    Args:
        path: the store.
    """

    def __init__(self, path: Path) -> None:
        self._reader = SqliteReader(path)
        self._lines, self._objects, self._screen = StringIO(), StringIO(), StringIO()
        self._names: list[str] = []
        self._views = (EventLines(self._reader, self._lines), JsonLines(self._reader, self._objects))
        with redirect_stderr(self._screen):
            self._table = LiveTable(self._reader, lambda: self._names)
            for view in (*self._views, self._table):
                view.open()

    async def look(self, orchestrator: Orchestrator, hostile: Hostile) -> list[Shown]:
        """Return what is shown when everything has been said."""
        every = [*hostile.failing, *hostile.losing, *hostile.talking, *hostile.chatting, *hostile.asking, "builds", "trades"]
        with redirect_stderr(self._screen), closing(self._reader):
            for place in range(0, len(every), _ROWS):
                self._names[:] = every[place : place + _ROWS]
                self._table.show()
                self._table._live.console.print(self._table._live.get_renderable())  # pyright: ignore[reportPrivateUsage]
            for view in (*self._views, self._table):
                view.show()
                view.close()
        control = orchestrator.beside.control_path
        status, metrics = [(await ask(control, "GET", target)).body.decode() for target in ("/status", "/metrics")]
        return [
            Shown("live lines", "lines", self._lines.getvalue()),
            Shown("live JSON", "json lines", self._objects.getvalue()),
            Shown("live table", "screen", self._screen.getvalue()),
            Shown("control API", "json lines", status),
            Shown("live metrics", "terminal", metrics),
        ]


def _verbs(hostile: Hostile) -> Iterator[tuple[str, str]]:
    """Yield each line of a verb, and its checker."""
    yield from (("status", "lines"), ("status --json", "json lines"), ("watch --json", "json lines"), ("watch", "terminal"))
    yield from (("doctor", "terminal"), ("logs", "lines"), ("logs --json", "json lines"), ("metrics", "terminal"))
    yield from (("effects --all", "terminal"), ("effects", "terminal"), ("effects --all --json", "json lines"))
    yield from (("approvals --all", "terminal"), ("approvals --all --json", "json lines"))
    yield from (
        ("budgets", "terminal"),
        ("verify --json", "json lines"),
        ("traces", "json lines"),
        ("alerts --all", "terminal"),
    )
    yield from (
        ("alerts --json", "json lines"),
        ("replay --speed max", "terminal"),
        ("replay --speed max --json", "json lines"),
    )
    for name in (*hostile.talking, *hostile.chatting, "builds", "trades"):
        yield from ((f"steps {name}", "lines"), (f"steps {name} --json", "json lines"), (f"show {name} 2", "terminal"))
        yield from (
            (f"state {name}", "terminal"),
            (f"diff {name} 0 2", "terminal"),
            (f"show {name} 2 --state --json", "json lines"),
        )
        yield from ((f"export {name}", "json lines"), (f"export {name} --format csv", "sheet"))
    for name in hostile.chatting:
        with closing(SqliteReader(hostile.path)) as reader:
            steps = next(one.current_step for one in reader.harnesses() if one.name == name)
        for step in range(1, steps + 1, max(1, steps // 8)):
            yield f"transcript {name} {step} --full", "terminal"
            yield f"transcript {name} {step}", "terminal"
            yield f"transcript {name} {step} --json", "json lines"
            yield from ((f"transcript {name} {step} --format {format}", "json lines") for format in FORMATS)
    for name in (*hostile.failing[:9], *hostile.losing[:3], *hostile.asking[:3], "builds", "trades"):
        yield f"analyze why {name}", "terminal"
    for question in _QUESTIONS:
        yield f"analyze {question} --limit 1000", "terminal"
        yield f"analyze {question} --json", "json lines"
        yield f"analyze {question} --csv", "sheet"
    yield f"sql '{_EVERY}'", "terminal"
    yield f"sql '{_EVERY}' --json", "json lines"
    yield f"sql '{_EVERY}' --csv", "sheet"
    for what in SHEETS:
        yield f"export --what {what} --format jsonl", "json lines"
        yield f"export --what {what} --format csv", "sheet"
    yield f"analyze report --html {hostile.report}", "html"
    yield "analyze report --limit 1000", "terminal"


def said(line: str) -> str:
    """Return what a verb prints, to either output."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            code: object = main(shlex.split(line))
        except SystemExit as ended:
            code = ended.code
    assert code != 2, (line, err.getvalue())
    return out.getvalue()


@contextmanager
def _asked_once(hostile: Hostile) -> Iterator[None]:
    """Have each question about the store answered once, for all the formats that its answer is written in."""
    asked = questions.QUESTIONS
    answered: Any = cache(lambda name: asked[name](run))

    def answer(name: str, other: Any, *about: Any, **kept: Any) -> Any:
        return asked[name](other, *about, **kept) if about or kept else answered(name)

    with analysis.open(hostile.path) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "QUESTIONS", {name: partial(answer, name) for name in asked})
        yield


def recorded(hostile: Hostile, is_short: bool) -> Iterator[Shown]:
    """Yield what is shown of a store without a program.

    Args:
        is_short: each verb of questions once only, since they are written by the same code.
    """
    yield from _alerts(hostile)
    with _asked_once(hostile):
        yield from _said_by_verbs(hostile, is_short)
    yield Shown("log file", "json lines", hostile.path.with_name("steps.jsonl").read_text())
    yield from _frames(hostile)
    yield from _tools(hostile, is_short)


def _said_by_verbs(hostile: Hostile, is_short: bool) -> Iterator[Shown]:
    seen = set[str]()
    for line, checker in _verbs(hostile):
        of_questions = line.startswith(("analyze", "export", "transcript"))
        if is_short and of_questions and (_kind(line) in seen or (_QUESTION.match(line) and "failures" not in line)):
            continue
        seen.add(_kind(line))
        text = said(f"{line} --store {hostile.path}")
        yield Shown(f"verb {_kind(line)}", checker, hostile.report.read_text() if checker == "html" else text)


def _tools(hostile: Hostile, is_short: bool) -> Iterator[Shown]:
    """Yield what the tools for agents answer, page by page."""
    names = (hostile.talking[0], hostile.chatting[0], hostile.failing[0], hostile.losing[0], "builds", "trades")
    given = {"step": 1, "all": True, "text": "~", "question": "failures"}
    for with_content in (True,) if is_short else (False, True):
        with closing(ToolBox(hostile.path, with_content=with_content)) as box:
            for tool in box.tools.values():
                taken = {one.name for one in tool.arguments}
                for name in names if "harness" in taken and tool.name != "analyze" else ("",):
                    wanted = {word: value for word, value in {**given, "harness": name}.items() if word in taken}
                    skip: str | None = "0"
                    while skip is not None:
                        called = box.call(tool.name, {**wanted, "skip": int(skip)})
                        yield Shown(f"tool {tool.name}", "lines" if called.is_error else "json lines", called.text)
                        is_last = called.is_error or (is_short and tool.name not in ("needs", "messages", "search"))
                        more = "" if is_last else json.loads(called.text).get("more", "")
                        skip = next(iter(re.findall(r"`skip`: (\d+)", more)), None)


def _frames(hostile: Hostile) -> Iterator[Shown]:
    """Yield frames as a notebook displays them."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell: Any = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        with analysis.open(hostile.path) as run:
            for name in FRAMES:
                data, _ = shell.display_formatter.format(run.frame(name))
                yield Shown(f"frame {name}", "terminal", data["text/plain"])
                yield Shown(
                    f"pandas frame {name}", "elements", shell.display_formatter.format(run.pandas(name))[0]["text/html"]
                )
    finally:
        InteractiveShell.clear_instance()


def _kind(line: str) -> str:
    """Return a line of a verb without names and numbers."""
    verb, *others = line.split(" '")[0].split()
    return " ".join((verb, *(word for word in others if word.lstrip("-").isalpha() and word not in ("builds", "trades"))))


def _alerts(hostile: Hostile) -> Iterator[Shown]:
    rule = Rule({text: condition_of(text, "test") for text in ("needs_you", "ended")}, ("json://localhost",))
    with closing(Site(hostile.path)) as site, closing(Book(book_path(hostile.path))) as book:
        facts = [fact for _, fact in Facts(site, lambda _: (), print).now([rule])]
        ids = book.note(facts, now_us())
        for number in ids.values():
            book.want(number, {"one": "json://localhost"}, now_us(), None)
        alerts = book.due("one", now_us() + 1, 100_000)
    for place in range(0, len(alerts), MOST):
        title, body = message(alerts[place : place + MOST], Path("run.db"))
        yield Shown("alert", "message", f"{title}\n{body}")
    yield from (Shown("alert of one", "message", "\n".join(message([alert], Path("run.db")))) for alert in alerts)


async def api(hostile: Hostile) -> AsyncIterator[Shown]:
    """Yield each answer of the API, and the stream of events."""
    names: Sequence[str] = (*hostile.talking, *hostile.chatting, *hostile.failing[:5], *hostile.losing[:5], "builds", "trades")
    async with asking(hostile.path) as page:
        for route in (route for route in ROUTES if route.method == "GET"):
            for name in names if "{name}" in route.path else ("",):
                path = route.path.strip("/").format(name=name, step=1, id="f1")
                options = {"all": "1", "names": ",".join(names), "text": "~"}
                known = {option: value for option, value in options.items() if option in route.options}
                response = await page.response("GET", path, known)
                assert response.status in (200, 400, 404), (path, response.body)
                if response.stream is not None:  # what is streamed comes below
                    continue
                yield Shown(f"api {route.path}", "json", response.body.decode())
        stream, text = events(page.site, Wanted(0)), ""
        last = page.site.run()["last_seq"]
        async for part in stream:
            text += part.decode()
            if f"id: {last}\n" in text or f"id:{last}\n" in text:
                break
        await stream.aclose()
        yield Shown("stream of events", "stream", text)
