"""What the API tells of a store is what the command tells of it, on finished runs and on dead ones."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
import trio

from harnesses import BaseHarness
from harnesses.errors import NotReady
from orchestrator import Orchestrator, SqliteStore
from orchestrator.codec import decode
from orchestrator.control.control_server import Request
from orchestrator.errors import StoreError
from orchestrator.kill_switch import ALL, KillSwitch
from orchestrator.records import Record
from orchestrator.store import SqliteReader
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from orchestrator.web import event_feed
from orchestrator.web.api_document import openapi
from orchestrator.web.record_events import Wanted, events
from orchestrator.web.record_search import readable
from orchestrator.web.site import Site
from orchestrator.web.site_routes import ROUTES
from orchestrator.web.store_folder import StoreFolder
from tests.orchestrator.operated import Unsure
from tests.orchestrator.scripted import Scripted, Steps
from tests.orchestrator.store.pruning_runs import copy_store
from tests.orchestrator.web.asking import TOKEN, asking


class Counting(BaseHarness[dict[str, int], int, int]):
    """Makes steps, and stops for want of a program."""

    def __init__(self, steps: int, *, fails: bool = False) -> None:
        super().__init__({"total": 0})
        self.steps, self.fails = steps, fails

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(self.current_step + 1, self.steps + 1):
            self.update_state(lambda state, number=number: {"total": state["total"] + number})
            yield number, number * 2
        if self.fails:
            raise NotReady("the program frobnicate is not installed: install it")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "run.db"

    async def run() -> None:
        async with Orchestrator(SqliteStore(path)) as orchestrator:
            orchestrator.start(Counting(120), name="fine")
            orchestrator.start(Counting(3, fails=True), name="stuck")
            orchestrator.start(Unsure(0), name="unsure")

    with suppress(ExceptionGroup):  # what is blocked is raised at the end
        trio.run(run)
    return path


async def test_what_needs_a_person_is_named_with_the_orders_that_help(store: Path) -> None:
    async with asking(store) as api:
        found = await api.get("needs")

    assert [(need["kind"], need["harness"]) for need in found] == [
        ("unknown_effect", "unsure"),
        ("blocked", "stuck"),
        ("blocked", "unsure"),
    ]
    assert found[0]["orders"] == ["done", "not-done"]
    assert "frobnicate" in found[1]["cause"]


async def test_a_kill_switch_needs_a_person_and_says_why_and_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    SqliteStore(path).close()
    KillSwitch(path).put_on(ALL, reason="the market is odd", by="ada", at="2026-01-01T00:00:00Z")

    async with asking(path) as api:
        (found,) = await api.get("needs")

    assert (found["kind"], found["cause"]) == ("kill_switch", "the market is odd, by ada")


async def test_a_fleet_is_told_once_and_then_only_what_changed(store: Path) -> None:
    async with asking(store) as api:
        first = await api.get("fleet")
        second = await api.get("fleet", since=str(first["version"]))

    assert {row["harness"] for row in first["rows"]} == {"fine", "stuck", "unsure"}
    assert (second["rows"], second["count"]) == ([], 3)


async def test_steps_are_told_newest_first_page_by_page_without_a_gap(store: Path) -> None:
    async with asking(store) as api:
        numbers: list[int] = []
        while not numbers or numbers[-1] > 1:
            before = {"before": str(numbers[-1])} if numbers else {}
            numbers += [step["step_number"] for step in await api.get("harnesses/fine/steps", limit="50", **before)]

    assert numbers == [*range(120, 0, -1)]


async def test_a_step_is_told_with_the_state_after_it_and_what_changed(store: Path) -> None:
    async with asking(store) as api:
        step = await api.get("harnesses/fine/steps/4")

    assert (step["input"], step["output"], step["state"], step["changes"]) == (4, 8, {"total": 10}, ["total: 6 -> 10"])


async def test_the_history_of_a_harness_begins_with_why_it_is_where_it_is(store: Path) -> None:
    async with asking(store) as api:
        events = await api.get("harnesses/stuck/history")
        now = await api.get("harnesses/stuck")

    assert [event["kind"] for event in events] == ["blocked", "started"]
    assert "frobnicate" in events[0]["cause"]
    assert (now["activity"], now["current_step"], now["is_live"]) == ("blocked", 3, False)


@pytest.mark.parametrize(
    ("status", "method", "path", "body", "said"),
    [
        (404, "GET", "harnesses/nobody", None, "no harness 'nobody'"),
        (404, "GET", "nothing", None, "does not exist"),
        (405, "POST", "needs", None, "expected GET"),
        (405, "GET", "kill-switch", None, "expected POST"),
        (400, "GET", "harnesses/fine/steps/zero", None, "expected a whole number"),
        (400, "GET", "harnesses/fine/steps/121", None, "has no step 121"),
        (409, "POST", "harnesses/fine/pause", None, "no program runs 'fine'"),
        (404, "POST", "harnesses/nobody/pause", None, "no harness 'nobody'"),
        (409, "POST", "harnesses/fine/limits", {"limits": {"period_s": 5}}, "no program runs 'fine'"),
        (400, "POST", "harnesses/fine/limits", {"limits": 5}, "expected an object of limits"),
        (400, "POST", "effects/settle", {"harness": "unsure", "key": "order/1", "as": "perhaps"}, "expected done or not-done"),
        (
            400,
            "POST",
            "effects/settle",
            {"harness": "unsure", "key": "order/1", "as": "done"},
            "expected how it was",
        ),
        (400, "POST", "effects/settle", {"harness": 5}, "expected text"),
        (400, "POST", "approvals/none/approve", {}, "no approval 'none'"),
        (400, "POST", "kill-switch", {"on": "yes"}, "expected a field `on`"),
        (400, "POST", "kill-switch", [], "expected a JSON object"),
        (400, "POST", "harnesses/fine/send", {}, "expected a field `message`"),
        (
            400,
            "POST",
            "harnesses/fine/send",
            {"message": 1, "to": "x"},
            "unknown field 'to': expected one of message",
        ),
        (
            400,
            "POST",
            "harnesses/fine/pause",
            {"hart": True},
            "unknown field 'hart': expected one of hard; did you mean 'hard'?",
        ),
        (400, "POST", "harnesses/fine/stop", {"hard": True}, "unknown field 'hard': expected none; remove it"),
        (400, "GET", "needs", {"a": 1}, "unknown field 'a': expected none"),
        (400, "GET", "needs?all=1", None, "GET /needs: unknown option 'all': expected one of store"),
        (400, "GET", "stores?store=x", None, "unknown option 'store': expected none"),
        (400, "GET", "events?kind=step", None, "did you mean 'kinds'?"),
        (400, "GET", "events?kinds=step,stopt", None, "unknown kind 'stopt': expected one of started,"),
        (400, "GET", "events?after=-1", None, "after: expected a whole number"),
        (400, "GET", "approvals?all=yes", None, "all: expected 1 or true, 0 or false, got 'yes'"),
        (404, "GET", "events?harness=nobody", None, "no harness 'nobody'"),
        (404, "GET", "paces?names=fine,nobody", None, "no harness 'nobody'"),
        (404, "GET", "timeline?names=nobody", None, "no harness 'nobody'"),
        (404, "GET", "search?text=a&harness=nobody", None, "no harness 'nobody'"),
        (405, "POST", "events", None, "expected GET"),
        (400, "POST", "budgets", {"pool": "nobody", "limits": {"money": 1}}, "no budget"),
    ],
)
async def test_what_cannot_be_done_is_answered_with_why(
    store: Path, status: int, method: str, path: str, body: object, said: str
) -> None:
    path, _, query = path.partition("?")
    async with asking(store) as api:
        response = await api.response(method, path, dict(parse_qsl(query)), body=body)

    assert response.status == status
    assert said in json.loads(response.body)["error"]


async def test_a_search_shows_text_as_it_was_written(tmp_path: Path) -> None:
    async def talk(harness: Scripted) -> Steps:
        yield {"asks": 'say "hello"'}, {"said": 'line one\nline "two" über', "tool": json.dumps({"path": "a\\b", "n": [1, 2]})}

    async with Orchestrator(SqliteStore(tmp_path / "run.db"), handle_signals=False) as orchestrator:
        await orchestrator.start(Scripted(talk), name="talks").wait()
    async with asking(tmp_path / "run.db") as api:
        (found,) = (await api.get("search", text="ÜBER"))["found"]

    assert (found["harness"], found["step"], found["kind"]) == ("talks", 1, "step")
    assert (
        'input.asks: say "hello", output.said: line one line "two" über, output.tool.path: a\\b, output.tool.n: [1, 2]'
        in found["excerpt"]
    )


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 2_000 + "]" * 2_000, '{"a":' * 400 + "1" + "}" * 400])
def test_text_that_nests_deeply_is_shown(text: str) -> None:
    assert readable({"output": text}).startswith("output")


async def test_no_path_about_a_harness_answers_for_one_that_is_not_there(store: Path) -> None:
    async with asking(store) as api:
        for route in ROUTES:
            if "name" in route.part_names:
                path = route.path.strip("/").format(name="fime", step=1, id="a")
                answer = await api.response(route.method, path, body={} if route.method == "POST" else None)
                assert (answer.status, b"no harness 'fime'" in answer.body) == (404, True), route


async def test_every_path_of_the_api_tells_nothing_to_others(store: Path) -> None:
    known = {"host": "here", "authorization": f"Bearer {TOKEN}"}
    others = (
        {"host": "here"},
        {**known, "origin": "http://evil.example"},
        {**known, "sec-fetch-site": "cross-site"},
        {**known, "host": "evil.example"},
    )
    paths = json.loads(openapi())["paths"]
    async with asking(store) as api:
        for path, methods in paths.items():
            for method, headers in product(methods, others):
                request = Request(method.upper(), tuple(path.strip("/").split("/")), headers=headers)
                answer = await api.server.answer(request)
                assert (answer.status in (401, 403), answer.body, answer.stream) == (True, b"", None), (path, method, headers)


async def test_records_come_as_events_in_order_without_gap_or_repeat_from_any_point(store: Path) -> None:
    async with asking(store) as api:
        site = api.site
        last = site.reader.last_seq()
        for after in (0, 7, last - 1):
            text = b""
            stream = events(site, Wanted(after))
            while f"id: {last}\n".encode() not in text:
                text += await anext(stream)
            await stream.aclose()
            ids = [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]
            assert ids == [*range(after + 1, last + 1)]


async def test_followers_read_each_record_once_and_pass_over_what_was_pruned(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read, records = copy_store(store, tmp_path / "run.db"), list[int](), SqliteReader.records
    prune(path, Rule(keep=5, context=0), by="ann")
    await _run_one(path, "late")
    with closing(SqliteReader(path)) as reader:
        kept = [(record.seq, record.harness) for record in reader.records(limit=10_000)]

    def counted(reader: SqliteReader, *, after: int = 0, limit: int = 1000) -> list[Record]:
        found = records(reader, after=after, limit=limit)
        read.extend(record.seq for record in found)
        return found

    monkeypatch.setattr(SqliteReader, "records", counted)
    followers = (Wanted(0), Wanted(0), Wanted(kept[3][0]), Wanted(0, harness="late"))
    told: dict[int, list[int]] = {}

    async def follow(site: Site, place: int) -> None:
        text, stream = b"", events(site, followers[place])
        with trio.fail_after(30):
            while f"id: {kept[-1][0]}\n".encode() not in text:
                text += await anext(stream)
        await stream.aclose()
        told[place] = [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]

    async with asking(path) as api, trio.open_nursery() as nursery:
        for place in range(len(followers)):
            nursery.start_soon(follow, api.site, place)

    everything = [seq for seq, _ in kept]
    of_late = [seq for seq, name in kept if name == "late"]
    assert len(everything) < everything[-1]
    assert [told[place] for place in range(4)] == [everything, everything, everything[4:], of_late]
    assert len(read) <= 2 * len(kept)  # from the beginning, and from the place of the third


async def test_events_of_large_records_are_kept_by_their_bytes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "_READ", 3)
    monkeypatch.setattr(event_feed, "_PAGE_BYTES", 5000)
    monkeypatch.setattr(event_feed, "KEPT_BYTES", 20_000)
    text, kept = b"", list[int]()
    async with asking(store) as api:
        last, stream = api.site.reader.last_seq(), events(api.site, Wanted(0))
        with trio.fail_after(30):
            while f"id: {last}\n".encode() not in text:
                text += await anext(stream)
                kept.append(api.site.feed.kept_bytes)
        await stream.aclose()

    assert [int(line[4:]) for line in text.splitlines() if line.startswith(b"id: ")] == [*range(1, last + 1)]
    assert len(kept) > 3
    assert max(kept) < 30_000


async def test_a_client_that_is_too_far_behind_is_told_what_it_missed(store: Path) -> None:
    async with asking(store) as api:
        last = api.site.reader.last_seq()
        stream = events(api.site, Wanted(0, behind=10))
        missed, page = await anext(stream), await anext(stream)
        await stream.aclose()

    assert missed == f'event: missed\nid: {last - 10}\ndata: {{"from":1,"to":{last - 10}}}\n\n'.encode()
    assert page.startswith(f"id: {last - 9}\n".encode())


def test_every_path_is_in_the_document_of_the_api() -> None:
    paths = json.loads(openapi())["paths"]

    assert {(path, method) for path, methods in paths.items() for method in methods} == {
        (f"/api{route.path}", route.method.lower()) for route in ROUTES
    }
    for methods in paths.values():
        for said in methods.values():
            assert {"200", "400"} <= said["responses"].keys()
            if "requestBody" in said:
                assert said["requestBody"]["content"]["application/json"]["schema"]["additionalProperties"] is False
    assert "404" in paths["/api/harnesses/{name}/steps"]["get"]["responses"]


def test_a_store_that_was_made_anew_is_told_of_and_not_the_one_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    trio.run(_run_one, path, "before")
    with closing(StoreFolder(path)) as folder:
        assert folder.site("").steps_made() == {"before": 1}
        for file in tmp_path.iterdir():
            file.unlink()
        with pytest.raises(StoreError):
            folder.site("")

        trio.run(_run_one, path, "after")
        assert folder.site("").steps_made() == {"after": 1}


async def _run_one(path: Path, name: str) -> None:
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        orchestrator.start(Counting(1), name=name)


def test_the_output_of_a_harness_is_searched_only_where_it_lived(tmp_path: Path) -> None:
    async def talk(harness: Scripted) -> Steps:
        for number in range(3):
            harness.log(f"line {number}")
            yield number, None

    async def run() -> None:
        async with Orchestrator(SqliteStore(tmp_path / "run.db"), handle_signals=False) as orchestrator:
            await orchestrator.start(Scripted(talk), name="quiet").wait()
            await orchestrator.start(Counting(300), name="loud").wait()
            await orchestrator.start(Scripted(talk), name="late").wait()

    trio.run(run)
    searched = list[tuple[int, int]]()
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        lives = {name: [one.seq for one in reader.records_of(name, ("started", "finished"))] for name in ("quiet", "late")}
        with reader._reading() as db:  # pyright: ignore[reportPrivateUsage]
            db.set_trace_callback(
                lambda text: searched.append(_range(text)) if "'output'" in text and "seq >" in text else None
            )
        found = {name: [decode(one.body)["line"] for one in reader.outputs(name)] for name in ("quiet", "late", "loud")}

    assert found == {"quiet": ["line 2", "line 1", "line 0"], "late": ["line 2", "line 1", "line 0"], "loud": []}
    for name in ("quiet", "late"):
        assert (min(lives[name]) - 1, max(lives[name])) in searched


def _range(text: str) -> tuple[int, int]:
    after, until = re.findall(r"seq (?:>|<=) (\d+)", text)
    return int(after), int(until)
