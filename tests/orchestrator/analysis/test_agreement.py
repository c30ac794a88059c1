"""G13: a run says the same from its store, its log and what is exported of it, whatever was recorded."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from harnesses import Agent
from harnesses.agent import AgentRun
from harnesses.errors import Refused, Unstorable
from orchestrator import Backoff, HarnessFailed, Orchestrator
from orchestrator.log import HEADER
from tests.orchestrator.analysis.three_ways import exported, frames, opened, rows, types
from tests.orchestrator.commanded import HOSTILE
from tests.orchestrator.scripted import Scripted, Steps
from tests.secrets.leaks import GITHUB, WORD

TEXTS = st.sampled_from(
    [
        HOSTILE,
        "",
        "null",
        "\0",
        "\x7f\x9f\u202e",
        "🙂",
        "'\"\\",
        "}\n{",
        '"seq":1',
        f"token {GITHUB}",
        f"password={WORD}",
        "\u0130",
    ]
) | st.text(max_size=8)
NAMES = st.sampled_from([*HEADER, "seq_", "step__", "price", "a.b", "Price", "password", "cause", "key", "took_us", "from"])
NUMBERS = (
    st.sampled_from(
        [0, -1, 2**53 + 1, 2**63, 2**64 - 1, 10**30, -(10**25), 0.1, 1e22, 1e-7, -0.0, 1.5, float("nan"), float("inf")]
    )
    | st.integers(-(2**70), 2**70)
    | st.floats()
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES | TEXTS, VALUES, max_size=4)
ACTS = st.lists(
    st.tuples(st.just("step"), VALUES, VALUES)
    | st.tuples(st.just("fine"), TEXTS, VALUES)
    | st.tuples(st.just("refused"), TEXTS, VALUES)
    | st.tuples(st.just("doubtful"), st.just("d"), VALUES)
    | st.tuples(st.just("message"), TEXTS, VALUES)
    | st.tuples(st.sampled_from(["evidence", "task", "guardrail"]), TEXTS, OBJECTS)
    | st.tuples(st.just("output"), TEXTS, VALUES)
    | st.tuples(st.just("crash"), TEXTS, VALUES),
    max_size=6,
)
DEEP: Any = 1
for _ in range(100):
    DEEP = {"a": [DEEP]}


@given(st.lists(ACTS, max_size=3), st.booleans())
@example([[("step", {"order": DEEP}, 2**64 - 1), ("crash", "x", 1)]], False)
@example([[("evidence", "", {name: name for name in HEADER} | {"seq_": 1, "run__": 2})]], True)
@example([[("message", "", {"password": WORD}), ("doubtful", "d", f"token {GITHUB}"), ("step", GITHUB, None)]], False)
@example([], True)
@settings(max_examples=3, phases=[Phase.explicit, Phase.generate])  # it takes minutes to make an example smaller
def test_a_run_says_the_same_from_all_three(scripts, redact) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        trio.run(record, folder, scripts, redact, clock=MockClock(autojump_threshold=0))
        with opened(folder / "run.db", folder / "log.jsonl", exported(folder / "run.db")) as (store, log, parquet):
            assert types(log) == types(parquet) == types(store)
            told = frames(store)
            for frame, found in told.items():
                assert rows(log, frame) == found, frame
                assert rows(parquet, frame) == found, frame
            assert log.bad_lines == ()
            assert_no_secret(told)
    finally:
        shutil.rmtree(folder)


def test_an_eventful_run_says_the_same_from_all_three(asked: Path) -> None:
    with opened(asked / "run.db", asked / "steps.jsonl", exported(asked / "run.db")) as (store, log, parquet):
        for frame, found in frames(store).items():
            assert rows(log, frame) == found, frame
            assert rows(parquet, frame) == found, frame
        assert {outcome for (outcome,) in store.rows("SELECT outcome FROM effects")} >= {"confirmed", "refused", "unknown"}
        assert store.rows("SELECT count(*) FROM approvals") > [(0,)]


def assert_no_secret(told: dict[str, list[tuple[Any, ...]]]) -> None:
    text = str(told)
    assert GITHUB not in text
    assert WORD not in text


async def record(folder: Path, scripts: list[list[tuple[str, Any, Any]]], redact: bool) -> None:
    """Have each script acted out by a harness of its own, in a store with a log."""
    again = Backoff(base_s=1, factor=1, jitter=0)
    try:
        async with Orchestrator(
            folder / "run.db", log=folder / "log.jsonl", handle_signals=False, backoff=again, redact=redact
        ) as orchestrator:
            for number, acts in enumerate(scripts):
                handle = orchestrator.start(
                    Scripted(lambda harness, acts=acts: acted(harness, acts), {}), name=f"acting-{number}"
                )
                for act, _, value in acts:
                    if act == "message":
                        with suppress(Unstorable):
                            handle.send(value)
    except* HarnessFailed:
        # It is on record: a number that JSON does not have, or an effect of unknown outcome.
        pass


async def acted(harness: Scripted, acts: list[tuple[str, Any, Any]]) -> Steps:
    """Do one thing after another; each ends with a step, and what failed is not tried again."""
    while harness.current_step < len(acts):
        act, text, value = acts[harness.current_step]
        if act in ("evidence", "task", "guardrail"):
            harness.attach(act, value)
        elif act == "output":
            await harness.run_agent(Agent(saying), text)
        elif act == "message":
            with trio.move_on_after(1):
                value = await harness.receive()
        elif act == "crash" and len(harness.ran) < 2:
            harness.ran.append(text)
            raise ValueError(text)
        elif act in ("fine", "refused", "doubtful"):
            await effect(harness, act, text, value)
        harness.update_state(lambda state, text=text, value=value: {**state, text: value}, summary=text)
        yield (text, value) if act == "step" else act, value


async def saying(run: AgentRun[Any, Any]) -> None:
    run.log(run.input)


async def effect(harness: Scripted, act: str, key: str, value: Any) -> None:
    async def fine(given: Any) -> Any:
        return given

    async def refused(given: Any) -> Any:
        raise Refused(f"no: {given!r:.20}")

    async def doubtful(given: Any) -> Any:
        raise ConnectionError("lost")

    with suppress(Refused):
        await harness.once(key or "none", {"fine": fine, "refused": refused, "doubtful": doubtful}[act], value)
