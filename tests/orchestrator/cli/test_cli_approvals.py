"""`approvals`, `approve` and `deny`: what waits is shown as it was audited, and an answer is for exactly that."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from harnesses.effects.approval import Action
from orchestrator import Orchestrator, OrchestratorError
from orchestrator.cli import main
from tests.orchestrator.scripted import Scripted, Steps

PUSH = Action("publish", "push \x1b[31mmain", {"branch": "main"})


async def gated(harness: Scripted) -> Steps:
    grant = await harness.approval("gate", PUSH)
    yield grant.by, grant.reason


@pytest.fixture
async def asked(tmp_path: Path) -> tuple[str, str]:
    """Return a store in which something waits for an answer, and the id of that."""
    path = tmp_path / "run.db"
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(Scripted(gated), name="one")
        while not orchestrator.store.approvals():  # noqa: ASYNC110 - a store rings for nobody
            await trio.sleep(0.01)
        id = orchestrator.store.approvals()[0].id
        orchestrator.stop()
    return str(path), id


async def resumed(store: str) -> tuple[object, object]:
    async with Orchestrator(store) as orchestrator:
        await orchestrator.start(Scripted(gated), name="one").wait()
        step = orchestrator.store.steps("one")[0]
    return step.input, step.output


def run(capsys: pytest.CaptureFixture[str], store: str, *arguments: str) -> tuple[int, list[dict], str]:
    code = main(["--store", store, "--json", *arguments])
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


async def test_what_waits_is_shown_and_is_exit_code_4(asked, capsys):
    store, id = asked

    code, (shown,), _ = run(capsys, store, "approvals")

    assert (code, shown["id"], shown["standing"], shown["arguments"]) == (4, id, "pending", {"branch": "main"})


async def test_what_an_agent_wrote_is_inert(asked, capsys):
    main(["--store", asked[0], "approvals"])

    assert "\x1b" not in capsys.readouterr().out


async def test_status_says_what_a_harness_waits_for(asked, capsys):
    store, id = asked

    _, (shown,), _ = run(capsys, store, "status")

    assert shown["waiting"] is True
    assert f"orchestrator approve {id}" in shown["cause"]


async def test_an_answer_given_while_the_program_is_away_is_found_by_the_next(asked, capsys):
    store, id = asked

    code, (said,), _ = run(capsys, store, "approve", id, "--by", "ann", "--reason", "fine")

    assert (code, said) == (0, {"id": id, "verdict": "approved", "changed": True})
    assert await resumed(store) == ("ann", "fine")
    assert run(capsys, store, "approvals")[0] == 0
    assert run(capsys, store, "approvals", "--all")[1][0]["standing"] == "used"


async def test_to_say_the_same_again_changes_nothing(asked, capsys):
    store, id = asked

    changed = [run(capsys, store, "deny", id, "--by", "ann")[1][0]["changed"] for _ in range(2)]

    assert changed == [True, False]


async def test_an_approval_after_a_denial_is_refused(asked, capsys):
    store, id = asked
    run(capsys, store, "deny", id, "--by", "ann")

    code, _, said = run(capsys, store, "approve", id, "--by", "bob")

    assert code == 2
    assert "denied by 'ann'" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["approve", "nothing"], "no approval 'nothing'"),
        (["approve", "ID", "--by", " "], "--by: expected who answers"),
        (["approvals", "nobody"], "no harness 'nobody'"),
    ],
)
async def test_a_mistake_is_told_in_a_line(asked, capsys, arguments, says):
    store, id = asked

    code, _, said = run(capsys, store, *[id if word == "ID" else word for word in arguments])

    assert (code, said.count("\n")) == (2, 1)
    assert says in said


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET body = replace(body, '\"main\"', '\"prod\"') WHERE kind = 'approval_requested'",
        "UPDATE records SET body = replace(body, 'publish', 'deploys') WHERE kind = 'approval_requested'",
        "UPDATE records SET step = 7 WHERE kind = 'approval_requested'",
        "UPDATE records SET body = replace(body, 'ann', 'bob') WHERE kind = 'approval_answered'",
        "UPDATE records SET body = replace(body, 'denied', 'approved') WHERE kind = 'approval_answered'",
    ],
)
async def test_a_record_that_was_changed_blocks_and_can_not_be_answered(asked, capsys, change):
    store, id = asked
    run(capsys, store, "deny", id, "--by", "ann")
    with closing(sqlite3.connect(store)) as db, db:
        assert db.execute(change).rowcount == 1

    (shown,) = run(capsys, store, "approvals", "--all")[1]
    code = run(capsys, store, "approve", id, "--by", "eve")[0]

    assert (shown["standing"], code in (2, 5)) == ("invalid", True)


async def test_an_answer_slipped_in_from_outside_approves_nothing(asked, capsys):
    store, _ = asked
    with closing(sqlite3.connect(store)) as db, db:
        db.execute(
            "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) "
            "SELECT harness, 0, 0, step, time_us, json_set(body, '$.verdict', 'approved', '$.by', 'eve'), 'approval_answered' "
            "FROM records WHERE kind = 'approval_requested'"
        )

    with pytest.raises((OrchestratorError, ExceptionGroup)):
        assert (await resumed(store))[0] != "eve"


async def test_an_answer_taken_out_of_the_index_still_counts(asked, capsys):
    store, id = asked
    run(capsys, store, "deny", id, "--by", "ann")
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("DELETE FROM approval_index WHERE seq = (SELECT max(seq) FROM approval_index)")

    assert run(capsys, store, "approve", id, "--by", "eve")[0] in (2, 5)


async def test_without_the_key_nothing_can_be_answered(asked, capsys):
    store, id = asked
    await trio.Path(f"{store}-key").unlink()

    code, _, said = run(capsys, store, "approve", id, "--by", "ann")

    assert (code, "key" in said) == (2, True)


async def test_the_key_is_for_its_user_only(asked):
    found = await trio.Path(f"{asked[0]}-key").stat()

    assert found.st_mode & 0o777 == 0o600
