"""G7: a signal ends the program within its bound and with its own code, whatever a harness does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.commanding import Command, Ended, ended, harnesses, heads, steps_of, wait_until

WATCHED = """
import signal, sys, threading, time
import trio
from orchestrator.cli.run.watchdog import Watchdog

async def main():
    watchdog = Watchdog(bound_s={bound_s}, again_s=0.1, unfinished=lambda: ["harness 'a'", "harness 'b'"], farewell="bye ")
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    watchdog.open()
    {body}
    watchdog.close()

trio.run(main)
{after}
"""
READY = 'print("ready", flush=True)'


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def started(command: Command, *names: str, drain: float) -> subprocess.Popen[str]:
    """Start a run and wait until every harness has recorded a step."""
    file = command.run_file(*names, name=f"{'-'.join(names)}.toml")
    store = file.with_suffix(".db")
    process = command.start("run", file, "--store", store, "--drain", drain)
    wait_until(lambda: len(found := heads(store)) == len(names) and all(found.values()))
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_every_harness_and_is_the_exit_code(command: Command, number: signal.Signals) -> None:
    """G7: every harness leaves a typed outcome, and can be resumed."""
    process = started(command, "Ticking", "Three", drain=5.0)
    wait_until(lambda: "completed" in [one.status for one in harnesses(command.folder / "Ticking-Three.db")])

    process.send_signal(number)

    done = ended(process)
    assert done.code == 128 + number
    assert f"{number.name}: stopping within 5 s; a second signal cancels at once\n" in done.err
    assert "orchestrator: the program ends within 10 s, by force if need be\n" in done.err
    assert {one.name: one.status for one in harnesses(command.folder / "Ticking-Three.db")} == {
        "ticking": "stopped",
        "three": "completed",
    }


def test_the_program_ends_within_its_bound_whatever_a_harness_does(command: Command) -> None:
    """G7: a blocked loop, a call that signals cannot interrupt, a cancellation that is swallowed, a second signal."""
    runs = {
        "blocking": started(command, "Ticking", "Blocking", drain=0.2),
        "deadlocked": started(command, "Ticking", "Deadlocked", drain=0.2),
        "swallowing": started(command, "Ticking", "Swallowing", drain=0.2),
        "second": started(command, "Swallowing", drain=1000.0),
    }

    begin = time.monotonic()
    for process in runs.values():
        process.terminate()
    time.sleep(0.1)
    runs["second"].terminate()
    done = {name: ended(process) for name, process in runs.items()}

    assert time.monotonic() - begin < 9.0
    assert {name: one.code for name, one in done.items()} == dict.fromkeys(runs, 143)
    for name in ("blocking", "deadlocked"):
        assert f"orchestrator: harness '{name}', which blocks the loop at " in done[name].err
        assert "commanded.py:" in last_line(done[name])
    assert last_line(done["swallowing"]).startswith("orchestrator: harness 'swallowing' would not end: ended by force;")
    assert last_line(done["second"]).startswith("orchestrator: harness 'swallowing' would not end: ended by force;")
    assert harnesses(command.folder / "Swallowing.db")[0].current_step >= 1


def test_the_program_ends_within_its_bound_though_it_hears_no_signal(command: Command) -> None:
    """G7: C code holds the interpreter, signals are ignored and blocked, the program is stopped, the process was killed."""
    runs = {name: started(command, "Ticking", name, drain=0.2) for name in ("Holding", "Deaf")}
    runs["stopped"] = started(command, "Three", "Ticking", drain=0.2)
    runs["alone"] = started(command, "Three", "Blocking", drain=0.2)
    watchdogs = {name: watchdog_of(process.pid) for name, process in runs.items()}
    runs["stopped"].send_signal(signal.SIGSTOP)
    # A signal that comes together with SIGSTOP is taken first, and its handler runs only when the program goes on.
    wait_until(lambda: ") T " in text_of(Path(f"/proc/{runs['stopped'].pid}/stat")))
    os.kill(watchdogs["alone"], signal.SIGKILL)

    begin = time.monotonic()
    for process in runs.values():
        process.terminate()
    done = {name: ended(process) for name, process in runs.items()}

    assert time.monotonic() - begin < 11.0
    assert {name: one.code for name, one in done.items()} == {"Holding": -9, "Deaf": 143, "stopped": -9, "alone": 143}
    assert last_line(done["Holding"]).startswith(
        "orchestrator: the program lets none of its threads run, after SIGTERM: ended"
    )
    assert "harness 'deaf'" in last_line(done["Deaf"])
    assert "harness 'blocking', which blocks the loop at" in last_line(done["alone"])
    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in watchdogs.values()))


def watchdog_of(program: int) -> int:
    """Return the process that watches a program; it has none of its files but pipes, standard error and what is nothing."""
    (found,) = [
        int(one.name)
        for one in Path("/proc").iterdir()
        if one.name.isdecimal() and f" {program} " in text_of(one / "stat") and "watchdog_process" in text_of(one / "cmdline")
    ]
    wait_until(lambda: "anon_inode:[pidfd]" in files_of(found))
    assert {name.partition(":")[0] for name in files_of(found)} <= {"pipe", "/dev/null", "anon_inode"}
    return found


def files_of(process: int) -> list[str]:
    return [os.readlink(one) for one in Path(f"/proc/{process}/fd").iterdir()]


def text_of(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_the_watchdog_process_ends_with_its_program(command: Command, kill: signal.Signals) -> None:
    process = started(command, "Ticking", drain=5.0)
    watchdog = watchdog_of(process.pid)

    process.send_signal(kill)

    assert ended(process).code == (-9 if kill is signal.SIGKILL else 143)
    wait_until(lambda: not Path(f"/proc/{watchdog}").exists())


def last_line(done: Ended) -> str:
    return done.err.splitlines()[-1]


def test_what_was_ended_by_force_goes_on_at_the_next_run(command: Command) -> None:
    process = started(command, "Ticking", drain=5.0)
    process.kill()
    process.communicate()

    again = started(command, "Ticking", drain=5.0)
    wait_until(lambda: harnesses(command.folder / "Ticking.db")[0].attempt == 2)
    again.terminate()

    assert ended(again).code == 143
    steps = steps_of(command.folder / "Ticking.db", "ticking")
    assert [step.step_number for step in steps] == list(range(1, len(steps) + 1))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_script_is_loaded_ends_it_without_a_traceback(command: Command, number: signal.Signals) -> None:
    command.write("slow.py", "import time\nprint('loading', flush=True)\ntime.sleep(100)\n")
    process = command.start("run", "slow.py")
    assert process.stdout is not None
    process.stdout.readline()

    process.send_signal(number)

    done = ended(process)
    assert (done.code, done.err) == (128 + number, "")


def watched(command: Command, body: str, after: str = "", *, bound_s: float = 0.3) -> tuple[Ended, float]:
    """Run a program under a watchdog of its own and send it a signal; return how it ended, and after how long."""
    process = command.python("-c", WATCHED.format(body=body, after=after, bound_s=bound_s))
    assert process.stdout is not None
    process.stdout.readline()
    begin = time.monotonic()
    process.terminate()
    return ended(process), time.monotonic() - begin


def test_the_watchdog_names_who_would_not_end_after_the_terminal_is_given_back(command: Command) -> None:
    done, seconds = watched(command, f"{READY}; await trio.sleep_forever()")

    assert done.code == 143
    assert done.err.splitlines()[-1] == (
        "bye orchestrator: harness 'a', harness 'b' would not end: ended by force; "
        "what is recorded is safe, to go on: `orchestrator run FILE`"
    )
    assert seconds >= 0.3


def test_the_watchdog_lets_a_program_be_that_ends_in_time(command: Command) -> None:
    done, _ = watched(command, f"{READY}; await trio.sleep(0.2)", bound_s=30)

    assert done.code == 0


def test_the_watchdog_watches_the_interpreters_own_end_too(command: Command) -> None:
    done, _ = watched(
        command, f"{READY}; await trio.sleep(0.1)", after="threading.Thread(target=time.sleep, args=(1000,)).start()"
    )

    assert done.code == 143


def test_trio_still_wakes_up_for_signals_under_a_watchdog(command: Command) -> None:
    body = f"""
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        {READY}
        async for number in signals:
            break
    """

    done, seconds = watched(command, body)

    assert done.code == 0
    assert seconds < 0.3 + 2
