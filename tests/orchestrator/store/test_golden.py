"""G10: a store of every layout that there has been is opened, read, verified and gone on with by today's program.

How the files were made: `golden/README.md`.
"""

from __future__ import annotations

import gzip
import re
import shlex
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trio
from attrs import evolve, field, frozen

from harnesses import BaseHarness, migrates
from orchestrator import Orchestrator, analysis
from orchestrator.cli import main
from orchestrator.cli.doctor.doctor_file import run_file
from orchestrator.cli.doctor.doctor_model import Level
from orchestrator.codec import decode, encode
from orchestrator.errors import OwnedElsewhere, StateChanged
from orchestrator.lifecycle import Status
from orchestrator.log import line
from orchestrator.records import Record
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.file.run_lock import RunLock
from orchestrator.store.file.schema import VERSION
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove
from orchestrator.store.sqlite.store_repair import upgrade
from tests import ROOT
from tests.zygote import run_python

GOLDEN = Path(__file__).with_name("golden")
VERSIONS = range(2, VERSION + 1)


@frozen
class Leg:
    price: int
    note: str = ""


@frozen
class Book:
    total: int = 0
    legs: list[Leg] = field(factory=list[Leg])


@frozen
class NewLeg:
    amount: int
    note: str = ""


@frozen
class Renamed:
    total: int = 0
    legs: list[NewLeg] = field(factory=list[NewLeg])


@frozen
class Migrated:
    schema_version: ClassVar[int] = 2
    sum: int = 0
    prices: list[int] = field(factory=list[int])

    @staticmethod
    @migrates(from_version=1)
    def shorten(stored: dict[str, Any]) -> dict[str, Any]:
        return {"sum": stored["total"], "prices": [leg["price"] for leg in stored["legs"]]}


class Trading(BaseHarness[Any, int, Any]):
    """Makes one more step."""

    name: ClassVar[str] = "total"

    async def execute(self):
        self.update_state(lambda state: evolve(state, **{self.name: getattr(state, self.name) + 7}))
        yield 7, 7


class Summing(Trading):
    name = "sum"


@pytest.fixture(params=VERSIONS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"version-{request.param}.db.gz").read_bytes()))
    return path


def go_on(path: Path, harness: BaseHarness[Any, Any, Any]) -> Any:
    """Resume it, and return its state."""

    async def run() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(harness, name="one")

    trio.run(run)
    return harness.state


def test_there_is_a_golden_store_of_every_layout() -> None:
    assert sorted(path.name for path in GOLDEN.glob("*.gz")) == sorted(f"version-{version}.db.gz" for version in VERSIONS)


def test_its_harness_goes_on_from_its_last_step(golden: Path) -> None:
    harness = Trading(Book())

    assert go_on(golden, harness) == Book(28, [Leg(number) for number in range(1, 7)])
    assert harness.current_step == 7


def test_its_state_is_migrated_and_the_states_before_are_as_they_were(golden: Path) -> None:
    assert go_on(golden, Summing(Migrated())) == Migrated(28, [1, 2, 3, 4, 5, 6])

    with closing(SqliteReader(golden)) as reader:
        assert [decode(reader.state_at("one", step))["total"] for step in range(7)] == [0, 1, 3, 6, 10, 15, 21]
        assert decode(reader.state_at("one", 7)) == {"sum": 28, "prices": [1, 2, 3, 4, 5, 6]}
    assert prove(golden, head_path(golden).read_text(), deep=True).findings == []


def test_a_class_of_another_shape_is_refused_and_named_however_deep(golden: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        go_on(golden, Trading(Renamed()))

    (error,) = caught.value.exceptions
    assert isinstance(error, StateChanged)
    assert "legs[].price" in str(error)
    assert "legs[].amount" in str(error)


def test_its_ends_are_shown_as_finished_whatever_word_was_recorded(golden: Path, tmp_path: Path) -> None:
    with closing(SqliteStore(golden)):
        pass  # brings it up to date

    with closing(SqliteReader(golden)) as reader:
        assert {one.status for one in reader.harnesses()} == {Status.FINISHED}
        kinds = [record.kind for record in reader.records()]
        (tmp_path / "run.jsonl").write_text("".join(f"{_earlier_line(record)}\n" for record in reader.records()))
    assert (kinds.count("finished"), kinds.count("exhausted")) == (2, 0)
    with closing(sqlite3.connect(golden)) as db:
        assert db.execute("SELECT count(*) FROM events WHERE kind = 'finished'").fetchone() == (2,)
        assert db.execute("SELECT DISTINCT status FROM harness_status").fetchall() == [("finished",)]
    for run in (golden, tmp_path / "run.jsonl"):
        with analysis.open(run) as opened:
            assert opened.rows("SELECT DISTINCT status FROM harnesses") == [("finished",)]
            assert opened.rows("SELECT DISTINCT ended_by FROM attempts") == [("finished",)]
            assert opened.rows("SELECT count(*) FROM events WHERE kind = 'finished'") == [(2,)]
            assert opened.rows("SELECT count(*) FROM records WHERE kind = 'exhausted'") == [(0,)]


def _earlier_line(record: Record) -> str:
    """Return a line of the log as earlier versions wrote it."""
    fields = line(record)
    return encode({**fields, "event": fields["event"].replace("harness.finished", "harness.exhausted")})


@pytest.mark.parametrize(
    "verb",
    [
        ["status"],
        ["steps", "one"],
        ["state", "one", "3"],
        ["verify", "--deep"],
        ["export"],
        ["effects"],
        ["budgets"],
    ],
    ids=lambda verb: verb[0],
)
def test_commands_read_it(golden: Path, verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(golden)):
        pass  # brings it up to date
    monkeypatch.chdir(tmp_path)

    assert main([*verb, "--store", str(golden)]) == 0


def test_a_command_that_refuses_it_names_the_one_that_upgrades_it(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = golden.read_bytes()
    if main(["status", "--store", str(golden)]) != 0:
        (said,) = re.findall(r"`orchestrator (doctor --repair --store .*?)`", capsys.readouterr().err)
        assert golden.read_bytes() == before
        main(shlex.split(said))  # also where it then finds that the head beside the store is missing
        assert "upgraded from schema version" in capsys.readouterr().out

    assert main(["status", "--store", str(golden)]) == 0


def test_it_is_not_upgraded_while_a_program_runs_on_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"version-{VERSION - 1}.db.gz").read_bytes()))
    lock = RunLock(path)
    try:
        with pytest.raises(OwnedElsewhere, match="stop it"):
            upgrade(path)
    finally:
        lock.release()


def test_a_store_without_the_index_over_events_is_read_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Version 12 has no other table, view or row than version 11: only a program that writes has to upgrade a store."""
    path = tmp_path / "run.db"
    path.write_bytes(before := gzip.decompress((GOLDEN / "version-11.db.gz").read_bytes()))

    def told() -> list[str]:
        verbs = (["status"], ["steps", "one"], ["effects"], ["analyze", "why", "one"], ["analyze", "restarts"])
        assert [main([*verb, "--store", str(path)]) for verb in verbs] == [0] * len(verbs)
        with closing(SqliteReader(path)) as reader:
            return [capsys.readouterr().out, str(reader.records_of("one", ("started", "failed")))]

    found = told()
    assert path.read_bytes() == before

    upgrade(path)
    assert told() == found


MADE = """
from tests.orchestrator.store.test_golden import Book, Migrated, Renamed, Summing, Trading

def same(): return Trading(Book())
def renamed(): return Trading(Renamed())
def migrated(): return Summing(Migrated())
"""


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        ("same", 0, "one: Trading can be made"),
        ("renamed", 1, "legs[].price"),
        ("migrated", 0, "its state will be migrated from version 1 to 2"),
    ],
)
def test_doctor_says_beforehand_what_becomes_of_the_state(make: str, code: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"version-{VERSION}.db.gz").read_bytes()))
    (tmp_path / "made.py").write_text(MADE)
    (tmp_path / "run.toml").write_text(f'store = "run.db"\n[[harness]]\nname = "one"\nharness = "made:{make}"\n')

    found = list(run_file(tmp_path / "run.toml", path))

    assert said in found[-1].finding
    assert [check.level is Level.FAIL for check in found][-1] is bool(code)
    with closing(SqliteReader(path)) as reader:
        assert "migrated" not in [record.kind for record in reader.records()]


KILLED = """
import os, signal, sys
from pathlib import Path
from orchestrator.store import SqliteStore
from orchestrator.store.store_protocol import Migrate
from tests.orchestrator.store.test_golden import Migrated, Summing, go_on

commit = SqliteStore.commit

def killing(self, steps, operations=(), **options):
    is_it = any(isinstance(one, Migrate) for one in operations)
    if is_it and sys.argv[2] == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = commit(self, steps, operations, **options)
    if is_it:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

SqliteStore.commit = killing
go_on(Path(sys.argv[1]), Summing(Migrated()))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_a_migration_it_is_on_record_once_and_the_state_is_the_same(when: str, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"version-{VERSION}.db.gz").read_bytes()))
    ran = run_python("-c", KILLED, path, when, cwd=ROOT)
    assert ran.returncode == -signal.SIGKILL

    assert go_on(path, Summing(Migrated())) == Migrated(28, [1, 2, 3, 4, 5, 6])

    with closing(SqliteReader(path)) as reader:
        kinds = [record.kind for record in reader.records()]
        assert decode(reader.state_at("one", 6))["total"] == 21
    assert kinds.count("migrated") == 1
    assert prove(path, head_path(path).read_text(), deep=True).findings == []
