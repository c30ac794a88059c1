"""A run is alive as long as its lock is held, and no longer, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.store.file.run_lock import RunLock, is_alive, pid_of
from tests import ROOT
from tests.zygote import Program, run_python


def test_a_run_is_alive_until_it_lets_go(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)
    assert is_alive(store, lock.run)
    assert pid_of(store, lock.run) == os.getpid()

    lock.release()

    assert not is_alive(store, lock.run)
    assert os.listdir(tmp_path) == []


def test_a_killed_run_is_dead_and_its_file_is_swept_away(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    program = (
        "import os, signal, sys; from pathlib import Path; from orchestrator.store.file.run_lock import RunLock\n"
        "print(RunLock(Path(sys.argv[1])).run, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = run_python("-c", program, store, capture_output=True, text=True, cwd=ROOT)
    run = killed.stdout.strip()
    assert os.listdir(tmp_path) == [f"run.db.run-{run}"]

    assert not is_alive(store, run)

    assert os.listdir(tmp_path) == []


def test_a_run_that_never_was_is_dead(tmp_path: Path) -> None:
    assert not is_alive(tmp_path / "run.db", "0123456789ab")
    assert pid_of(tmp_path / "run.db", "0123456789ab") is None


def test_asking_does_not_take_the_lock_away(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)

    assert [is_alive(store, lock.run) for _ in range(3)] == [True] * 3

    lock.release()


PROGRAM = """
import os, sys, signal, time
from pathlib import Path
from orchestrator.store.file.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
if os.fork() == 0:
    FORKED
    time.sleep(60)
    os._exit(0)
time.sleep(0.2)
print(lock.run, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[Callable[[Path, str], tuple[subprocess.Popen[str], str]]]:
    """Start a program that makes a lock and forks a process, which goes on when the program is killed."""
    programs: list[subprocess.Popen[str]] = []

    def start(store: Path, program: str) -> tuple[subprocess.Popen[str], str]:
        args = ["-c", program, str(store)]
        programs.append(Program(args, cwd=ROOT, text=True, stdin=-1, stdout=-1, stderr=-1, start_new_session=True))
        assert programs[-1].stdout is not None
        return programs[-1], programs[-1].stdout.readline().strip()

    yield start
    for program in programs:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.communicate()


def by_python(program: str) -> str:
    return program.replace("FORKED", "lock.release()")


def past_python(program: str) -> str:
    """Have the fork made by a library of C, which tells Python nothing of it."""
    return program.replace("FORKED", "pass").replace("os.fork()", "__import__('ctypes').CDLL(None).fork()")


def by_an_earlier_version(program: str) -> str:
    """Have the lock made as an earlier version did: the number of the process alone, and a descriptor that is inherited."""
    return past_python(program).replace(
        "lock = RunLock(Path(sys.argv[1]))",
        "lock = type('L', (), {'run': '0123456789ab'})\n"
        "fd = os.open(sys.argv[1] + '.run-0123456789ab', os.O_CREAT | os.O_RDWR, 0o600)\n"
        "__import__('fcntl').flock(fd, 2); os.write(fd, f'{os.getpid()}\\n'.encode())",
    )


@pytest.mark.parametrize("way", [by_python, past_python, by_an_earlier_version])
def test_a_run_that_was_killed_is_dead_whatever_it_has_forked(
    way: Callable[[str], str], tmp_path: Path, started: Callable[[Path, str], tuple[subprocess.Popen[str], str]]
) -> None:
    store = tmp_path / "run.db"
    program, run = started(store, way(PROGRAM))
    assert [is_alive(store, run) for _ in range(2)] == [True, True]
    assert pid_of(store, run) == program.pid

    # Not collected yet: a number that a dead process still has is no sign of life.
    program.kill()
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)

    assert not is_alive(store, run)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("change", ["boot", "namespace", "nothing known", "text"])
def test_a_lock_of_a_process_that_can_not_be_looked_at_counts_as_alive(tmp_path: Path, change: str) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)
    (file,) = tmp_path.iterdir()
    _, started, where = file.read_text().splitlines()
    gone = run_python("-c", "import os; print(os.getpid())", capture_output=True, text=True, check=True)
    pid = gone.stdout.strip()
    file.write_text(
        {
            "boot": f"{pid}\n{started}\nanother{where}\n",
            "namespace": f"{pid}\n{started}\n{where.replace('pid:[', 'pid:[1')}\n",
            "nothing known": f"{os.getpid()}\n",
            "text": "nobody\n\n\n",
        }[change]
    )

    assert is_alive(store, lock.run)

    file.write_text(f"{pid}\n{started}\n{where}\n")
    assert not is_alive(store, lock.run, sweep=False), "what is certainly gone is"
    lock.release()


def test_a_number_that_was_given_out_again_is_another_process(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    lock = RunLock(store)
    (file,) = tmp_path.iterdir()
    pid, started, where = file.read_text().splitlines()
    file.write_text(f"{pid}\n{int(started) - 1}\n{where}\n")

    assert not is_alive(store, lock.run, sweep=False)
    lock.release()


def test_what_lies_in_the_place_of_a_lock_holds_nobody_up(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "run.db.run-1").symlink_to(victim)
    os.mkfifo(tmp_path / "run.db.run-2")

    RunLock(tmp_path / "run.db").release()

    assert victim.read_text() == "precious"
    assert not is_alive(tmp_path / "run.db", "1")


def test_two_runs_in_one_process_see_each_other(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    first, second = RunLock(store), RunLock(store)

    assert is_alive(store, first.run)
    assert is_alive(store, second.run)
    first.release()
    assert (is_alive(store, first.run), is_alive(store, second.run)) == (False, True)
    second.release()


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    locks = [RunLock(tmp_path / "run.db") for _ in range(3)]

    assert len({lock.run for lock in locks}) == 3

    for lock in locks:
        lock.release()
