"""A run that has a record of every kind that `run.jsonl` has none of: what the page about the log shows of them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import trio
from attrs import frozen

from examples.counting import Count, Counting
from harnesses import BaseHarness, Budget, NotReady, migrates
from harnesses.agents.model.transcript import as_record
from harnesses.governor import Finding
from orchestrator import Orchestrator
from orchestrator.cli import main as command
from orchestrator.history import fork
from orchestrator.operating.order_records import record_order
from orchestrator.records import RELOADED
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.pruning.prune_store import Rule, prune
from orchestrator.store.sqlite.store_repair import repair
from tests.docs.clock import HOST
from tests.docs.log_page import RUN, SAMPLES
from tests.docs.small_store import TURN
from tests.orchestrator.scripted import Scripted, Steps, poll
from tests.orchestrator.store import test_repair

_RUN = "4f2a90c1d7e3"


@frozen
class Old:
    total: int = 0


@frozen
class New:
    schema_version: ClassVar[int] = 2
    sum: int = 0

    @migrates(from_version=1)
    @staticmethod
    def rename(stored: dict[str, Any]) -> dict[str, Any]:
        return {"sum": stored["total"]}


class Adding(BaseHarness[Any, int, int]):
    """Makes one step each time that it is started."""

    async def execute(self) -> Steps:
        yield 1, 1


class First(Adding, BaseHarness[Old, int, int]):
    pass


class Second(Adding, BaseHarness[New, int, int]):
    pass


async def crash(harness: Scripted) -> Steps:
    raise ValueError("the feed ended")
    yield


async def unready(harness: Scripted) -> Steps:
    raise NotReady("program 'gh' was not found: expected it on PATH; install it")
    yield


async def spend(harness: Scripted) -> Steps:
    async with harness.spending(tokens=500):
        pass
    yield 1, 1
    async with harness.spending(tokens=700):
        pass


async def busy(harness: Scripted) -> Steps:
    time.sleep(1.3)  # noqa: ASYNC251 - it is to be seen
    yield 1, 1


async def work(harness: Scripted) -> Steps:
    harness.attach("task", {"task": "004", "attempt": 1, "event": "claimed"})
    reason = "the last 5 steps repeat the one before"
    finding = Finding(limit_name="no_progress", current_value="5", limit_value="5", reason=reason, policy="tell")
    harness.attach("guardrail", finding)
    harness.attach("transcript", as_record(TURN))
    harness.start_child(Counting, Count(), name="work.count")
    yield 1, 1
    request = await harness.receive()
    await harness.reply(request, {"ready": True})
    yield request.message, "replied"


async def _run(path: Path) -> None:
    with suppress(ExceptionGroup):
        async with Orchestrator(path, intensity=0, handle_signals=False) as orchestrator:
            polling = orchestrator.start(Scripted(poll), name="poll")
            await trio.sleep(0.2)
            await polling.pause()
            await polling.resume()
            await polling.set_time_limits({"step_timeout_s": 30}, by="ann", reason="the venue is slow today")
            for name, script in (("crash", crash), ("unready", unready), ("busy", busy)):
                orchestrator.start(Scripted(script), name=name)
            orchestrator.start(Scripted(spend), name="spend", budget=Budget(tokens=1000))
            orchestrator.start(First(Old()), name="adding")
            desk = orchestrator.supervisor("desk", strategy="one_for_all", intensity=3)
            orchestrator.start(Scripted(poll, until=1), name="supervised", supervisor=desk)
            working = orchestrator.start(Scripted(work), name="work")
            await trio.sleep(1.6)
            await working.ask({"ready?": 1}, timeout_s=5)
            await trio.sleep(0.3)
            said = "harness eurusd has changed: `orchestrator restart eurusd` applies it"
            reloaded = {"run_file": "/etc/harnesses/run.toml", "added": ["harness gbpusd"], "not_applied": [said], "error": ""}
            await orchestrator.remark(RELOADED, reloaded)
            await polling.stop()
    async with Orchestrator(path, handle_signals=False) as orchestrator:
        orchestrator.start(Second(New()), name="adding")


def _lines(store: Path) -> list[dict[str, Any]]:
    log = store.with_suffix(".lines")
    command(["export", "--what", "records", "--store", str(store), "--output", str(log), "--format", "jsonl"])
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def record(target: Path = SAMPLES) -> None:
    """Write the shortest line of each kind that the run of the pages has none of."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.db"
        trio.run(_run, store)
        command(
            ["kill-switch", "on", "--harness", "poll", "--reason", "the venue reports wrong prices", "--store", str(store)]
        )
        record_order(str(store), "poll", "pause", by="mcp")
        fork(store, "poll", 1, to="poll-again")
        prune(store, Rule(keep=1, context=0), by="ann")
        broken = Path(folder) / "broken.db"
        broken.write_bytes(gzip.decompress(test_repair.BROKEN.read_bytes()))
        shutil.copy(test_repair.BROKEN.with_name("pruned-twice-head.json"), head_path(broken))
        repair(broken, by="ann")
        found = sorted([*_lines(store), *_lines(broken)], key=lambda line: len(json.dumps(line)))
    known = {json.loads(line)["event"] for line in RUN.read_text(encoding="utf-8").splitlines()}
    shortest: dict[str, dict[str, Any]] = {}
    for line in found:
        if line["event"] in known:
            continue
        shortest.setdefault(line["event"], {**line, "run": _RUN if line["run"] else "", "host": HOST})
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in shortest.values())
    target.write_text(re.sub(re.escape(str(Path.cwd())) + "/", "", text), encoding="utf-8")
