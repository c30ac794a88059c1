"""A secret that a harness or its agent lets slip is in no file that a run leaves, and in nothing that is shown of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import frozen

import orchestrator.recording.row_redaction
from harnesses import Agent, BaseHarness, Refused
from harnesses.data.delta import Delta
from harnesses.effects.approval import Action
from harnesses.redaction.redactor import MARK, LineRedactor
from harnesses.step import StateDelta, Step
from orchestrator import Backoff, Orchestrator
from orchestrator.cli import main
from orchestrator.cli.run.run_file import parse_run_file
from orchestrator.codec import decode, encode_step, without_secrets
from orchestrator.errors import UsageError
from orchestrator.recording.commit_queue import PendingWrite
from orchestrator.recording.row_redaction import MAX_LINE, WITHHELD, Output, redact_result, redact_writes
from orchestrator.runtime.failure_events import failed, sentence
from orchestrator.store import MemoryStore, SqliteReader, SqliteStore
from orchestrator.store.store_protocol import EffectRow, StepRow
from tests.orchestrator.scripted import Scripted, Steps, three
from tests.secrets.drawing import pem
from tests.secrets.leaks import GITHUB, JWT, STRIPE, WORD

KEY, KEY_LINES = pem()
SECRETS = (GITHUB, JWT, STRIPE, WORD, *KEY_LINES)


@frozen
class Said:
    text: str
    password: str = ""


async def _talk(run):
    run.log(f"remote: https://{GITHUB}:x-oauth-basic")
    for line in KEY.splitlines():
        run.log(line)
    return Said(f"Authorization: Bearer {JWT}", WORD)


async def _refuse(argument):
    raise Refused(f"the venue said: bad api key {STRIPE}")


class Leaking(BaseHarness[int, dict, Said]):
    """Lets secrets slip wherever it can, but for its state."""

    failures = 1

    async def execute(self):
        self.log(f"export STRIPE_KEY={STRIPE}")
        self.attach("evidence", {"kind": "test", "status": "PASS", "evidence": f"$ login --password {WORD}\nok, {GITHUB}"})
        if type(self).failures:
            type(self).failures = 0
            raise ValueError(f"could not log in with {{'password': '{WORD}'}} or {GITHUB}")
        self.update_state(lambda number: number + 1, summary=f"! used token {GITHUB}")
        try:
            await self.once("order", _refuse, 1)
        except Refused as refused:
            self.log(str(refused))
        yield {"headers": {"Authorization": f"Bearer {JWT}"}, "key": KEY}, await self.run_agent(Agent(_talk), 1)
        raise OSError(f"postgres://shop:{WORD}@db/shop is gone")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the store and the log of a run that has leaked, and a copy of the store's files while it went on."""

    Leaking.failures = 1
    with pytest.raises(ExceptionGroup):
        trio.run(_run_leaking, tmp_path)
    return tmp_path


async def _run_leaking(folder: Path) -> None:
    async with Orchestrator(folder / "run.db", log=folder / "log.jsonl", intensity=1) as orchestrator:
        handle = orchestrator.start(Leaking(0), name="leaking")
        await handle.wait()
        for name in ("run.db", "run.db-wal"):
            await (trio.Path(folder) / f"during-{name}").write_bytes(await (trio.Path(folder) / name).read_bytes())


def _held(text: str | bytes) -> list[str]:
    raw = text if isinstance(text, bytes) else text.encode()
    return [secret for secret in SECRETS if secret.encode() in raw]


def test_no_file_of_a_run_holds_a_secret_that_was_let_slip(folder: Path) -> None:
    files = {file.name: file.read_bytes() for file in folder.iterdir()}

    assert {"run.db", "log.jsonl", "during-run.db-wal"} <= set(files)
    assert len(files["during-run.db-wal"]) > 10_000
    assert MARK.encode() in files["log.jsonl"]
    assert {name: held for name, content in files.items() if (held := _held(content))} == {}


def test_what_was_let_slip_is_recorded_all_the_same(folder: Path) -> None:
    with closing(SqliteReader(folder / "run.db")) as reader:
        kinds = {record.kind for record in reader.records()}
        steps = reader.steps("leaking")

    assert {"output", "evidence", "failed", "step"} <= kinds
    assert steps[0].input == {"headers": {"Authorization": MARK}, "key": KEY.replace("\n".join(KEY_LINES), MARK)}
    assert steps[0].output == {"text": f"Authorization: Bearer {MARK}", "password": MARK}


@pytest.mark.parametrize("words", [["steps"], ["steps", "--json"], ["export"], ["export", "--format", "csv"], ["status"]])
def test_nothing_that_is_shown_holds_a_secret(folder: Path, words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    verb, *options = words
    name = [] if verb == "status" else ["leaking"]

    code = main([verb, *name, *options, "--store", str(folder / "run.db")])

    shown = "".join(capfd.readouterr())
    assert code in (0, None)
    assert MARK in shown
    assert _held(shown) == []


def test_a_secret_that_has_to_be_stored_is_not_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    class Keeping(BaseHarness[dict, int, int]):
        async def execute(self):
            self.update_state(lambda state: {**state, "password": WORD})
            yield 1, 1

    async def run() -> None:
        async with Orchestrator(tmp_path / "run.db", log=tmp_path / "log.jsonl") as orchestrator:
            orchestrator.start(Keeping({}), name="keeping")

    trio.run(run)
    main(["show", "keeping", "1", "--json", "--store", str(tmp_path / "run.db")])

    shown = capfd.readouterr().out + (tmp_path / "log.jsonl").read_text()
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        assert decode(reader.state_at("keeping", 1)) == {"password": WORD}
    assert WORD not in shown


def test_who_wants_secrets_written_says_so(tmp_path: Path) -> None:
    class Frank(BaseHarness[int, str, str]):
        async def execute(self):
            self.log(f"password={WORD}")
            yield f"password={WORD}", "done"

    async def run() -> None:
        async with Orchestrator(tmp_path / "run.db", log=tmp_path / "log.jsonl", redact=False) as orchestrator:
            orchestrator.start(Frank(0), name="frank")

    trio.run(run)

    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        assert reader.steps("frank")[0].input == f"password={WORD}"
    assert WORD not in (tmp_path / "log.jsonl").read_text()


class Fetching(BaseHarness[int, str, str]):
    """Has the result of an effect, by an agent or by itself, in two attempts."""

    def __init__(self, padding: int, *, by_agent: bool = True) -> None:
        super().__init__(0)
        self.padding, self.by_agent = padding, by_agent
        self.seen: list[str] = []

    async def execute(self):
        agent = Agent(lambda run: run.once("fetch", self.fetch))
        self.seen.append(await (self.run_agent(agent, 0) if self.by_agent else self.once("fetch", self.fetch)))
        if len(self.seen) == 1:
            raise OSError("the next attempt reads what is stored")
        yield "fetched", "done"

    async def fetch(self) -> str:
        return f"password={WORD} " + "word " * self.padding


@pytest.mark.parametrize("padding", [1, 4_000])
async def test_a_result_of_an_agents_effect_is_the_same_now_and_later_and_has_no_secret(tmp_path: Path, padding: int) -> None:
    harness = Fetching(padding)
    async with Orchestrator(tmp_path / "run.db", backoff=Backoff(base_s=0.001, cap_s=0.001)) as running:
        running.start(harness, name="fetching")

    assert harness.seen[0] == harness.seen[1] == f"password={MARK} " + "word " * padding
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        assert reader.effects("fetching")[0].result == harness.seen[0]


@pytest.mark.parametrize(("by_agent", "redact"), [(False, True), (True, False)])
async def test_a_result_is_stored_as_it_is_for_a_harness_and_where_secrets_are_written(
    tmp_path: Path, by_agent: bool, redact: bool
) -> None:
    harness = Fetching(1, by_agent=by_agent)
    async with Orchestrator(tmp_path / "run.db", redact=redact, backoff=Backoff(base_s=0.001, cap_s=0.001)) as running:
        running.start(harness, name="fetching")

    assert harness.seen == [f"password={WORD} word "] * 2


def test_a_result_without_a_secret_is_the_very_text_it_was_and_one_that_cannot_be_searched_is_withheld(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = '{"id":"7b1f0c3e-9a52-4a6f-8f0d-2c61c2b9d1aa","price":1.10,"big":1e400}'
    assert redact_result(plain) is plain

    monkeypatch.setattr(orchestrator.recording.row_redaction, "without_secrets", lambda text, names: 1 / 0)
    assert redact_result('{"a":1}') == f'"{WITHHELD}"'


def test_what_a_step_changed_is_stored_as_it_is() -> None:
    delta: Delta = {"set": {"password": WORD, "big": 2**70, "small": 1e-300}}
    step = Step(1, datetime(2026, 1, 1, tzinfo=UTC), {"password": WORD}, "done", StateDelta(("password",)))

    body = json.loads(without_secrets(encode_step(step, delta), ("input", "output", "summary")))

    assert body["input"] == {"password": MARK}
    assert body["delta"] == delta


def test_a_secret_at_the_edge_of_what_is_kept_of_an_error_goes() -> None:
    for space in range(1900, 2010):
        said = sentence(ValueError("x " * (space // 2) + f"password={WORD}{WORD}"))
        assert WORD not in said


def test_a_traceback_keeps_no_secret_whose_name_was_cut_off() -> None:
    def fail(depth: int) -> None:
        if depth:
            fail(depth - 1)
        raise ValueError("\n".join(f"password: {WORD}{number}" for number in range(900)))

    with pytest.raises(ValueError, match="password") as caught:
        fail(3)

    assert WORD not in failed(caught.value).traceback


def test_a_secret_at_the_edge_of_a_line_of_output_goes() -> None:
    (body,) = _recorded(("x" * (MAX_LINE - 20) + f" token={GITHUB}", "agent"))

    assert GITHUB[:12] not in body
    assert len(json.loads(body)["line"]) <= MAX_LINE


def _recorded(*lines: tuple[str, str]) -> list[str]:
    """Return the bodies that lines of output, each with its source, are recorded as."""
    slots: list[PendingWrite] = []

    def send(body: str, redactor: LineRedactor) -> None:
        slot = PendingWrite()
        slot.effect = EffectRow(1, 1, 1, 1, 0, body, "output")
        slot.redacted, slot.lines = True, redactor
        slots.append(slot)

    output = Output(send)
    for line, source in lines:
        output.write(line, source)
    redact_writes(slots)
    return [slot.effect.body for slot in slots if slot.effect is not None]


def test_a_key_whose_beginning_was_not_recorded_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.recording.row_redaction.MAX_LINES", 1)
    slots: list[tuple[str, LineRedactor]] = []
    output = Output(lambda body, lines: slots.append((body, lines)))
    for line in ("first", *KEY.splitlines()[:2]):
        output.write(line, "agent")
    output.begin_recording()
    output.end_recording()

    output.write(KEY_LINES[1], "agent")

    body, lines = slots[-1]
    assert lines.line(json.loads(body)["line"]) == MARK


@pytest.mark.parametrize("size", [10, 100_000])
async def test_what_is_recorded_is_the_same_whichever_thread_redacts_it(tmp_path: Path, size: int) -> None:
    class Saying(BaseHarness[int, str, dict]):
        async def execute(self):
            self.attach("evidence", {"kind": "test", "status": "PASS", "evidence": f"password={WORD}" + " x" * (size // 4)})
            yield f"{GITHUB} " + "word " * (size // 5), {"password": WORD}

    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        for number in range(2):
            orchestrator.start(Saying(0), name=f"h{number}")
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Saying(0), name="h0")
        await handle.wait()
        inline = orchestrator.store.step_rows("h0")

    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        steps = [reader.steps(f"h{number}")[0] for number in range(2)]
    assert steps[0].input == steps[1].input == json.loads(inline[0].body)["input"] == f"{MARK} " + "word " * (size // 5)
    assert {step.output["password"] for step in steps} == {MARK}


async def test_a_large_row_is_redacted_beside_the_loop_and_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[tuple[int, str]] = []
    redact = orchestrator.recording.row_redaction.without_secrets

    def noted(text: str, names: Sequence[str] = (), *, is_suspect: bool = False) -> str:
        threads.append((len(text), threading.current_thread().name))
        return redact(text, names, is_suspect=is_suspect)

    monkeypatch.setattr(orchestrator.recording.row_redaction, "without_secrets", noted)

    class Large(BaseHarness[int, str, str]):
        async def execute(self):
            for number in range(12):
                yield f"password={WORD}", "word " * (20_000 if number % 2 else 2)

    async with Orchestrator(tmp_path / "run.db") as running:
        running.start(Large(0), name="large")

    assert {size > 8_000 for size, _ in threads} == {True, False}
    assert all("redact_writes" in name for size, name in threads if size > 8_000)


def test_a_record_without_secrets_is_the_very_text_it_was() -> None:
    body = json.dumps({"line": "the key point: 12 tests passed, token count 1200"})

    assert without_secrets(body) is body


RUN_FILE = 'redact = {}\n[[harness]]\nname = "one"\nharness = "work:Make"\n'


def test_a_run_file_says_whether_secrets_are_written() -> None:
    read = parse_run_file(RUN_FILE.format("false"), Path("run.toml"))

    assert read.options == {"redact": False}


@pytest.mark.parametrize("word", ['"false"', "0", "[]"])
def test_only_true_and_false_say_so(word: str) -> None:
    with pytest.raises(UsageError, match="redact"):
        parse_run_file(RUN_FILE.format(word), Path("run.toml"))
    with pytest.raises(UsageError, match="redact"):
        Orchestrator(redact=json.loads(word))


def test_who_writes_a_line_is_named_without_a_secret() -> None:
    bodies = _recorded(("hello", f"agent \x1b[32m{GITHUB}"))

    assert [json.loads(body) for body in bodies] == [{"line": "hello", "source": f"agent \x1b[32m{MARK}"}]


class Asking(BaseHarness[int, int, int]):
    """Asks a person whether it may."""

    async def execute(self):
        await self.approval("gate", Action("gate", "deploy", {"to": "shop"}))
        yield 1, 1


async def test_what_people_say_to_an_approval_is_stored_without_secrets_and_the_same_may_be_said_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        orchestrator.start(Asking(0), name="asking")
        while not orchestrator.store.approvals():  # noqa: ASYNC110 - a store rings for nobody
            await trio.sleep(0.01)
        id = orchestrator.store.approvals()[0].id
        said = [await orchestrator.approve(id, by=f"ann {GITHUB}", reason=f"see {STRIPE}") for _ in range(2)]

    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        bodies = [record.body for record in reader.records() if record.kind == "approval_answered"]
    assert said == [True, False]
    assert (len(bodies), bodies[0].count(MARK), _held(bodies[0])) == (1, 2, [])


@pytest.mark.parametrize("store", [MemoryStore, partial(SqliteStore, "run.db")])
async def test_a_secret_deep_within_an_output_goes_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    monkeypatch.chdir(tmp_path)
    deep: list[Any] = ["password=hunter2-and-more"]
    for _ in range(250):
        deep = [deep]

    async def nested(harness: Scripted) -> Steps:
        yield "first", deep
        yield "second", "in the clear"

    with closing(store()) as opened:
        async with Orchestrator(opened) as orchestrator:
            for name, script in (("nested", nested), ("sibling", three)):
                orchestrator.start(Scripted(script), name=name, restart="temporary")
        outputs = [step.output for step in opened.steps("nested")]
        assert "hunter2" not in str(outputs)
        assert len(outputs) == 2
        assert outputs[1] == "in the clear"
        assert len(opened.steps("sibling")) == 3


def test_a_row_whose_search_fails_is_recorded_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise RecursionError

    monkeypatch.setattr(orchestrator.recording.row_redaction, "without_secrets", fail)
    monkeypatch.setattr(orchestrator.recording.row_redaction, "suspects", fail)
    slot = PendingWrite()
    slot.row, slot.redacted = StepRow(1, 1, 1, 1, 1, '{"input":"a secret","output":2,"delta":{"set":{"a":1}}}'), True

    redact_writes([slot])

    assert decode(slot.row.body) == {"input": WITHHELD, "output": WITHHELD, "delta": {"set": {"a": 1}}}
