"""What a turn of a model agent costs: beside the vendor's bare client, and for many streams at the same time.

The model server is a process of its own; what is measured is this one.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import trio

from harnesses import BaseHarness
from harnesses.agents import ModelAgent
from orchestrator import Orchestrator, SqliteStore
from tests.benchmarks.measures import Figures
from tests.model_server import ModelServer

MODEL = "openai-chat:gpt-4o"


class Asking(BaseHarness[int, str, str]):
    """Asks a model once."""

    def __init__(self, url: str, tools: list[Callable[..., Any]], question: str, rounds: int = 4) -> None:
        super().__init__(0)
        self._question = question
        self._agent = ModelAgent(MODEL, base_url=url, tools=tools, max_rounds=rounds)

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield self._question, await self.run_agent(self._agent, self._question)


def note(line: str) -> str:
    """Write a line to the notes."""
    return f"{line} is written"


def model_rounds(folder: Path, rounds: int = 40, times: int = 5) -> Figures:
    """Processor time of a round of a turn, one tool call in each, beside a loop of one's own on OpenAI's client.

    Both are measured at few and at many rounds, so that what a turn costs once is not counted.
    """
    few, pairs, commits = 5, list[tuple[float, float]](), 0
    with ModelServer() as server:
        for count in (few, rounds):
            _script(server, count)
            trio.run(_bare, server.openai_url, count)
            trio.run(_ours, server.openai_url, folder / f"warm-{count}.db", count)
        for number in range(times):
            costs: dict[str, list[float]] = {"bare": [], "ours": []}
            for count in (few, rounds):
                _script(server, count)
                costs["bare"].append(_processor_s(partial(trio.run, _bare, server.openai_url, count)))
                path = folder / f"{number}-{count}.db"
                costs["ours"].append(_processor_s(partial(trio.run, _ours, server.openai_url, path, count)))
            bare, ours = ((many - less) / (rounds - few) * 1e3 for less, many in costs.values())
            pairs.append((bare, ours))
        commits = _commits(server, folder, few, rounds)
    return {
        "rounds": rounds,
        "bare_ms_a_round": round(median(bare for bare, _ in pairs), 2),
        "ours_ms_a_round": round(median(ours for _, ours in pairs), 2),
        "added_ms_a_round": round(median(ours - bare for bare, ours in pairs), 2),
        "added_ms": [round(ours - bare, 2) for bare, ours in pairs],
        "commits_a_round": commits,
    }


def model_streams(folder: Path, streams: int = 200, times: int = 3) -> Figures:
    """Wall time and memory of so many harnesses that stream an answer at the same time, beside those of one."""
    with ModelServer() as server:
        # 4,000 characters in 200 parts of 20, one each 25 ms: 5 s an answer, as a model writes it.
        server.reply({}, {"content": "Twenty characters. " * 200 + "."}, chunkSize=20, latency=25)
        one, many, processor = list[float](), list[float](), list[float]()
        trio.run(_stream_all, server.openai_url, folder / "warm.db", 1)
        before = _resident_bytes()
        for number in range(times):
            one.append(_wall_s(partial(trio.run, _stream_all, server.openai_url, folder / f"one-{number}.db", 1)))
            peak: list[int] = []
            run = partial(trio.run, _stream_all, server.openai_url, folder / f"many-{number}.db", streams, peak)
            used = time.process_time()
            many.append(_wall_s(run))
            processor.append(time.process_time() - used)
            if not number:
                bytes_each = (max(peak) - before) / streams
    return {
        "streams": streams,
        "one_s": round(median(one), 2),
        "all_s": round(median(many), 2),
        "ratio": round(median(many) / median(one), 2),
        "processor_s": round(median(processor), 2),
        "kb_a_stream": round(bytes_each / 1e3),
    }


def _script(server: ModelServer, rounds: int) -> None:
    server.reset()
    for number in range(rounds):
        call = {"id": f"call_{number}", "name": "note", "arguments": {"line": f"line {number}"}}
        server.reply({"turnIndex": number}, {"toolCalls": [call]})
    server.reply({"turnIndex": rounds}, {"content": "All noted."})


async def _bare(url: str, rounds: int) -> None:
    from openai import AsyncOpenAI

    function = {
        "name": "note",
        "description": "Write a line to the notes.",
        "parameters": {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]},
    }
    messages: list[Any] = [{"role": "user", "content": "Begin."}]
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        for _ in range(rounds + 1):
            text, calls = "", dict[int, dict[str, str]]()
            stream = await client.chat.completions.create(
                model="gpt-4o", messages=messages, tools=[{"type": "function", "function": function}], stream=True
            )
            async for chunk in stream:
                delta = chunk.choices[0].delta
                text += delta.content or ""
                for part in delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] += part.id or ""
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
            asked = [{"id": one["id"], "type": "function", "function": _less(one, "id")} for one in calls.values()]
            messages.append({"role": "assistant", "content": text or None, **({"tool_calls": asked} if asked else {})})
            for one in calls.values():
                result = note(**json.loads(one["arguments"]))
                messages.append({"role": "tool", "tool_call_id": one["id"], "content": result})
    assert messages[-1]["content"] == "All noted."


def _less(one: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in one.items() if key != name}


async def _ours(url: str, path: Path, rounds: int) -> None:
    store = SqliteStore(path)
    async with Orchestrator(store) as orchestrator:
        outcome = await orchestrator.start(Asking(url, [note], "Begin.", rounds + 1), name="asking").wait()
    store.close()
    assert outcome.ok, outcome


def _commits(server: ModelServer, folder: Path, few: int, rounds: int) -> float:
    """Return the commits of a round."""
    counts: list[int] = []

    class Counting(SqliteStore):
        def commit(self, *args: Any, **options: Any) -> Any:
            counts[-1] += 1
            return super().commit(*args, **options)

    async def run(count: int) -> None:
        counts.append(0)
        store = Counting(folder / f"commits-{count}.db")
        async with Orchestrator(store) as orchestrator:
            await orchestrator.start(Asking(server.openai_url, [note], "Begin.", count + 1), name="asking").wait()
        store.close()

    for count in (few, rounds):
        _script(server, count)
        trio.run(run, count)
    return round((counts[1] - counts[0]) / (rounds - few), 2)


async def _stream_all(url: str, path: Path, streams: int, peak: list[int] | None = None) -> None:
    store = SqliteStore(path)
    async with Orchestrator(store) as orchestrator:
        handles = [orchestrator.start(Asking(url, [], f"Question {n}?"), name=f"h{n}") for n in range(streams)]
        while peak is not None and not all(handle.outcome for handle in handles):
            peak.append(_resident_bytes())
            await trio.sleep(0.5)
        outcomes = [await handle.wait() for handle in handles]
    store.close()
    assert all(outcome.ok for outcome in outcomes)


def _processor_s(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def _wall_s(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
