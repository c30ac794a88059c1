"""What pruning, forks, exports and verification keep of a run whose harnesses ask, answer, send and start children."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from orchestrator import Orchestrator, SqliteStore
from orchestrator.cli.export.export_formats import export_sheet
from orchestrator.codec import decode
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from tests.kill.message_child import Asking, Doubling, Listening
from tests.tampering.proof import judge

STEPS = 60


async def go_on(path: Path, until: int, *others: str) -> None:
    """Run the harnesses up to a step of the one that asks, and until everything that was sent is heard."""
    async with Orchestrator(SqliteStore(path), handle_signals=False) as orchestrator:
        orchestrator.start(Doubling(), name="doubling")
        listening = orchestrator.start(Listening(), name="listening")
        handles = [orchestrator.start(Stopping(until), name=name) for name in others or ("asking",)]
        for handle in handles:
            await handle.wait()
        while listening.current_step < 2 * until:  # noqa: ASYNC110
            await trio.sleep(0.01)
        orchestrator.stop()
    orchestrator.store.close()


class Stopping(Asking):
    """Returns after its last step, and may go on from there."""

    def is_complete(self) -> bool:
        return False

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        if self.current_step < self.last:
            async with aclosing(cast(AsyncGenerator[tuple[int, int], None], super().execute())) as steps:
                async for made in steps:
                    yield made
                    if self.current_step >= self.last:
                        return


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "run.db"
    trio.run(go_on, path, STEPS)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    for source in (made, head_path(made)):
        shutil.copy(source, tmp_path)
    return tmp_path / "run.db"


def states(path: Path) -> dict[str, Any]:
    with closing(SqliteReader(path)) as reader:
        return {known.name: decode(reader.state_at(known.name, known.current_step)) for known in reader.harnesses()}


def findings(path: Path) -> list[object]:
    """Return what both verifiers find, and what contradicts something else."""
    deep = prove(path, head_path(path).read_text("utf-8"), deep=True)
    return [*deep.findings, *judge(path)[1]]


def heard_up_to(number: int) -> list[int]:
    return sorted([*range(-number, 0), *range(2, 2 * number + 1, 2)])


def test_a_pruned_run_goes_on_with_each_message_and_child_once(path: Path) -> None:
    pruned = prune(path, Rule(keep=5, context=0), by="ann")
    trio.run(go_on, path, STEPS + 5)

    kept = states(path)
    with closing(SqliteReader(path)) as reader:
        children = [child.name for child in reader.children()]
        again = {known.name for known in reader.harnesses() if known.name in children and known.attempt > 1}
    assert sum(pruned.steps.values()) > STEPS
    assert kept["doubling"] == list(range(1, STEPS + 6))
    assert sorted(kept["listening"]) == heard_up_to(STEPS + 5)
    assert (children, again) == ([f"telling.{number}" for number in range(1, STEPS + 6)], set())
    assert findings(path) == []


def test_messages_and_children_stay_with_the_origin_of_a_fork(path: Path) -> None:
    fork(path, "asking", STEPS - 10, to="other")
    fork(path, "listening", 2 * STEPS - 20, to="deaf")

    with closing(SqliteReader(path)) as reader:
        assert [*reader.children("other"), *reader.mailbox("deaf"), *reader.replies("other")] == []
        assert len(reader.children("asking")) == STEPS
        assert not any("consumed" in decode(row.body) for row in reader.step_rows("deaf"))
        assert all("consumed" in decode(row.body) for row in reader.step_rows("listening"))
    assert findings(path) == []


def test_a_fork_does_not_take_over_the_children_of_its_origin(path: Path) -> None:
    fork(path, "asking", STEPS - 10, to="other")
    before = states(path)["listening"]

    with pytest.RaisesGroup(pytest.RaisesExc(Exception, match="'asking' has started it"), allow_unwrapped=True):
        trio.run(go_on, path, STEPS, "other")

    with closing(SqliteReader(path)) as reader:
        assert reader.children("other") == ()
    assert states(path)["listening"] == before


def test_an_export_tells_requests_replies_and_messages_apart(path: Path) -> None:
    out = io.StringIO()
    with closing(SqliteReader(path)) as reader:
        export_sheet(reader, "messages", None, "jsonl", None, out)
        recorded = {record.seq: decode(record.body) for record in reader.records(limit=100_000) if record.kind == "message"}

    rows = [json.loads(text) for text in out.getvalue().splitlines()]
    assert Counter(row["kind"] for row in rows) == {"request": STEPS, "reply": STEPS, "plain": 2 * STEPS}
    for row in rows:
        said = recorded[row["seq"]]
        fields = {"kind": said.get("kind", "plain"), **{name: said.get(name) for name in ("id", "type", "deadline_us")}}
        assert {name: row[name] for name in fields} == fields


@pytest.mark.parametrize("kind", ["plain", "request", "reply"])
@pytest.mark.parametrize("change", ["kind = 'odd'", "id = 'asking/1/odd'", "type = 'Odd'", "deadline_us = 7"])
def test_a_message_that_was_changed_in_any_column_is_found(path: Path, kind: str, change: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(f"UPDATE mailbox SET {change} WHERE seq = (SELECT max(seq) FROM mailbox WHERE kind = '{kind}')")

    proof, alone = judge(path)

    assert [one.where for one in proof.findings] == ["mailbox"]
    assert [where.split()[0] for _, _, where in alone] == ["mailbox"]
