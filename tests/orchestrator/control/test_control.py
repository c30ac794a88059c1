"""The control API of a program: orders that hold, answers that are true, and a socket that nobody else can open."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from harnesses.diagnostics.extras import install_command
from orchestrator import Orchestrator, SqliteStore, StoreBusy, UsageError
from orchestrator.cli.operate.live_verbs import _describe  # pyright: ignore[reportPrivateUsage]
from orchestrator.control.control_client import ask_all, order, question
from orchestrator.control.run_services import Address, address_of
from orchestrator.control.socket_places import is_ours, open_socket, socket_path, sockets
from orchestrator.status_lines import json_status
from orchestrator.store.run_orders import OrderNotTaken
from orchestrator.telemetry.metric_export import text_of
from orchestrator.telemetry.metric_figures import Family
from tests.orchestrator.control.asked import Said, ask, connected, controlled, read_all
from tests.orchestrator.scripted import Scripted, Steps
from tests.orchestrator.web.asking import asking


async def quick(harness: Scripted) -> Steps:
    """Make a step every millisecond, for ever."""
    while True:
        yield harness.current_step, None
        await harness.sleep(0.001)


async def busy(harness: Scripted) -> Steps:
    """Make steps, for ever."""
    while True:
        yield harness.current_step, None


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


async def test_orders_take_effect_and_to_repeat_them_changes_nothing(store: Path) -> None:
    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(quick), name="a")
        path = orchestrator.beside.control_path
        await ask(path, "POST", "/harnesses/a/resume")
        paused = [await ask(path, "POST", "/harnesses/a/pause") for _ in range(2)]
        held = handle.status
        resumed = [await ask(path, "POST", "/harnesses/a/resume") for _ in range(2)]
        stopped = [await ask(path, "POST", "/harnesses/a/stop?grace_s=3") for _ in range(2)]
        ended = await ask(path, "POST", "/harnesses/a/pause")

    assert held == "paused"
    assert {said.status for said in (*paused, *resumed, *stopped)} == {200}
    assert [said.fields["status"] for said in (*paused, *resumed, *stopped)] == ["paused"] * 2 + ["running"] * 2 + [
        "stopped"
    ] * 2
    assert (ended.status, "has ended (stopped)" in ended.fields["error"]) == (409, True)


@pytest.mark.parametrize(
    ("method", "target", "status", "word"),
    [
        ("POST", "/harnesses/nobody/pause", 404, "expected one of a"),
        ("POST", "/harnesses/..%2F..%2Fetc/pause", 400, "expected letters, digits"),
        ("POST", "/harnesses/%1b%5b31m/pause", 400, "expected letters, digits"),
        ("POST", "/harnesses/a/kill", 404, "does not exist"),
        ("GET", "/harnesses/a/stop", 405, "expected POST"),
        ("DELETE", "/status", 405, "expected GET"),
        ("POST", "/harnesses/a/stop?grace_s=nan", 400, "expected a number of seconds"),
        ("POST", "/harnesses/a/stop?grace_s=-1", 400, "expected a number of seconds"),
        ("POST", "/harnesses/a/pause?grace_s=1", 400, "expected one of hard"),
        ("POST", "/harnesses/a/pause?hard=yes", 400, "hard: expected 1 or true, 0 or false, got 'yes'"),
        ("POST", "/harnesses/a/stop?grace=1", 400, "unknown option 'grace': expected one of grace_s; did you mean 'grace_s'?"),
        ("POST", "/harnesses/a/resume?soon=", 400, "unknown option 'soon': expected none; remove it"),
        ("GET", "/status?name=a", 400, "/status: unknown option 'name': expected none"),
        ("GET", "/", 404, "expected /metrics, /status"),
    ],
)
async def test_what_can_not_be_is_a_sentence_and_changes_nothing(
    store: Path, method: str, target: str, status: int, word: str
) -> None:
    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(quick), name="a")
        said = await ask(orchestrator.beside.control_path, method, target)
        untouched = handle.outcome is None and handle.status != "paused"

    assert (said.status, untouched) == (status, True)
    assert word in said.fields["error"]
    assert "\x1b" not in said.fields["error"]


async def test_time_limits_are_set_through_the_control_api_and_that_of_the_page(store: Path) -> None:
    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(quick), name="a")
        await handle.pause()
        path, target = orchestrator.beside.control_path, "/harnesses/a/limits"
        bodies = (
            b'{"limits": {"deadline_s": 90}, "by": "ann"}',
            b"",
            b'{"limits": {"grace_s": 1}, "by": "ann"}',
            b'{"by": 5}',
        )
        said = [await ask(path, "POST", target, body) for body in bodies]
        async with asking(store) as page:
            body = {"limits": {"step_timeout_s": 5}, "by": "bob", "reason": "late"}
            by_page = json.loads((await page.response("POST", "harnesses/a/limits", body=body)).body)
            told = json.loads((await page.response("POST", "harnesses/a/limits", body={})).body)
            history = await page.get("harnesses/a/history")
        handle.stop()

    assert [one.status for one in said] == [200, 200, 400, 400]
    assert [said[0].fields["changed"], said[1].fields["changed"], by_page["changed"]] == [True, False, True]
    assert by_page["limits"] == told["limits"] == {"step_timeout_s": 5.0, "deadline_s": 90.0, "period_s": None}
    assert (history[0]["kind"], history[0]["by"], history[0]["reason"]) == ("limits_set", "bob", "late")


async def test_several_harnesses_get_an_order_at_once_and_each_its_own_answer(store: Path) -> None:
    async with controlled(store) as orchestrator:
        handles = [orchestrator.start(Scripted(quick), name=name) for name in ("a", "b")]
        with trio.fail_after(60):
            while not all(handle.current_step for handle in handles):  # both are on record  # noqa: ASYNC110
                await trio.sleep(0.01)
        async with asking(store) as page:
            body = {"order": "pause", "harnesses": ["a", "nobody", "b"], "hard": True}
            found = json.loads((await page.response("POST", "orders", body=body)).body)
            refused = [
                json.loads((await page.response("POST", "orders", body=wrong)).body)["error"]
                for wrong in (
                    {"order": "pauze", "harnesses": ["a"]},
                    {"order": "stop", "harnesses": []},
                    {"order": "stop", "harnesses": ["a"], "hard": True},
                )
            ]
        paused = [handle.status.value for handle in orchestrator.handles]
        for handle in handles:
            handle.stop()

    assert (found["failed"], [one["harness"] for one in found["answers"]]) == (1, ["a", "nobody", "b"])
    assert [one.get("status") for one in found["answers"]] == ["paused", None, "paused"] == [paused[0], None, paused[1]]
    assert "no harness 'nobody'" in found["answers"][1]["error"]
    for said, expected in zip(
        refused, ("did you mean 'pause'?", "expected a list of 1 to 40", "hard: expected only"), strict=True
    ):
        assert expected in said


async def test_an_order_that_takes_its_time_is_answered_before_it_is_done(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.control.control_api._WAIT_S", 0.01)
    answered = trio.Event()

    async def deaf(harness: Scripted) -> Steps:
        yield 1, None
        with trio.CancelScope(shield=True):
            await answered.wait()
        yield 2, None

    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(deaf), name="a")
        async for _ in handle.steps():
            break
        said = await ask(orchestrator.beside.control_path, "POST", "/harnesses/a/stop?grace_s=5")
        again = await ask(orchestrator.beside.control_path, "POST", "/harnesses/a/stop")
        answered.set()

    assert (said.status, said.fields["done"]) == (202, False)
    assert [said.fields["changed"], again.fields["changed"]] == [True, False]
    assert _describe("stop", again.fields).startswith("a is already stopping, and is still running at step ")


async def test_the_status_is_that_of_the_command(store: Path) -> None:
    async with controlled(store) as orchestrator:
        for name in ("a", "b"):
            await orchestrator.start(Scripted(quick, until=2), name=name).wait()
        said = await ask(orchestrator.beside.control_path, "GET", "/status")
        assert isinstance(orchestrator.store, SqliteStore)
        expected = "".join(f"{line}\n" for line in json_status(orchestrator.store))

    assert said.body.decode() == expected
    assert said.headers["content-type"] == "application/x-ndjson"


async def test_clients_that_are_connected_do_not_put_the_end_off(store: Path) -> None:
    """G7, and a bare cancel."""
    async with AsyncExitStack() as clients:
        async with Orchestrator(store, control=True, metrics=0, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(quick, until=3), name="a")
            path, at = orchestrator.beside.control_path, orchestrator.beside.metrics_address
            assert path is not None
            assert at is not None
            half = [await clients.enter_async_context(connected(path)) for _ in range(40)]
            half.append(await clients.enter_async_context(await trio.open_tcp_stream(at.host, at.port)))
            for stream in half:
                await stream.send_all(b"GET /sta")

        assert sockets(store) == []


async def test_a_cancelled_program_leaves_no_socket(store: Path) -> None:
    with trio.CancelScope() as scope:
        async with Orchestrator(store, control=True, metrics=0, handle_signals=False) as orchestrator:
            orchestrator.start(Scripted(quick), name="a")
            path = orchestrator.beside.control_path
            assert path is not None
            async with connected(path) as stream:
                await stream.send_all(b"GET /metr")
                scope.cancel()
                await trio.sleep_forever()

    assert scope.cancelled_caught
    assert sockets(store) == []


async def test_the_head_of_the_metrics_can_be_asked_for(store: Path) -> None:
    async with controlled(store) as orchestrator:
        said = await ask(orchestrator.beside.control_path, "HEAD", "/metrics")

    assert (said.status, said.body) == (200, b"")


async def test_metrics_alone_are_served_on_the_network(store: Path) -> None:
    async with Orchestrator(store, metrics=0, handle_signals=False) as orchestrator:
        await orchestrator.start(Scripted(quick, until=3), name="a").wait()
        at = orchestrator.beside.metrics_address
        assert at is not None
        answers: list[bytes] = []
        for target in ("/metrics", "/status", "/harnesses/a/stop"):
            async with await trio.open_tcp_stream(at.host, at.port) as stream:
                await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                answers.append(await read_all(stream))

    assert at.host == "127.0.0.1"
    assert b'orchestrator_steps_total{harness="a"} 3.0' in answers[0]
    assert [answer.split()[1] for answer in answers] == [b"200", b"404", b"404"]
    assert not sockets(store)


async def test_an_address_that_is_taken_is_said_and_the_run_goes_on(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (taken,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = taken.socket.getsockname()[1]
    async with taken, Orchestrator(store, metrics=port, handle_signals=False) as orchestrator:
        outcome = await orchestrator.start(Scripted(quick, until=2), name="a").wait()

    assert outcome.ok
    assert f"metrics: cannot listen on 127.0.0.1:{port}: " in capfd.readouterr().err


async def test_without_the_extra_the_run_goes_on_with_a_word(
    store: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.control.control_server.find_spec", lambda name: None)

    async with controlled(store) as orchestrator:
        outcome = await orchestrator.start(Scripted(quick, until=2), name="a").wait()

    assert (outcome.ok, orchestrator.beside.control_path) == (True, None)
    assert install_command("control") in capfd.readouterr().err


async def test_the_numbers_add_up_to_what_is_on_disk_however_late_somebody_asks(store: Path) -> None:
    async with controlled(store) as orchestrator:
        await orchestrator.start(Scripted(busy, until=1100), name="a").wait()
        said = await ask(orchestrator.beside.control_path, "GET", "/metrics")

    families = {family.name: family for family in text_string_to_metric_families(said.body.decode())}
    assert families["orchestrator_steps"].samples[0].value == 1100
    assert families["orchestrator_uncounted_records"].samples[0].value == 0
    counts = {
        one.labels["part"]: one.value for one in families["orchestrator_step_seconds"].samples if one.name.endswith("_count")
    }
    assert (counts["work"], counts["waiting"]) == (1100, 0)


async def test_many_who_ask_at_once_are_answered_once(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def counting(families: Sequence[Family]) -> bytes:
        written.append(1)
        return text_of(families)

    monkeypatch.setattr("orchestrator.control.run_services.text_of", counting)
    async with controlled(store) as orchestrator:
        orchestrator.start(Scripted(quick), name="a")
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(ask, orchestrator.beside.control_path, "GET", "/metrics")

    assert 1 <= len(written) <= 20


def test_the_socket_is_never_open_to_others(store: Path) -> None:
    before = os.umask(0)
    try:
        listening = open_socket(store, "abc")
    finally:
        os.umask(before)

    with listening:
        assert stat.S_IMODE(socket_path(store, "abc").stat().st_mode) == 0o600


def test_a_client_of_this_user_is_heard() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert is_ours(ours)


def test_the_mode_is_that_of_the_socket_before_it_has_a_name(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at between `bind` and `chmod`: only what was set before counts there."""
    seen: list[int] = []
    monkeypatch.setattr(os, "chmod", lambda path, mode: seen.append(stat.S_IMODE(Path(path).stat().st_mode)))
    before = os.umask(0)
    try:
        open_socket(store, "abc").close()
    finally:
        os.umask(before)

    assert seen == [0o600]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", Address("127.0.0.1", 9464)),
        (9464, Address("127.0.0.1", 9464)),
        ("0.0.0.0:1", Address("0.0.0.0", 1)),
        ("[::1]:9464", Address("::1", 9464)),
        ("metrics.internal:80", Address("metrics.internal", 80)),
    ],
)
def test_a_port_alone_is_one_of_this_machine(text: str | int, address: Address) -> None:
    assert address_of(text) == address
    assert str(address_of(str(address))) == str(address)


@pytest.mark.parametrize("wrong", [True, 1.5, b"9464", "", "host", "host:", "::1:80", "a:b", "1:99999"])
def test_what_is_no_address_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT or PORT"):
        Orchestrator(metrics=wrong)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Every thread of the program ends with it: by itself, a moment after it was told to."""
    yield
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("orchestrator")]
    for thread in ours:
        thread.join(20)
    assert not [thread for thread in ours if thread.is_alive()]


async def test_numbers_that_can_not_be_written_are_a_sentence(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(quick, until=20), name="a")
        said = [await ask(orchestrator.beside.control_path, "GET", "/metrics") for _ in range(2)]
        outcome = await handle.wait()

    assert outcome.ok
    assert [one.status for one in said] == [501, 501]
    assert install_command("metrics") in said[0].fields["error"]


async def test_traces_without_the_extra_are_a_word(
    store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    async with Orchestrator(store, traces="http://127.0.0.1:1", handle_signals=False) as orchestrator:
        outcome = await orchestrator.start(Scripted(quick, until=2), name="a").wait()

    assert outcome.ok
    assert install_command("telemetry") in capfd.readouterr().err


async def test_who_tells_the_last_harness_to_stop_hears_that_it_has(store: Path) -> None:
    async with Orchestrator(store, control=True, handle_signals=False) as orchestrator:
        orchestrator.start(Scripted(quick), name="a")
        path = orchestrator.beside.control_path
        said: list[Said] = []

        async def tell() -> None:
            said.append(await ask(path, "POST", "/harnesses/a/stop"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(tell)

    assert [one.fields["status"] for one in said] == ["stopped"]


def test_a_program_of_somebody_else_is_not_asked(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.touch()
    with open_socket(store, "abc"):
        monkeypatch.setattr("orchestrator.control.control_client.user_of", lambda connected: os.geteuid() + 1)

        with pytest.raises(UsageError, match="another user is listening there"):
            order(store, "a", "stop")


@pytest.mark.parametrize("foreign", [True, False])
async def test_a_socket_that_is_foreign_or_does_not_answer_keeps_nobody_from_the_others(
    store: Path, monkeypatch: pytest.MonkeyPatch, *, foreign: bool
) -> None:
    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(quick), name="a")
        with open_socket(store, "000"):
            if foreign:
                monkeypatch.setattr("orchestrator.control.control_client.user_of", _user_by_name)
            reply = await trio.to_thread.run_sync(order, store, "a", "stop")

    assert reply is not None
    assert (reply.status, handle.status) == (200, "stopped")


@pytest.mark.parametrize("has_another", [True, False])
async def test_an_order_that_a_program_does_not_take_is_withdrawn_and_the_program_named(
    store: Path, monkeypatch: pytest.MonkeyPatch, *, has_another: bool
) -> None:
    monkeypatch.setattr("orchestrator.control.control_client.TAKE_S", 0.3)
    async with controlled(store) if has_another else nullcontext():
        with open_socket(store, "000") as hung:
            with pytest.raises(OrderNotTaken, match=r"the program at .*-000 has not taken the request, which is withdrawn"):
                await trio.to_thread.run_sync(question, store, "b", "ask?timeout_s=60", "1", 60.0)
            with hung.accept()[0] as late:
                late.settimeout(5)
                head = b"".join(iter(partial(late.recv, 4096), b""))

    assert b"Expect: 100-continue" in head
    assert head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("has_taken", [False, True])
def test_a_program_that_ends_before_it_takes_an_order_is_gone(store: Path, *, has_taken: bool) -> None:
    def accept() -> None:
        with ending.accept()[0] as connected:
            if has_taken:
                connected.recv(4096)
                connected.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    store.touch()
    with open_socket(store, "000") as ending:
        ending.settimeout(5)
        program = threading.Thread(target=accept)
        program.start()
        with pytest.raises(OrderNotTaken, match="has ended without an answer") if has_taken else nullcontext():
            assert order(store, "b", "stop") is None
        program.join(5)


def _user_by_name(connected: socket.socket) -> int:
    return os.geteuid() + str(connected.getpeername()).endswith("-000")


def test_a_store_that_nobody_runs_has_nobody_to_ask(store: Path) -> None:
    store.touch()
    open_socket(store, "dead").close()

    assert order(store, "a", "stop") is None
    assert list(ask_all(store, "GET", "/status")) == []


async def test_numbers_that_could_not_be_read_once_can_be_read_the_next_time(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controlled(store) as orchestrator:
        handle = orchestrator.start(Scripted(quick, until=50), name="a")
        await anext(handle.steps())
        with monkeypatch.context() as broken:
            broken.setattr(SqliteStore, "outlines", _busy)
            failed = await ask(orchestrator.beside.control_path, "GET", "/metrics")
        after = await ask(orchestrator.beside.control_path, "GET", "/metrics")
        await handle.wait()

    assert (failed.status, after.status) == (501, 200)
    assert "locked for a moment" in failed.fields["error"]


def _busy(*_: object, **__: object) -> None:
    raise StoreBusy("locked for a moment")
