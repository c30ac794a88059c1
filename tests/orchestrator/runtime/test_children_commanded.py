"""G15: children of a harness of a run file, or of one that is taken over; and what the command says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio

from orchestrator import HarnessRecord, Orchestrator, SqliteStore, Status
from orchestrator.cli.doctor.doctor_file import run_file
from orchestrator.cli.doctor.doctor_model import Level
from orchestrator.store import SqliteReader
from tests.orchestrator.brood import Quicker
from tests.orchestrator.commanding import Command, ended, harnesses, heads, wait_until

TABLE = '[[harness]]\nname = "a"\nharness = "tests.orchestrator.brood:Quicker"\ninitial_state = 0\n'
CHILD = "a.child"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        command.write("run.toml", TABLE)
        yield command


def known(store: Path, name: str) -> HarnessRecord:
    return next(one for one in harnesses(store) if one.name == name)


def run_until(command: Command, head: int) -> None:
    """Run the file until the child has so many steps, and kill the program."""
    process = command.start("run", "run.toml")
    wait_until(lambda: heads(command.folder / "run.db").get(CHILD, 0) >= head)
    process.kill()
    process.communicate()


def test_children_of_a_harness_of_a_run_file_go_on_after_a_kill(command: Command) -> None:
    store = command.folder / "run.db"
    for life in range(1, 4):
        run_until(command, heads(store).get(CHILD, 0) + 3 if store.exists() else 3)

        assert (known(store, "a").attempt, known(store, CHILD).attempt) == (life, life)

    with closing(SqliteReader(store)) as reader:
        assert [(child.harness, child.step_number, child.name) for child in reader.children()] == [("a", 3, CHILD)]
        numbers = [step.step_number for step in reader.steps(CHILD, limit=100_000)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_who_takes_a_harness_over_takes_its_children(command: Command) -> None:
    store = command.folder / "run.db"
    process = command.start("run", "run.toml")
    wait_until(lambda: heads(store).get(CHILD, 0) >= 3)

    async def take_over() -> dict[str, Status]:
        async with Orchestrator(SqliteStore(store), handle_signals=False) as orchestrator:
            orchestrator.start(Quicker(0), name="a", take_over=True)
            with trio.fail_after(15):
                while [handle.attempt for handle in orchestrator.handles] != [2, 2]:  # noqa: ASYNC110  (no event tells it)
                    await trio.sleep(0.02)
                await orchestrator.handles[1].steps(after=orchestrator.handles[1].current_step).__anext__()
            orchestrator.stop()
        return {handle.name: handle.status for handle in orchestrator.handles}

    found = trio.run(take_over)
    lost = ended(process)

    assert found == {"a": Status.STOPPED, CHILD: Status.STOPPED}
    assert lost.code == 75
    assert [line.split()[:2] for line in lost.err.splitlines()[-2:]] == [["a", "failed"], [CHILD, "failed"]]
    assert lost.err.count("another run has taken this harness over") >= 2
    with closing(SqliteReader(store)) as reader:
        numbers = [step.step_number for step in reader.steps(CHILD, limit=100_000)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_status_and_show_name_the_parent(command: Command) -> None:
    run_until(command, 3)

    status, begun, of_child, in_words, of_child_in_words = command.each(
        ["status", "--json"],
        ["show", "a", "3", "--json"],
        ["show", CHILD, "1", "--json"],
        ["show", "a", "3"],
        ["show", CHILD, "1"],
    )

    assert {one["harness"]: one["parent"] for one in status.objects} == {"a": None, CHILD: "a"}
    assert [(said.objects[0]["parent"], said.objects[0]["children"]) for said in (begun, of_child)] == [
        (None, [CHILD]),
        ("a", []),
    ]
    assert f"children     {CHILD}" in in_words.out
    assert "parent " not in in_words.out
    assert "parent       a" in of_child_in_words.out


def test_doctor_names_a_child_that_could_not_be_made_again(command: Command, tmp_path: Path) -> None:
    module = command.write(
        "own.py",
        "from tests.orchestrator.brood import Quick\n"
        "class Own(Quick): pass\n"
        "class Starting(Quick):\n"
        "    async def execute(self):\n"
        "        self.start_child(Own, 0, name='a.child')\n"
        "        async for _ in self.every(0.02):\n"
        "            yield 1, ''\n",
    )
    command.write("run.toml", TABLE.replace("tests.orchestrator.brood:Quicker", "own:Starting"))
    run_until(command, 1)
    path, store = tmp_path / "run.toml", tmp_path / "run.db"

    whole = list(run_file(path, store))
    module.write_text(module.read_text().replace("Own", "Renamed"))
    (failed,) = [check for check in run_file(path, store) if check.level is not Level.PASS]

    assert {check.level for check in whole} == {Level.PASS}
    assert "1 started by others: those that have not ended can be made again" in whole[-1].finding
    assert (failed.level, failed.fix) == (Level.FAIL, "put own:Own back")
    assert failed.finding == "child 'a.child' of 'a' cannot be made again: own has no 'Own': expected one of Renamed, Starting"
