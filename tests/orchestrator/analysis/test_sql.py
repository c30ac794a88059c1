"""`analysis.query`: the same walls from Python, over a store, a log and exported Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

pytest.importorskip("duckdb")
pytest.importorskip("duckdb_ext")

import duckdb

from orchestrator import Orchestrator, analysis
from orchestrator.analysis.sql.query_process import wall_in
from orchestrator.analysis.sql.sql_columns import VIEWS
from orchestrator.analysis.sql.sql_room import Page, QueryFailed, Room
from tests import ROOT
from tests.orchestrator.analysis.hostile_sql import FILES, SETTINGS, WRITING
from tests.orchestrator.commanded import HOSTILE, Hostile, Three

LOG = ROOT / "docs" / "reference" / "run.jsonl"
SEEN = "SELECT harness, step_number, output FROM steps ORDER BY seq"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as a store, as a log, and exported."""
    folder = tmp_path_factory.mktemp("sql")

    async def record() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "run.jsonl", handle_signals=False) as orchestrator:
            await orchestrator.start(Three(0), name="three").wait()
            hostile = orchestrator.start(Hostile(0), name="hostile")
            async for _ in hostile.steps():
                hostile.stop()

    trio.run(record)
    (folder / "exported").mkdir()
    with analysis.open(folder / "run.db") as run:
        run.db.execute(f"COPY (FROM records) TO '{folder}/exported/part.parquet' (FORMAT parquet)")
    return folder


@pytest.fixture
def run() -> Iterator[analysis.Run]:
    with analysis.open(LOG) as opened:
        yield opened


def test_rows_have_the_types_of_python(run: analysis.Run) -> None:
    found = analysis.query(
        run, "SELECT seq, timestamp, round(equity, 2)::DECIMAL(9, 2) AS equity, latched FROM equity LIMIT 1"
    )

    assert found.types == ("BIGINT", "TIMESTAMP", "DECIMAL(9,2)", "BOOLEAN")
    ((seq, timestamp, equity, latched),) = found
    assert isinstance(seq, int)
    assert isinstance(timestamp, datetime)
    assert isinstance(equity, Decimal)
    assert latched is False


def test_rows_can_be_had_as_frames(run: analysis.Run) -> None:
    found = analysis.query(run, "SELECT harness, count(*) AS steps FROM steps GROUP BY ALL ORDER BY ALL LIMIT 2")

    assert found.dicts() == [{"harness": "features", "steps": 13}, {"harness": "flaky", "steps": 14}]
    assert found.df().to_dict("records") == found.pl().to_dicts() == found.dicts()


def test_a_limit_bounds_what_is_fetched(run: analysis.Run) -> None:
    found = analysis.query(run, "FROM range(1000000000000)", limit=5)

    assert (len(found), found.more) == (5, True)


def test_a_run_that_is_open_is_not_opened_to_the_query(run: analysis.Run) -> None:
    run.db.execute("CREATE TABLE mine AS SELECT 1 AS a")

    with pytest.raises(QueryFailed, match="no view 'mine'"):
        analysis.query(run, "FROM mine")


@pytest.mark.parametrize("name", ["run.db", "run.jsonl", "exported"])
def test_every_source_is_read_behind_the_same_walls(folder: Path, name: str) -> None:
    with Room(str(folder / name)) as room:
        pages = [said.rows for said in room.ask(SEEN) if isinstance(said, Page)]
        for query in ("FROM store.records", "FROM sqlite_scan('{}', 'records')".format(folder / "run.db"), "FROM exported"):
            with pytest.raises(QueryFailed):
                list(room.ask(query))

    assert [row[:2] for page in pages for row in page][:3] == [["three", 1], ["three", 2], ["three", 3]]


@pytest.mark.parametrize("name", ["run.db", "run.jsonl", "exported"])
def test_every_view_can_be_read_and_is_as_described(folder: Path, name: str) -> None:
    with Room(str(folder / name)) as room:
        for view, described in VIEWS.items():
            head, *_ = room.ask(f"FROM {view}")
            assert head.columns == tuple(one.name for one in described.columns)
            assert head.types == tuple(one.type for one in described.columns)


def test_a_hostile_run_can_be_asked_about(folder: Path) -> None:
    with Room(str(folder / "run.db")) as room:
        (page,) = [
            said for said in room.ask("SELECT output FROM steps WHERE harness = 'hostile' LIMIT 1") if isinstance(said, Page)
        ]

    assert json.loads(page.rows[0][0]) == HOSTILE


def test_a_run_can_be_asked_while_it_goes_on_and_by_the_program_that_records_it(tmp_path: Path) -> None:
    async def record() -> Any:
        async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
            await orchestrator.start(Three(0), name="three").wait()
            with analysis.open(tmp_path / "run.db") as run:
                found = await trio.to_thread.run_sync(analysis.query, run, "SELECT count(*) FROM steps")
            await orchestrator.start(Three(0), name="four").wait()
            return found.rows

    assert trio.run(record) == [(3,)]


# The extension for SQLite opens files by itself: before it stands the judge.
UNJUDGED = [query for query in (*FILES, *WRITING, *SETTINGS) if "sqlite" not in query and query.strip(" -;")]


@pytest.mark.parametrize("query", UNJUDGED)
def test_the_walls_hold_also_against_what_the_judge_did_not_see(folder: Path, tmp_path: Path, walled: Any, query: str) -> None:
    (tmp_path / "secret.csv").write_text("a,b\nmarked,2\n")
    before = {path: path.read_bytes() for path in (folder / "run.db", folder / "run.jsonl", tmp_path / "secret.csv")}

    try:
        found = str(getattr(walled.execute(query.format(folder=tmp_path)), "fetchall", str)())
    except (duckdb.Error, RuntimeError) as error:
        found = str(error)

    assert "marked" not in found
    assert {path: path.read_bytes() for path in before} == before
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert walled.execute("SELECT current_setting('enable_external_access')").fetchone() == (False,)
    assert walled.execute("SELECT current_setting('memory_limit')").fetchone() == ("488.2 MiB",)


@pytest.fixture(scope="module")
def walled(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """What every query is put to, one after the other: what one of them has changed does not help the next."""
    with analysis.open(folder / "run.db") as run:
        yield wall_in(run, [str(folder / "run.db")], str(tmp_path_factory.mktemp("temporary")))
