"""The verbs that look at what has been: what they print, what they refuse, and that the run stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from orchestrator import Orchestrator
from orchestrator.history import state_at, state_hash
from orchestrator.history.rejudging import Look
from tests.orchestrator.buying import Buying, run
from tests.orchestrator.commanding import Command, Ended

HERE = "tests.orchestrator.cli.test_cli_history"


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """Give a working directory with a store of five steps and its log."""
    folder = tmp_path_factory.mktemp("history")

    async def main() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "steps.jsonl", handle_signals=False) as orchestrator:
            orchestrator.start(Buying(5), name="buying")

    trio.run(main)
    with Command(folder) as given:
        yield given


@pytest.fixture(scope="module")
def done(command: Command) -> dict[str, Ended]:
    """Give what each line came to. One process for all of them."""
    lines = [
        "state buying 2",
        "state buying 2 --hash",
        "state buying 2 --json",
        "state buying 9",
        "state selling 1",
        "diff buying 1 3",
        "diff buying 3 1 --json",
        "diff buying 2 2",
        "replay --speed max",
        "replay steps.jsonl --speed max --json",
        "replay --speed max --kind step --after 3 --until 5",
        "replay --speed max --harness other",
        "replay --speed 0",
        "replay --speed max missing.jsonl",
        f"rejudge buying {HERE}:cheap",
        f"rejudge buying {HERE}:cheap --all --json",
        f"rejudge buying {HERE}:broken --until 1",
        f"rejudge buying {HERE}:running",
        f"rejudge buying {HERE}:nothing",
        f"rejudge buying {HERE}:number",
        "rejudge buying actions",
        "rejudge buying guardrails",
        "rejudge buying evidence --needed much",
    ]
    return dict(zip(lines, command.each(*(line.split() for line in lines)), strict=True))


def cheap(look: Look) -> bool:
    return bool(look.after["cash"] > 94)


def broken(look: Look) -> object:
    raise ValueError("no")


def running(look: Look) -> object:
    import os

    return os.system("true")


number = 7


def test_the_state_is_shown_with_its_hash(command: Command, done: dict[str, Ended]) -> None:
    state = {"cash": 97, "fills": [1, 2]}
    hash = state_hash(state)

    assert json.loads(done["state buying 2"].out) == state
    assert done["state buying 2"].err == f"hash {hash}\n"
    assert done["state buying 2 --hash"].out == f"{hash}\n"
    assert done["state buying 2 --json"].objects == [{"harness": "buying", "step_number": 2, "hash": hash, "state": state}]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("state buying 9", "'buying' has no step 9"),
        ("state selling 1", "no harness 'selling'"),
        ("replay --speed max --harness other", "no harness 'other'"),
        ("replay --speed 0", "expected a number above 0, or max, got '0'"),
        ("replay --speed max missing.jsonl", "missing.jsonl cannot be read"),
        (f"rejudge buying {HERE}:running", "tried to run something"),
        (f"rejudge buying {HERE}:nothing", "has no 'nothing'"),
        (f"rejudge buying {HERE}:number", "expected a function of a step"),
        ("rejudge buying guardrails", "give it with --file"),
        ("rejudge buying evidence --needed much", "expected reported, observed, rerun"),
    ],
)
def test_what_can_not_be_is_a_line_of_usage(line: str, words: str, done: dict[str, Ended]) -> None:
    assert (done[line].code, done[line].out, done[line].err.count("\n")) == (2, "", 1)
    assert words in done[line].err


def test_what_changed_is_shown_as_paths_or_as_data(done: dict[str, Ended]) -> None:
    assert done["diff buying 1 3"].out == "cash: 99 -> 94\nfills[1]: + 2\nfills[2]: + 3\n"
    assert [change["kind"] for change in done["diff buying 3 1 --json"].objects] == ["changed", "removed", "removed"]
    assert (done["diff buying 2 2"].code, done["diff buying 2 2"].out) == (0, "")
    assert "nothing changed" in done["diff buying 2 2"].err


def test_a_replay_prints_the_lines_of_the_log(command: Command, done: dict[str, Ended]) -> None:
    log = (command.folder / "steps.jsonl").read_text()

    assert done["replay --speed max"].out == log
    assert done["replay steps.jsonl --speed max --json"].objects == [json.loads(line) for line in log.splitlines()]
    assert [line["seq"] for line in done["replay --speed max --kind step --after 3 --until 5"].objects] == [4, 5]


def test_steps_are_judged_anew(done: dict[str, Ended]) -> None:
    assert [step["today"] for step in done[f"rejudge buying {HERE}:cheap --all --json"].objects] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert (done[f"rejudge buying {HERE}:cheap"].code, done[f"rejudge buying {HERE}:cheap"].out) == (0, "")
    assert "5 steps judged" in done[f"rejudge buying {HERE}:cheap"].err
    assert done[f"rejudge buying {HERE}:broken --until 1"].code == 1
    assert done[f"rejudge buying {HERE}:broken --until 1"].out == "      1  could not be judged: ValueError: no\n"
    assert done["rejudge buying actions"].code == 0


def test_a_fork_is_made_shown_started_and_proven(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    trio.run(run, path, 5)
    lines = [
        "fork buying 3 --as other",
        "fork buying 2 --as other --json --into other.db",
        "status --json",
        "status",
        "fork buying 3 --as other",
        "fork buying 9 --as third",
        "fork buying 1 --as no/name",
        "fork buying --as third",
        "fork buying 1 --at 1 --as third",
        "fork buying --at 2/ --as third",
        "fork buying --at 0/1 --as third",
        "fork buying --at 2/1 --as third",
        "fork buying --at 2 --as fourth --model local:small",
        "verify --deep",
        "--store other.db verify --deep",
    ]

    with Command(tmp_path) as command:
        made, into, status, shown, taken, missing, bad, *more, deep, deeper = command.each(*(line.split() for line in lines))
        trio.run(lambda: run(path, 6, name="other", times=100))
        (again,) = command.each(["verify", "--deep"])

    assert (made.code, made.err) == (0, "other is made from buying at step 3; start it to continue from there\n")
    assert into.objects == [{"harness": "other", "origin": "buying", "step_number": 2, "seq": 3, "store": "other.db"}]
    (fork,) = [harness for harness in status.objects if harness["harness"] == "other"]
    assert (fork["status"], fork["current_step"], fork["attempt"], fork["owned"]) == ("new", 3, 1, False)
    assert "forked from 'buying' at step 3; start it to continue from there" in shown.out
    assert [one.code for one in (taken, missing, bad, *more, deep, deeper, again)] == [2] * 8 + [0] * 4
    assert "expected STEP or --at, got neither" in more[0].err
    assert "expected STEP or --at, got both" in more[1].err
    assert "expected STEP, or STEP/CALLS, such as 12 or 12/3, got '2/'" in more[2].err
    assert "expected a step from 1 up before the slash, got '0/1'" in more[3].err
    assert "step 2 has 0 model calls: expected at least 1" in more[4].err
    assert state_at(path, "other", 6)["fills"] == [1, 2, 3, 400, 500, 600]


GUARDED = """
[[harness]]
name = "counting"
harness = "tests.orchestrator.governed:Counting"
initial_state = { count = 0 }
guardrails = { max_steps = 8, no_progress = { steps = LEAST, policy = "tell", ignore = ["count"] } }
"""


def test_guardrails_of_a_run_file_are_held_anew(tmp_path: Path) -> None:
    with Command(tmp_path) as command:
        command.write("run.toml", GUARDED.replace("LEAST", "3"))
        command("run", "run.toml")
        command.write("looser.toml", GUARDED.replace("LEAST", "50"))
        same, looser, other = command.each(
            ["rejudge", "counting", "guardrails", "--file", "run.toml"],
            ["rejudge", "counting", "guardrails", "--file", "looser.toml", "--json"],
            ["rejudge", "else", "guardrails", "--file", "run.toml"],
        )

    assert (same.code, same.out) == (0, "")
    assert "8 steps judged by guardrails: 0 differ" in same.err
    assert looser.code == 1
    assert {step["stored"][0]["limit_name"] for step in looser.objects} == {"no_progress"}
    assert (other.code, "has no harness 'else'" in other.err) == (2, True)
