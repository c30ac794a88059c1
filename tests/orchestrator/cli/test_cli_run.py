"""The `run` verb: run files and supervisor scripts, what it says, and what its exit code says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.store import SqliteReader
from tests.orchestrator.commanding import ROOT, Command, Ended, ended, harnesses, heads, steps_of, wait_until

SCRIPT = """
import sys
import trio
from tests.orchestrator.commanded import Failing, Ticking, Three

async def supervise(orchestrator):
    handle = orchestrator.start({harness}(0), name="one", restart="temporary")
    await anext(handle.steps())
    {then}
"""


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def script(command: Command, harness: str, then: str = "pass") -> Ended:
    command.write("script.py", SCRIPT.format(harness=harness, then=then))
    return command("run", "script.py")


def stop(command: Command, *arguments: str, after_steps: int = 3, sig: signal.Signals = signal.SIGTERM) -> Ended:
    """Run until every harness has made some steps, and end it by a signal."""
    process = command.start("run", *arguments)
    path = command.folder / "run.db"
    before = max(heads(path).values(), default=0)
    wait_until(lambda: min(heads(path).values(), default=0) >= before + after_steps)
    process.send_signal(sig)
    return ended(process)


def test_the_example_runs_to_its_end(command: Command) -> None:
    done = command("run", ROOT / "examples" / "run.toml")

    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"recording in {command.folder}/run.db\n")
    assert "counting: started at step 0, attempt 1\n" in done.err
    assert "inspection: completed at step 4, attempt 1\n" in done.err
    assert "step 1," not in done.err
    assert [line.split() for line in done.err.splitlines()[-3:]] == [
        ["HARNESS", "OUTCOME", "STEP", "ATTEMPT", "CAUSE"],
        ["counting", "finished", "3", "1"],
        ["inspection", "completed", "4", "1"],
    ]


def test_a_run_that_was_stopped_goes_on(command: Command) -> None:
    command.run_file("Ticking")

    first, second = stop(command, "run.toml"), stop(command, "run.toml", "--json")

    assert (first.code, second.code) == (143, 143)
    assert "to go on: orchestrator run run.toml" in first.err
    steps = steps_of(command.folder / "run.db", "ticking")
    assert [step.step_number for step in steps] == list(range(1, len(steps) + 1))
    assert {step.attempt for step in steps} == {1, 2}
    assert second.objects[0]["event"] == "harness.started"
    assert second.objects[0]["attempt"] == 2


def test_json_has_every_record_as_it_is_committed(command: Command) -> None:
    command.run_file("Three", "Failing", top='intensity = 1\nbackoff = { base_s = 0.01 }\nlog = "log.jsonl"')

    done = command("run", "run.toml", "--json")

    assert done.code == 1
    with closing(SqliteReader(command.folder / "run.db")) as reader:
        assert [one["seq"] for one in done.objects] == [record.seq for record in reader.records()]
    steps = [one for one in done.objects if "step_number" in one]
    assert [one for one in steps if one["harness"] == "three"] == command("steps", "three", "--json").objects
    others = [one for one in done.objects if "event" in one]
    assert [one["event"] for one in others if one["harness"] == "failing"][-1] == "harness.gave_up"
    assert len((command.folder / "log.jsonl").read_text().splitlines()) == len(done.objects)


def test_quiet_says_only_what_failed(command: Command) -> None:
    command.run_file("Three", "Failing", top="intensity = 0")

    done = command("run", "run.toml", "--quiet")

    assert (done.code, done.out) == (1, "")
    first, *trace = done.err.splitlines()
    assert first.startswith("orchestrator: harness 'failing' gave_up: 0 restarts within 60 s; ValueError: it is broken")
    assert trace[0] == "Traceback (most recent call last):"
    assert 'raise ValueError("it is broken")' in trace[2]
    assert "commanded.py" in trace[1]


def test_paths_of_the_run_file_are_beside_it_and_options_go_before(command: Command) -> None:
    (command.folder / "sub").mkdir()
    command.run_file("Three", top='store = "its.db"\nlog = "its.jsonl"', name="sub/run.toml")

    command("run", "sub/run.toml", "--quiet")
    command("run", "sub/run.toml", "--quiet", "--log", "mine.jsonl", ORCHESTRATOR_STORE="mine.db")

    assert {path.name for path in (command.folder / "sub").iterdir()} == {"run.toml", "its.db", "its.db-head", "its.jsonl"}
    assert {path.name for path in command.folder.iterdir()} == {"sub", "mine.db", "mine.db-head", "mine.jsonl"}


def test_modules_are_found_beside_the_run_file(command: Command) -> None:
    (command.folder / "sub").mkdir()
    command.write("sub/local.py", "from tests.orchestrator.commanded import Three\n")
    command.write("sub/run.toml", '[[harness]]\nname = "a"\nharness = "local:Three"\ninitial_state = 0\n')

    assert command("run", "sub/run.toml").code == 0


def test_a_script_is_run_and_what_it_stops_is_resumable(command: Command) -> None:
    done = script(command, "Ticking", "await handle.stop()")

    assert done.code == 3
    assert done.err.splitlines()[-2].split()[:2] == ["one", "stopped"]


def test_what_supervise_raises_is_shown_where_it_was_raised(command: Command) -> None:
    done = script(command, "Ticking", "raise LookupError('not found')")

    assert done.code == 1
    assert done.err.splitlines()[-2] == "LookupError: not found"
    assert "orchestrator/running.py" not in done.err
    assert f'"{command.folder}/script.py", line 9, in supervise' in done.err


def test_a_script_may_choose_its_exit_code_and_its_harnesses_are_stopped(command: Command) -> None:
    done = script(command, "Ticking", "sys.exit(7)")

    assert done.code == 7
    assert done.err.splitlines()[-2].split()[:2] == ["one", "stopped"]


def test_a_script_that_starts_nothing_is_told_so(command: Command) -> None:
    command.write("script.py", "async def supervise(orchestrator): pass")

    done = command("run", "script.py")

    assert (done.code, done.err.splitlines()[-1]) == (0, "no harness was started")


def test_a_harness_that_runs_elsewhere_is_left_there(command: Command) -> None:
    command.run_file("Ticking")
    first = command.start("run", "run.toml")
    wait_until(lambda: heads(command.folder / "run.db").get("ticking"))

    second = command("run", "run.toml")
    first.terminate()

    assert second.code == 75
    assert f"process {first.pid} runs it; stop that one first" in second.err
    assert "Traceback" not in second.err
    assert ended(first).code == 143


def test_a_mistake_is_told_in_one_line_and_nothing_is_made(command: Command) -> None:
    scripts = {
        "syntax.py": "async def supervise(orchestrator)\n    pass\n",
        "without.py": "async def supervize(orchestrator): pass\n",
        "plain.py": "def supervise(orchestrator): pass\n",
        "generator.py": "async def supervise(orchestrator):\n    yield\n",
        "two.py": "async def supervise(orchestrator, other): pass\n",
        "imports.py": "import no_such_module\n",
        "raises.py": "\n\nprint(1 / 0)\n",
        "exits.py": "raise SystemExit(3)\n",
    }
    for name, text in scripts.items():
        command.write(name, text)
    command.run_file("Three", top="unknown = 1")
    said = {
        "syntax.py": "syntax.py is not valid Python: expected ':' at syntax.py:1; correct it",
        "without.py": "without.py has no function supervise: expected `async def supervise(orchestrator)`; add it",
        "plain.py": "plain.py: supervise is a plain function: expected `async def supervise(orchestrator)`; change it",
        "generator.py": "supervise is an async generator, for it has a `yield`: expected",
        "two.py": "two.py: supervise cannot be called with the orchestrator: expected",
        "imports.py": "imports.py: there is no module 'no_such_module'",
        "raises.py": "raises.py could not be loaded: ZeroDivisionError: division by zero (raises.py:3); correct it",
        "exits.py": "exits.py could not be loaded: SystemExit: 3 (exits.py:1)",
        "run.toml": "run.toml: unknown key 'unknown': expected one of",
    }

    results = command.each(*(["run", name] for name in said))

    for done, (name, expected) in zip(results, said.items(), strict=True):
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), name
        assert done.err.startswith("orchestrator: ")
        assert expected in done.err
    assert not (command.folder / "run.db").exists()


def test_the_log_can_not_be_written_into_the_store(command: Command) -> None:
    command.run_file("Three", top='log = "run.db"')
    command.write("run.db", "the store")

    done = command("run", "run.toml")

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "log run.db is the store: expected another file" in done.err
    assert (command.folder / "run.db").read_text() == "the store"


@pytest.mark.parametrize("log", ["/dev/stdout", "-"])
def test_the_log_may_be_what_the_command_writes_to(command: Command, log: str) -> None:
    done = command("run", ROOT / "examples" / "run.toml", "--log", log)

    told = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [line["seq"] for line in told] == list(range(1, len(told) + 1))
    assert {line["harness"] for line in told} == {"counting", "inspection"}
    assert not (command.folder / "-").exists()


def test_the_log_may_be_a_pipe_with_a_name(command: Command) -> None:
    pipe = command.folder / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)

    done = command("run", ROOT / "examples" / "run.toml", "--log", pipe)

    told, _ = reader.communicate(timeout=10)
    assert done.code == 0
    assert len(told.splitlines()) >= 10

    unread = command("run", ROOT / "examples" / "run.toml", "--log", pipe)
    assert (unread.code, "nobody reads it; start its reader first" in unread.err) == (2, True)


def test_a_place_that_can_not_be_written_is_told_in_one_line(command: Command) -> None:
    command.run_file("Three")

    log, store = command.each(*(["run", "run.toml", option, "missing/x"] for option in ("--log", "--store")))

    assert "log missing/x cannot be written: No such file or directory" in log.err
    assert "missing/x cannot be created: its folder" in store.err
    assert [(done.code, done.err.count("\n")) for done in (log, store)] == [(2, 1)] * 2


def test_a_store_that_fails_stops_the_run_loudly(command: Command) -> None:
    done = script(command, "Ticking", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))")

    assert done.code == 1
    assert "orchestrator: run.db failed while steps waited for it: " in done.err
    assert "Traceback" not in done.err
    assert 1 <= heads(command.folder / "run.db")["one"] < 1000


def test_a_script_may_have_any_name(command: Command) -> None:
    (command.folder / "sub").mkdir()
    for name in ("sub/trio.py", "2 scripts.py"):
        command.write(name, "async def supervise(orchestrator): pass")

    assert [done.code for done in command.each(["run", "sub/trio.py"], ["run", "2 scripts.py"])] == [0, 0]


def test_a_stored_state_that_does_not_fit_is_a_matter_of_usage(command: Command) -> None:
    command.run_file("Ticking")
    stop(command, "run.toml")
    text = (command.folder / "run.toml").read_text()
    command.write("run.toml", text.replace("Ticking", "Quoted").replace("= 0", "= {}"))

    done = command("run", "run.toml")

    assert done.code == 2
    assert "the stored state does not fit Later" in done.err
    assert "Traceback" not in done.err


def test_who_stops_reading_the_events_does_not_stop_the_run(command: Command) -> None:
    command.run_file("Ticking")
    process = command.start("run", "run.toml", "--json")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.stderr is not None
    assert any("the run is no longer shown: [Errno 32] Broken pipe; it goes on" in line for line in process.stderr)
    at = heads(command.folder / "run.db")["ticking"]
    wait_until(lambda: heads(command.folder / "run.db")["ticking"] > at + 20)
    process.terminate()

    assert process.wait(10) == 143
    assert harnesses(command.folder / "run.db")[0].status == "stopped"


def test_who_stops_reading_the_talk_neither_stops_the_run_nor_a_harness_that_talks(command: Command) -> None:
    command.run_file("Talking")
    process = command.start("run", "run.toml")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()

    wait_until(lambda: heads(command.folder / "run.db").get("talking", 0) > 20)
    process.terminate()

    assert process.wait(10) == 143
    assert harnesses(command.folder / "run.db")[0].status == "stopped"


def test_a_run_that_is_started_again_when_all_is_done_says_so(command: Command) -> None:
    command.run_file("Three")

    _, done = command.each(*[["run", "run.toml"]] * 2)

    assert done.code == 0
    assert done.err.splitlines()[-1].split() == ["three", "completed", "3", "1"]
