"""Arguments of tool calls are stored as the model wrote them, and shown without secrets on every surface."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import trio
from attrs import frozen

from harnesses import BaseHarness, StepYield
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.tools.function_tool import tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.errors import NotReady
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.frames.frame_queries import FRAMES
from orchestrator.cli import main
from orchestrator.cli.export.export_sheets import SHEETS
from orchestrator.cli.run.live_display import EventLines, JsonLines, LiveTable
from orchestrator.cli.verb_table import NAMES
from orchestrator.history import transcripts
from orchestrator.history.transcript_formats import FORMATS
from orchestrator.mcp.tool_box import ToolBox
from orchestrator.store import SqliteReader
from orchestrator.web.ready_routes import READY_ROUTES
from orchestrator.web.record_events import Wanted, events
from orchestrator.web.site_routes import ROUTES
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted
from tests.orchestrator.control.asked import ask
from tests.orchestrator.web.asking import asking
from tests.secrets.leaks import GITHUB

PASSWORD, IN_URL = "hunter2hunter2", "passw0rd99"
SECRETS = (PASSWORD, IN_URL, GITHUB)
CONTENT = f'DB = {{"password": "{PASSWORD}"}}\nurl = "postgres://user:{IN_URL}@localhost/db"\nkey = "{GITHUB}"\n'
WRITTEN = json.dumps({"content": CONTENT, "password": PASSWORD})
KEPT, STUCK, GUARDED, LOST = "kept", "stuck", "guarded", "lost"


@tool(effect=ToolEffect.ACTS)
async def kept(content: str, password: str) -> str:
    """Keep, and repeat what was given."""
    return f"kept {content}"


@tool(effect=ToolEffect.CHANGES_FILES)
async def stuck(content: str, password: str) -> str:
    """Wait for another day."""
    raise NotReady(f"no room for {content}")


@tool(effect=ToolEffect.ACTS)
async def guarded(content: str, password: str) -> str:
    """Be asked about."""
    return "done"


@tool(effect=ToolEffect.DANGEROUS)
async def lost(content: str, password: str) -> str:
    """Never come back."""
    await trio.sleep_forever()
    raise AssertionError


class Asking(BaseHarness[int, str, str]):
    """Has its agent call one tool, twice: in its first step with an answer, then in one that is not recorded."""

    def __init__(self, name: str) -> None:
        super().__init__(0)
        first, second = says("", calls(KEPT, WRITTEN)), says("", calls(name, WRITTEN, "c2"))
        policy = ToolPolicy(ask=[GUARDED], allow=[LOST])
        client = scripted(first, says("done"), second, says("done")).client()
        self.agent = ModelAgent(client, tools=[kept, stuck, guarded, lost], policy=policy)

    async def execute(self) -> AsyncIterator[Any]:
        for question in ("one", "two")[self.current_step :]:
            yield StepYield(question, await self.run_agent(self.agent, question))


@frozen
class Recorded:
    """A store, and what was shown while it was written."""

    path: Path
    live: dict[str, str]


async def _record(folder: Path) -> Recorded:
    path, live = folder / "run.db", dict[str, str]()
    events, lines, objects, screen = [], StringIO(), StringIO(), StringIO()

    async def follow(handle: Any) -> None:
        async for event in handle.turn_events():
            events.append(event)

    async with trio.open_nursery() as nursery:
        async with Orchestrator(path, log=folder / "steps.jsonl", control=True, handle_signals=False) as orchestrator:
            for name in (KEPT, STUCK, GUARDED, LOST):
                nursery.start_soon(follow, orchestrator.start(Asking(name), name=name, restart="temporary"))
            reader = SqliteReader(path)
            with redirect_stderr(screen):
                views = (EventLines(reader, lines), JsonLines(reader, objects), LiveTable(reader, lambda: {KEPT, GUARDED}))
                for view in views:
                    view.open()
                while not _is_all_begun(reader):  # noqa: ASYNC110 - a store rings for nobody
                    await trio.sleep(0.01)
                control = orchestrator.beside.control_path
                answers = [await ask(control, "GET", target) for target in ("/status", "/metrics")]
                for action in ("pause", "resume", "stop?grace_s=0"):
                    answers += [await ask(control, "POST", f"/harnesses/{name}/{action}") for name in (GUARDED, LOST)]
                for view in views:
                    view.show()
                    view.close()
            reader.close()
            orchestrator.stop(grace=0)
    _said(f"export --store {path} --what records --output {folder / 'parts'} --partition-by harness")
    live["events of turns"] = "\n".join(map(str, events))
    live["live lines"], live["live JSON"], live["live table"] = lines.getvalue(), objects.getvalue(), screen.getvalue()
    live["control API"] = "\n".join(answer.body.decode() for answer in answers)
    live["log file"] = (folder / "steps.jsonl").read_text()
    return Recorded(path, live)


def _is_all_begun(reader: SqliteReader) -> bool:
    begun = {effect.harness for effect in reader.effects(current=True) if "/tool/" in effect.key}
    return bool(reader.approvals()) and begun >= {STUCK, LOST}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return trio.run(_record, tmp_path_factory.mktemp("shown"))


HARNESSES = (KEPT, STUCK, GUARDED, LOST)
EVERYTHING = " union all ".join(f"select {name}::varchar said from {name}" for name in ("effects", "approvals", "transcripts"))
SHOWN: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "status": ("status", "status --json"),
    "watch": ("watch", "watch --json"),
    "steps": tuple(f"steps {name} {more}" for name in HARNESSES for more in ("", "--json")),
    "show": tuple(f"show {name} 1 {more}" for name in HARNESSES for more in ("", "--state --json")),
    "logs": ("logs", "logs --json"),
    "budgets": ("budgets --json",),
    "metrics": ("metrics",),
    "approvals": ("approvals --all", "approvals --all --json"),
    "effects": ("effects", "effects --all", "effects --all --json"),
    "transcript": tuple(
        f"transcript {name} {step} {more}"
        for name in HARNESSES
        for step in (1, 2)
        for more in ("--full", "--json", *(f"--format {each}" for each in FORMATS))
    ),
    "state": tuple(f"state {name} --json" for name in HARNESSES),
    "diff": (f"diff {KEPT} 1 2", f"diff {KEPT} 0 1 --json"),
    "replay": ("replay --speed max", "replay steps.jsonl --speed max --json"),
    "rejudge": (f"rejudge {KEPT} actions --all",),
    "analyze": ("analyze report --html", "analyze failures", f"analyze why {LOST}"),
    "sql": (f"sql '{EVERYTHING}' --json",),
    "export": (
        *(f"export --what {what} --format {form}" for what in SHEETS for form in ("jsonl", "csv")),
        f"export {KEPT}",
    ),
    "traces": ("traces",),
    "verify": ("verify --json",),
    "fork": (f"fork {KEPT} --at 1 --as forked --json",),
    "deny": ("deny {approval} --json",),
    "approvals reopen": ("deny {approval}", "approvals reopen {approval} --json"),
    "approve": ("approve {approval}",),
    "effects settle": (f"effects settle {LOST} {{effect}} --as not-done --reason seen --json",),
    "prune": ("prune --keep 1 --json",),
}
"""What is asked of each verb that shows what is recorded, each in a copy of the store."""
NOT_OF_CALLS = {
    "budgets set": "it shows limits",
    **dict.fromkeys(("limits", "limits set"), "they show time limits"),
    "serve": "its page is tested below",
    "mcp": "its tools are tested below",
    "copy": "it tells how many records there are",
    "run": "it shows what the live views do",
    "backtest": "it shows figures of accounts",
    **dict.fromkeys(("node", "nodes"), "they tell names of harnesses, and why one cannot be started, redacted"),
    **dict.fromkeys(("notify", "alerts"), "they tell the status of harnesses, redacted before it is kept"),
    **dict.fromkeys(("init", "schema", "guard", "contract", "completion"), "it reads no store"),
    **dict.fromkeys(
        ("pause", "resume", "stop", "start", "restart", "kill-switch"), "an order, whose answer is the control API's"
    ),
    **dict.fromkeys(("query", "send", "ask", "trading"), "it shows what a harness answers"),
    **dict.fromkeys((name for name in NAMES if name.startswith("memory")), "a memory has no tool calls"),
}
"""Verbs that show no tool call, and why."""


def _said(line: str) -> str:
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        try:
            code: object = main(shlex.split(line))
        except SystemExit as ended:
            code = ended.code
    assert code != 2, (line, out.getvalue())
    return out.getvalue()


def _leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_each_verb_is_known_to_show_tool_calls_or_not() -> None:
    assert {*SHOWN} | {*NOT_OF_CALLS} == {*NAMES}
    assert not {*SHOWN} & {*NOT_OF_CALLS}


def test_the_store_has_the_arguments_as_they_were_written(recorded: Recorded) -> None:
    raw = b"".join(path.read_bytes() for path in recorded.path.parent.glob("run.db*") if path.is_file())

    assert all(secret.encode() in raw for secret in SECRETS)


def test_what_is_shown_of_a_running_program_has_no_secret(recorded: Recorded) -> None:
    assert {name: _leaks(text) for name, text in recorded.live.items() if _leaks(text)} == {}
    assert all(recorded.live.values())
    assert "[REDACTED]" in recorded.live["events of turns"]


@pytest.mark.parametrize("verb", SHOWN)
def test_no_verb_shows_a_secret_in_the_arguments_of_a_call(
    verb: str, recorded: Recorded, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(copytree(recorded.path.parent, tmp_path / "copy"))
    with closing(SqliteReader("run.db")) as reader:
        ids = {
            "approval": reader.approvals()[0].id,
            "effect": next((one.key for one in reader.effects(LOST) if one.is_open), ""),
        }
    shown = {line: _said(line.format(**ids)) for line in SHOWN[verb]}

    assert {line: _leaks(text) for line, text in shown.items() if _leaks(text)} == {}
    if verb in ("logs", "approvals", "effects", "transcript", "replay", "export", "sql"):
        assert any("[REDACTED]" in text for text in shown.values())


@pytest.mark.parametrize("source", ["run.db", "steps.jsonl", "parts"])
def test_no_frame_of_a_notebook_shows_a_secret(source: str, recorded: Recorded) -> None:
    with analysis.open(recorded.path.parent / source) as run:
        shown = {name: f"{run.frame(name).fetchall()}{run.frame(name)}" for name in FRAMES}

    assert {name: _leaks(text) for name, text in shown.items() if _leaks(text)} == {}
    assert "[REDACTED]" in shown["effects"]


def test_transcripts_in_a_program_have_no_secret(recorded: Recorded) -> None:
    for name in HARNESSES:
        for step in (1, 2):
            assert _leaks(str(transcripts(recorded.path, name, step))) == []


async def test_the_page_and_its_api_show_no_secret(recorded: Recorded) -> None:
    shown: dict[str, str] = {}
    async with asking(recorded.path) as api:
        for route in (route for route in ROUTES if route.method == "GET"):
            for name in HARNESSES if "{name}" in route.path else ("",):
                path = route.path.strip("/").format(name=name, step=1, id="one")
                options = {"all": "1", "names": ",".join(HARNESSES), "text": "password"}
                known = {option: value for option, value in options.items() if option in route.options}
                response = await api.response("GET", path, known)
                # What is asked of one that trades or has a list is refused for any other.
                refusals = {400, 404} if route in READY_ROUTES else set[int]()
                assert response.status in {200, *refusals}, (path, response.body)
                shown[path] = response.body.decode()
        stream = events(api.site, Wanted(0))
        shown["events"] = (await anext(stream)).decode()
        await stream.aclose()

    assert {path: _leaks(text) for path, text in shown.items() if _leaks(text)} == {}
    for path in ("approvals", "effects", f"harnesses/{KEPT}/transcripts", f"harnesses/{KEPT}/effects", "events"):
        assert "[REDACTED]" in shown[path]


def test_the_tools_for_agents_show_no_secret(recorded: Recorded) -> None:
    shown: dict[str, str] = {}
    with closing(ToolBox(recorded.path, with_content=True)) as box:
        for tool in box.tools.values():
            taken = {one.name for one in tool.arguments}
            for harness in HARNESSES if "harness" in taken else ("",):
                given = {"harness": harness, "step": 1, "all": True, "text": "password", "question": "turns"}
                called = box.call(tool.name, {name: value for name, value in given.items() if name in taken})
                assert not called.is_error or "has no step" in called.text, called
                shown[f"{tool.name} {harness}"] = called.text

    assert {name: _leaks(text) for name, text in shown.items() if _leaks(text)} == {}
    assert "[REDACTED]" in shown[f"transcripts {KEPT}"]
