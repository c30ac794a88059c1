"""`orchestrator run FILE --workers N`: the run goes on whichever process is killed, and what is told is that of one run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.cli.run.run_file_workers import code_of
from orchestrator.store import SqliteReader
from orchestrator.workers.worker_channel import Report
from orchestrator.workers.worker_pool import WorkerPool
from tests.orchestrator.commanding import Command, ended, harnesses, heads, steps_of, wait_until

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def run_file(command: Command, *, supervisor: str = "") -> Path:
    tables = "".join(
        f'[[harness]]\nname = "{name}"\nharness = "tests.orchestrator.commanded:Ticking"\ninitial_state = 0\n{supervisor}'
        for name in NAMES
    )
    return command.write("run.toml", f'log = "log.jsonl"\n{tables}')


def workers(process: int) -> list[int]:
    found = [int(word) for task in Path(f"/proc/{process}/task").iterdir() for word in (task / "children").read_text().split()]
    return [pid for pid in found if b"--worker\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def has_gone_on(store: Path, before: dict[str, int], by: int = 3, names: Collection[str] = NAMES) -> bool:
    now = heads(store)
    return all(now.get(name, 0) >= before.get(name, 0) + by for name in names)


def test_a_run_goes_on_after_each_of_its_processes_was_killed(command: Command) -> None:
    file, store = run_file(command), command.folder / "run.db"
    text = file.read_text()
    process = command.start("run", file, "--workers", "2")
    wait_until(lambda: has_gone_on(store, {}))
    # What an operator has stopped stays so, and the run is that of the file as it was.
    command("stop", "a", "--store", str(store))
    file.write_text("not TOML")
    for pid in workers(process.pid):
        os.kill(pid, signal.SIGKILL)
    before = heads(store)
    others = [name for name in NAMES if name != "a"]
    wait_until(lambda: has_gone_on(store, before, names=others))
    assert heads(store)["a"] == before["a"]

    # Orders reach a harness in whatever process it is.
    paused = command.each(*(["pause", name, "--store", str(store)] for name in others))
    assert [one.code for one in paused] == [0, 0, 0]
    metrics = command("metrics", "--store", str(store)).out
    assert all(f'harness="{name}"' in metrics for name in others)

    process.send_signal(signal.SIGTERM)
    told = ended(process)
    assert told.code == 143, told.err
    assert told.err.count("was killed by SIGKILL; it is started again") == 2
    assert told.err.count("SIGTERM: ") == 1
    assert all(f"{name}        stopped" in told.err for name in NAMES)

    # More workers than before take over what the others have left, and none of them outlives its program.
    file.write_text(text)
    before = heads(store)
    process = command.start("run", file, "--workers", "4", "--quiet")
    wait_until(lambda: len({one.name for one in harnesses(store) if one.owned}) == 4)
    command.each(*(["resume", name, "--store", str(store)] for name in others))
    wait_until(lambda: has_gone_on(store, before))
    process.kill()
    process.wait()
    wait_until(lambda: not any(one.owned for one in harnesses(store)))

    for name in NAMES:
        numbers = [step.step_number for step in steps_of(store, name)]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert [step.input for step in steps_of(store, name)] == numbers
    lines = [json.loads(line)["seq"] for line in (command.folder / "log.jsonl").read_text().splitlines()]
    assert lines == [*range(1, len(lines) + 1)]


def test_harnesses_of_one_supervisor_stay_in_one_process(command: Command) -> None:
    top = '[[supervisor]]\nname = "desk"\nstrategy = "one_for_all"\n'
    file = run_file(command, supervisor='supervisor = "desk"\n')
    file.write_text(
        file.read_text() + top + '[[harness]]\nname = "e"\nharness = "tests.orchestrator.commanded:Three"\ninitial_state = 0\n'
    )
    process = command.start("run", file, "--workers", "2", "--quiet", "--drain", "1")
    store = command.folder / "run.db"
    wait_until(lambda: has_gone_on(store, {}) and heads(store).get("e") == 3)
    process.send_signal(signal.SIGTERM)
    assert ended(process).code == 143
    with closing(SqliteReader(store)) as reader:
        runs = {record.harness: record.run for record in reader.records() if record.run}
    assert len({runs[name] for name in NAMES}) == 1
    assert runs["e"] != runs["a"]


def test_a_script_cannot_be_run_in_workers(command: Command) -> None:
    command.write("script.py", "async def supervise(orchestrator):\n    pass\n")
    told = command("run", "script.py", "--workers", "2")
    assert told.code == 2
    assert "--workers is for run files (.toml)" in told.err


@pytest.mark.parametrize(
    ("codes", "reported", "expected"),
    [
        ({0: 0, 1: 0}, {0: 0, 1: 0}, 0),
        ({0: 0, 1: 42}, {0: 0}, 1),
        ({0: 0, 1: 0}, {0: 0}, 1),
        ({0: 0, 1: 75}, {0: 0}, 75),
        ({0: 0, 1: 143}, {0: 0, 1: 143}, 3),
        ({0: 137, 1: 0}, {0: 6, 1: 0}, 6),
    ],
)
def test_the_code_of_a_run_is_ok_only_if_every_worker_has_said_so(
    codes: dict[int, int], reported: dict[int, int], expected: int
) -> None:
    pool = WorkerPool([], lambda descriptor: [], codes=codes)
    pool.reports.update({number: Report(code=code) for number, code in reported.items()})

    assert code_of(pool) == expected
