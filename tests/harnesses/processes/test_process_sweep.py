"""A sweep ends what works in a directory, and what bears a mark; never who sweeps. Real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from harnesses.errors import HarnessMisuse
from harnesses.processes.bounded_command import sweep
from harnesses.processes.process_sweep import MARK, sweep_marked
from tests.harnesses.leavers import soon

pytestmark = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")

# It ends by itself long after it should have been ended, so that nothing is left of it whatever becomes of the test.
FORKING = """
import os, time
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    open("beat", "a").write(".")
open("over", "w").close()
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def sleeper(cwd: Path, mark: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], cwd=cwd, start_new_session=True, env={**os.environ, MARK: mark})


async def test_what_works_in_a_directory_or_below_it_is_ended_and_nothing_else(tmp_path, started):
    places = [tmp_path / name for name in ("work", "work/below", "work-too")]
    for place in places:
        place.mkdir()
    within, below, beside = (sleeper(place) for place in places)
    started += [within, below, beside]

    swept = await sweep(tmp_path / "work")

    assert swept.ended == tuple(sorted((within.pid, below.pid)))
    assert (within.wait(), below.wait(), beside.poll()) == (-9, -9, None)


async def test_a_directory_is_the_same_by_another_name_and_after_it_is_deleted(tmp_path, started):
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work")
    started.append(sleeper(tmp_path / "link"))
    shutil.rmtree(tmp_path / "work")

    swept = await sweep(tmp_path / "work")

    assert swept.ended == (started[0].pid,)


async def test_what_forks_while_it_is_swept_is_ended_too(tmp_path):
    await trio.run_process([sys.executable, "-S", "-c", FORKING], cwd=tmp_path)
    beat = tmp_path / "beat"
    assert await trio.to_thread.run_sync(soon, lambda: beat.exists() and beat.stat().st_size > 5)

    await sweep(tmp_path)

    size = beat.stat().st_size
    await trio.sleep(0.2)
    assert beat.stat().st_size == size
    assert not (tmp_path / "over").exists(), "it has ended by itself"


async def test_what_bears_a_mark_is_ended_also_with_marks_within_it(tmp_path, started):
    started += [sleeper(tmp_path, mark) for mark in ("mine:", "mine:inner:", "another:", "mined:", "")]

    swept = await sweep_marked("mine")

    assert swept.ended == tuple(sorted(process.pid for process in started[:2]))
    assert [process.poll() for process in started[2:]] == [None, None, None]


def test_who_sweeps_is_spared_and_so_is_who_has_started_it(tmp_path):
    sweeping = "import trio; from harnesses.processes.bounded_command import sweep; trio.run(sweep, '.'); print('swept')"
    outer = ["sh", "-c", f'cd {tmp_path}; sleep 300 & "$@"; echo $?; kill -0 $! 2>/dev/null && wait $!', "sh"]

    done = subprocess.run(
        [*outer, sys.executable, "-c", sweeping],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.split() == ["swept", "0"]


async def test_nothing_to_end_is_soon_said(tmp_path):
    swept = await sweep(tmp_path)

    assert (swept.ended, swept.left) == ((), ())


async def test_the_whole_machine_is_not_swept():
    with pytest.raises(HarnessMisuse, match="expected a directory of one's own"):
        await sweep("/")
