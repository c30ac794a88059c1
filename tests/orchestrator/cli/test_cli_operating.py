"""The operator's verbs, run as an operator runs them: effects, the kill switch, messages; on a live run and on a dead one."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses.trading.market_turn import Verb, command_from
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.questions import failures_question as failures
from orchestrator.cli.operate.message_verbs import TRADING
from orchestrator.control.socket_places import sockets
from orchestrator.kill_switch import Latch
from orchestrator.text.command_hints import ways_to_start
from tests.orchestrator.commanding import Command, ended, harnesses, heads, steps_of, surroundings, wait_until
from tests.orchestrator.operated import Ended, Listening, Unsure
from tests.zygote import run_python

TABLE = '[[harness]]\nname = "{name}"\nharness = "tests.orchestrator.operated:{cls}"\ninitial_state = 0\n'
SETTLE = ["effects", "settle", "unsure", "order/1", "--reason", "asked the venue"]


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dead run: one harness is blocked by an effect of unknown outcome, one completed, one stopped."""
    path = tmp_path_factory.mktemp("operated") / "run.db"

    async def record() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(Unsure(0), name="unsure")
            orchestrator.start(Ended(0), name="ended")
            orchestrator.start(Listening(0), name="listening").stop()

    trio.run(record)
    return path


@pytest.fixture
def command(dead: Path, tmp_path: Path) -> Iterator[Command]:
    """The command in a folder that has a copy of the store, and a run file for it."""
    for suffix in ("", "-head"):
        shutil.copy(f"{dead}{suffix}", tmp_path / f"run.db{suffix}")
    with Command(tmp_path) as command:
        run_file(command, "Unsure")
        yield command


def run_file(command: Command, *classes: str) -> None:
    command.write("run.toml", "".join(TABLE.format(name=cls.lower(), cls=cls) for cls in classes))


def fed(command: Command, given: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command with something in its standard input."""
    options: dict[str, Any] = {"input": given, "capture_output": True, "cwd": command.folder, "env": surroundings()}
    done: subprocess.CompletedProcess[bytes] = run_python("-m", "orchestrator", *arguments, **options)
    return done


def records(command: Command, kind: str) -> list[Any]:
    """Return the bodies of all records of a kind."""
    with closing(sqlite3.connect(command.folder / "run.db")) as db:
        return [body for (body,) in db.execute("SELECT body FROM records WHERE kind = ? ORDER BY seq", (kind,))]


def test_effects_of_unknown_outcome_are_shown_and_have_their_own_code(command: Command) -> None:
    table, as_json, every, of_one = command.each(
        ["effects"], ["effects", "--json"], ["effects", "--all", "--json"], ["effects", "listening"]
    )

    head, row = table.out.splitlines()
    assert (table.code, as_json.code, every.code, of_one.code) == (6, 6, 6, 0)
    assert head.split() == ["HARNESS", "STEP", "KEY", "OUTCOME", "ATTEMPT", "TIME", "ARGUMENTS", "REASON"]
    assert row.split()[:5] == ["unsure", "2", "order/1", "unknown", "1"]
    assert "ConnectionError: lost after" in row
    assert "1 of unknown outcome: find out what became of each, and record it with `orchestrator effects settle" in table.err
    assert [(one["key"], one["outcome"]) for one in as_json.objects] == [("order/1", "unknown")]
    assert [one["outcome"] for one in every.objects] == ["confirmed", "refused", "unknown"]
    assert of_one.err == "run.db has no effect of unknown outcome\n"


def test_what_an_effect_holds_is_inert(command: Command) -> None:
    shown = command.each(["effects"], ["effects", "--json"], ["effects", "--all"], ["status"])

    assert all(done.out.replace("\n", "").isprintable() for done in shown)


def test_an_effect_that_is_settled_as_done_gives_the_harness_its_result(command: Command) -> None:
    said, again, none = command.each(
        [*SETTLE, "--as", "done", "--result", "7"], [*SETTLE, "--as", "done", "--result", "7"], ["effects"]
    )
    run = command("run", "run.toml")

    assert (said.code, again.code, none.code, run.code) == (0, 0, 0, 0)
    assert (
        said.err
        == f"effect 'order/1' of 'unsure' is settled as done; its result is 7; to go on: {ways_to_start('run.db', 'unsure')}\n"
    )
    assert again.err == "effect 'order/1' of 'unsure' was settled so already\n"
    assert steps_of(command.folder / "run.db", "unsure")[-1].output == 7
    assert sum('"by":"operator"' in body for body in records(command, "outcome")) == 1


def test_an_effect_that_is_settled_as_not_done_is_done_again(command: Command) -> None:
    said, effects = command.each([*SETTLE, "--as", "not-done", "--json"], ["effects", "--all"])
    run = command("run", "run.toml")

    assert said.objects == [{"harness": "unsure", "key": "order/1", "outcome": "not_done", "changed": True}]
    assert "not_done" in effects.out
    assert effects.out.rstrip().endswith("asked the venue (said by the operator)")
    assert run.code == 6
    assert records(command, "intent")[-1].startswith('{"key":"order/1"')


MISTAKES = {
    "effects nobody": "no harness 'nobody' in run.db: expected one of unsure, ended, listening",
    "effects settle unsure order/1 --as maybe --reason x": "effects settle: --as: expected one of done, not-done, got 'maybe'",
    "effects settle unsure order/1 --as done": "effects settle: --reason is required",
    "effects settle unsure order/9 --as done --reason x": "has no effect 'order/9': expected one of 'unwanted', 'order/1'",
    "effects settle unsure unwanted --as done --reason x": "needs no settling: expected one of unknown outcome, it is refused",
    "effects settle nobody order/1 --as done --reason x": "no harness 'nobody' in run.db",
    "effects settle unsure order/1 --as done --reason x --result {1": "--result: expected JSON, got '{1'",
    "effects settle unsure order/1 --as not-done --reason x --result 1": "--result: expected none with --as not-done",
    "effects settle --store none.db unsure order/1 --as done --reason x": "none.db is not there: expected a store",
    "latch off --harness a/../b": "name 'a/../b': expected letters, digits",
    "latch on --harness @all": "name '@all': expected letters, digits",
    "latch maybe": "kill-switch: on|off: expected one of on, off, got 'maybe'",
    "latch --reason x": "kill-switch: expected on or off with --reason and --harness",
    "send nobody 1": "no harness 'nobody' in run.db",
    "send unsure {1": "message '{1' looks like JSON but is not valid",
    "send ended 1": "harness 'ended' is completed: expected one that goes on, for nobody would read it",
    "send unsure \udcff": "send: MESSAGE: expected text in UTF-8, got '\\udcff'",
    "send --store none.db unsure 1": "none.db is not there: expected a store",
    "trading sell unsure": "trading: ORDER: expected one of stop, stop-entries, resume-entries, ",
    "trading stop nobody": "no harness 'nobody' in run.db",
}


def test_a_mistake_is_told_in_one_line_and_changes_nothing(command: Command) -> None:
    before = {path.name: path.stat().st_size for path in command.folder.iterdir()}

    results = command.each(*(line.split() for line in MISTAKES))

    for done, (line, expected) in zip(results, MISTAKES.items(), strict=True):
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), line
        assert expected in done.err, line
    assert {path.name: path.stat().st_size for path in command.folder.iterdir()} == before


def test_an_effect_of_a_living_program_is_under_way_and_is_not_settled_by_others(command: Command) -> None:
    run_file(command, "Lasting")
    process = command.start("run", "run.toml")
    wait_until(lambda: records(command, "intent")[-1:] != [] and "slow" in records(command, "intent")[-1])

    live, settle = command.each(
        ["effects", "lasting"], ["effects", "settle", "lasting", "slow", "--as", "done", "--reason", "x"]
    )
    process.kill()
    process.communicate()
    dead = command("effects", "lasting")

    assert (live.code, settle.code, dead.code) == (0, 75, 6)
    assert "slow  under way  1" in live.out
    assert f"process {process.pid} runs it; stop that one first" in settle.err
    assert "slow  unknown  1" in dead.out
    assert "it was cut off: its program ended before the outcome was known" in dead.out
    with analysis.open(command.folder / "run.db") as run:
        (told,) = next(table for table in failures.answer(run, harness="lasting").tables if table.name == "effects").dicts()
    assert (told["outcome"], told["reason"]) == (
        "unknown",
        "it was cut off: its program ended before the outcome was known",
    )


def test_kept_errors_need_nobody_and_are_shown_among_all(command: Command) -> None:
    run_file(command, "Keeping")
    process = command.start("run", "run.toml")
    wait_until(lambda: records(command, "intent")[-1:] != [] and "cut off" in records(command, "intent")[-1])
    (live,) = command.each(["effects", "keeping", "--all", "--json"])
    process.kill()
    process.communicate()

    open_ones, every = command.each(["effects", "keeping"], ["effects", "keeping", "--all", "--json"])

    assert (open_ones.code, every.code) == (0, 0)
    assert [(one["key"], one["outcome"], one["keep"]) for one in live.objects] == [
        ("raises", "failed", True),
        ("cut off", "begun", True),
    ]
    assert [(one["key"], one["outcome"], one["reason"]) for one in every.objects] == [
        ("raises", "failed", "ConnectionError: lost after x"),
        ("cut off", "interrupted", ""),
    ]


def test_a_run_that_ends_with_an_unknown_effect_says_what_to_do(command: Command) -> None:
    done = command("run", "run.toml", "--store", "other.db")
    quiet = command("run", "run.toml", "--quiet", "--store", "other.db")

    assert (done.code, quiet.code) == (6, 6)
    assert done.err.splitlines()[-3:] == [
        "to find out what became of effects: orchestrator effects --store other.db",
        "and to say so: orchestrator effects settle --store other.db NAME KEY --as done|not-done --reason TEXT",
        "to go on: orchestrator run run.toml --store other.db",
    ]
    assert "Traceback" not in done.err
    assert quiet.err.startswith("orchestrator: harness 'unsure' blocked: UnknownOutcome: harness 'unsure', step 2: effect")


def test_a_latch_blocks_what_does_effects_in_a_live_run_and_is_lifted(command: Command) -> None:
    run_file(command, "Acting", "Listening")
    process = command.start("run", "run.toml")
    wait_until(lambda: heads(command.folder / "run.db").get("acting", 0) > 3)

    on = command("latch", "on", "--reason", "the market\x1b[2J is closed", "--json")
    wait_until(lambda: records(command, "blocked")[1:])
    process.terminate()
    done = ended(process)
    lines = (["status"], ["status", "--json"], ["latch"], ["latch", "off"], ["latch", "off"])
    status, as_json, shown, off, off_again = command.each(*lines)

    assert (on.code, done.code, off.code, off_again.code) == (0, 143, 0, 0)
    assert [on.objects[0][name] for name in ("harness", "on", "changed")] == [None, True, True]
    assert r"all harnesses: kill switch on, by " in done.err
    assert r"the market\x1b[2J is closed" in done.err
    assert "to let effects begin again: orchestrator kill-switch, then orchestrator kill-switch off\n" in done.err
    assert r"Latched: harness 'acting'" in status.out
    assert r"the kill switch is on for all harnesses (the market\x1b[2J is closed): no effect begins" in status.err
    assert {one["latched"] for one in as_json.objects} == {True}
    assert shown.out.splitlines()[1].startswith("all harnesses  2")
    assert off.err == (
        "the kill switch is off for all harnesses: effects may begin; `orchestrator start NAME` starts what is blocked; "
        "what only waits continues by itself\n"
    )
    assert off_again.err == "the kill switch was off for all harnesses already\n"
    assert [body[:10] for body in records(command, "latch")] == ['{"on":true', '{"on":fals']


def test_a_latch_of_one_harness_may_come_before_it_is_started(command: Command) -> None:
    wrong, none, early, known, again, off, all_off = command.each(
        ["latch", "on", "--harness", "unsre"],
        ["latch"],
        ["latch", "on", "--harness", "acting", "--ahead"],
        ["latch", "on", "--harness", "unsure", "--reason", "x"],
        ["latch", "on", "--harness", "unsure", "--reason", "x"],
        ["latch", "off", "--harness", "unsure"],
        ["latch", "off"],
    )
    run_file(command, "Acting")
    run = command("run", "run.toml")

    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert wrong.err.startswith("orchestrator: no harness 'unsre' in run.db: ")
    assert none.err == "no kill switch is on beside run.db\n"
    assert [done.code for done in (early, known, again, off, all_off)] == [0, 0, 0, 0, 0]
    assert "the kill switch for acting is still on; `orchestrator kill-switch off --harness acting`" in all_off.err
    assert "run.db knows no harness 'acting' yet, so this is not recorded; it counts when one is started" in early.err
    assert again.err == "the kill switch was on for unsure already\n"
    assert "the kill switch for acting is still on; `orchestrator kill-switch off --harness acting` lifts it" in off.err
    assert run.code == 4
    assert run.err.splitlines()[1] == "the kill switch is on for acting: no effect begins"
    assert "orchestrator kill-switch off --harness acting" in run.err


@pytest.mark.parametrize("state", ["missing", "damaged", "locked"])
def test_a_latch_is_on_whatever_the_store_is_in(command: Command, state: str) -> None:
    path = command.folder / "run.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        if state == "missing":
            path.unlink()
        elif state == "damaged":
            path.write_bytes(b"\x55" * 8192)
        else:
            other.execute("BEGIN IMMEDIATE")

        done = command("latch", "on")

    assert done.code == 0
    assert "the kill switch is on for all harnesses: no further effect begins\n" in done.err
    assert (
        "is not there: the kill switch holds for" if state == "missing" else "this is not recorded, but counts"
    ) in done.err
    assert list(Latch(path).which()) == ["@all"]
    assert path.exists() == (state != "missing")


def test_a_latch_that_can_not_be_put_on_is_a_failure(command: Command) -> None:
    command.write("run.db-latch", "in the way")

    done = command("latch", "on")

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "run.db-latch/@all cannot be put on: " in done.err


def test_a_message_reaches_a_running_harness(command: Command) -> None:
    run_file(command, "Listening")
    process = command.start("run", "run.toml")
    wait_until(lambda: [one.owned for one in harnesses(command.folder / "run.db") if one.name == "listening"] == [True])

    sent = command.each(
        ["send", "listening", '{"a": [1, "b"]}', "--json"],
        ["send", "listening", "plain words"],
        ["send", "--text", "listening", "12"],
        ["trading", "stop-entries", "listening", "--reason", "news"],
    )
    wait_until(lambda: heads(command.folder / "run.db")["listening"] == 4)
    process.terminate()

    assert [done.code for done in sent] == [0] * 4
    assert sent[0].objects[0]["message"] == {"a": [1, "b"]}
    assert sent[0].objects[0]["running"] is True
    assert sent[1].err.endswith("in its mailbox; it runs, and has it within a moment\n")
    assert [step.input for step in steps_of(command.folder / "run.db", "listening")] == [
        {"a": [1, "b"]},
        "plain words",
        "12",
        {"do": "stop entries", "reason": "news"},
    ]
    assert ended(process).code == 143


def test_a_message_of_a_type_that_a_running_harness_does_not_accept_is_refused(command: Command) -> None:
    run_file(command, "Choosy")
    process = command.start("run", "run.toml")
    wait_until(lambda: sockets(command.folder / "run.db") and heads(command.folder / "run.db").get("choosy") == 1)

    (command.folder / "link.db").symlink_to("run.db")

    wrong, linked, right = command.each(
        ["send", "choosy", "hello"],
        ["send", "choosy", "hello", "--store", "link.db"],
        ["send", "choosy", '{"shares": 5}', "--json"],
    )
    wait_until(lambda: heads(command.folder / "run.db")["choosy"] == 2)
    process.terminate()

    assert ended(process).code == 143
    assert (wrong.code, wrong.out, wrong.err.count("\n"), linked) == (2, "", 1, wrong)
    assert "message to 'choosy': expected Order(shares, symbol) or Cancel(id), got 'hello'" in wrong.err
    assert (right.code, right.objects[0]["checked"]) == (0, True)
    assert records(command, "message") == ['{"from":"@operator","message":{"shares":5}}']


def test_a_message_waits_for_a_harness_that_does_not_run(command: Command) -> None:
    sent = command("send", "listening", "null")

    with closing(sqlite3.connect(command.folder / "run.db")) as db:
        waiting = db.execute("SELECT sender, body, consumed_step FROM messages").fetchall()
    assert sent.err.endswith("else `orchestrator run FILE`\n")
    assert "unchecked (one of a type that it does not accept is set aside, and its output says so)" in sent.err
    assert waiting == [("@operator", "null", None)]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (b'{"a": [1,\n "b"]}\n', [], {"a": [1, "b"]}),
        (b"plain words\nand more\n", [], "plain words\nand more"),
        (b"12\n", ["--text"], "12"),
        ("ä".encode() * 200_000, [], "ä" * 200_000),
    ],
    ids=["json", "words", "text", "large"],
)
def test_a_message_may_come_from_standard_input(command: Command, given: bytes, options: list[str], message: object) -> None:
    sent = fed(command, given, "send", *options, "listening", "-", "--json")

    assert (sent.returncode, json.loads(sent.stdout)["message"]) == (0, message)


@pytest.mark.parametrize(
    ("given", "said"),
    [(b"\xff", "expected UTF-8"), (b"x" * 16_000_001, "expected at most 16,000,000 bytes")],
    ids=["no text", "too large"],
)
def test_standard_input_that_is_no_message_is_refused(command: Command, given: bytes, said: str) -> None:
    sent = fed(command, given, "send", "listening", "-")

    assert (sent.returncode, said in sent.stderr.decode()) == (2, True)


def test_every_verb_of_a_trading_harness_has_a_word() -> None:
    messages = [{"do": do, "reason": ""} for do in TRADING.values()]

    assert sorted(TRADING.values()) == sorted(Verb)
    assert not any(command_from(message).refused for message in messages)


def test_the_words_of_a_verb_are_found_wherever_options_stand(command: Command) -> None:
    tail = ["settle", "unsure", "order/9", "--as", "done", "--reason", "x"]
    lines = [["--store", "run.db", "effects", *tail], ["effects", "--store", "run.db", *tail], ["--json", "effects", *tail]]

    results = command.each(*lines, ["effects", "--", "settle"], ["effects", "settle"])

    assert ["has no effect 'order/9'" in done.err for done in results] == [True, True, True, False, False]
    assert "no harness 'settle'" in results[3].err
    assert "effects settle: NAME is missing" in results[4].err
