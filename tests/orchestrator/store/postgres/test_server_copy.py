"""A store on a server is read from a local copy that is as the server's store, and what is written reaches the server."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio

from harnesses.budgets.budget import Budget
from orchestrator import analysis
from orchestrator.cli import main
from orchestrator.errors import StoreError, StoreUnusable, UsageError
from orchestrator.events import Started
from orchestrator.history.forking import fork
from orchestrator.history.state_at_step import state_at
from orchestrator.kill_switch import ALL, KillSwitch
from orchestrator.lifecycle import Status
from orchestrator.operating.store_writing import commit
from orchestrator.store import PostgresStore, SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, do, intent_row, step_row
from orchestrator.store.file.server_copy import Server, copy_path
from orchestrator.store.places import copy_refresh, store_location
from orchestrator.store.places.store_location import keep_fresh, local_path, server_at
from orchestrator.store.postgres import postgres_order_table
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import LimitedDatabase
from orchestrator.store.postgres.postgres_reader import PostgresReader
from orchestrator.store.store_operations import Fund
from orchestrator.store.store_protocol import Append, ConsumedRow, Post
from tests import ROOT
from tests.orchestrator.store.postgres.conftest import child
from tests.orchestrator.store.postgres.counting_program import Program
from tests.postgres_server import PostgresServer

Run = Callable[..., str]
_COPYING = """
SELECT state, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND query = 'COMMIT' AND pid <> pg_backend_pid()
"""


@pytest.fixture
def run(database: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Gives a verb to the command, with the store on the server, and returns what it writes."""

    def verb(*words: str, code: int = 0) -> str:
        found = main([*words, "--store", database])
        said = capsys.readouterr()
        assert found == code, said.err
        return said.out if found == 0 else said.err

    return verb


def assert_same(server: PostgresReader, copy: SqliteReader) -> None:
    """Assert that a copy says what the server does."""
    assert copy.records(limit=100_000) == server.records(limit=100_000)
    assert copy.harnesses() == server.harnesses()
    assert (copy.accounts(), copy.effects(), copy.children()) == (server.accounts(), server.effects(), server.children())
    for one in server.harnesses():
        assert copy.mailbox(one.name) == server.mailbox(one.name)
        assert copy.step_rows(one.name) == server.step_rows(one.name)
        assert copy.state_versions(one.name) == server.state_versions(one.name)
        assert copy.state_at(one.name, one.current_step) == server.state_at(one.name, one.current_step)


def test_a_copy_follows_the_server_in_whatever_is_committed(database: str) -> None:
    with closing(PostgresStore(database, key=bytes(32))) as store:
        one = claim(store, "one")
        with closing(SqliteReader(local_path(database))) as copy:
            commits: list[Callable[[], object]] = [
                lambda: store.commit([step_row(one, 1)]),
                lambda: do(store, Post("one", "me", 1, '"hi"', id="a")),
                lambda: store.commit([], [Fund("pool", Budget(steps=7), 1)], effects=[intent_row(one, 2, "order")]),
                lambda: store.commit([step_row(one, 2)], consumed=[ConsumedRow(store.mailbox("one")[0].seq, one.harness, 2)]),
                lambda: trio.run(Program(2, 700).run, store),
                lambda: fork(store, "h0", 5, to="other"),
                lambda: claim(store, "other"),
            ]
            for commit in commits:
                commit()
                local_path(database)
                assert_same(store, copy)
            path = local_path(database)
    with closing(SqliteReader(local_path(database))) as copy:
        assert not any(one.owned for one in copy.harnesses())
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_copy_is_made_anew_if_the_store_is_another_one(database: str, cache: Path) -> None:
    """Made anew under the same address, or put back to an earlier moment and gone on from there."""
    with closing(PostgresStore(database)) as store:
        trio.run(Program(1, 5).run, store)
        local_path(database)
    with psycopg.connect(database) as db:
        db.execute("DELETE FROM orchestrator.records WHERE seq > 3")
        db.execute("UPDATE orchestrator.harnesses SET event = '{}'")
    with closing(PostgresStore(database)) as store:
        claimed = claim(store, "h0")
        store.commit([step_row(claimed, claimed.step + number) for number in range(1, 9)])
        with closing(SqliteReader(local_path(database))) as copy:
            assert copy.records() == store.records()
    with psycopg.connect(database) as db:
        db.execute("DROP SCHEMA orchestrator CASCADE")
    for head in cache.rglob("*-head"):  # of the one that was replaced
        head.unlink()
    with closing(PostgresStore(database)) as store:
        trio.run(Program(2, 3).run, store)
        path = local_path(database)
        with closing(SqliteReader(path)) as copy:
            assert_same(store, copy)
        path.write_bytes(b"no database" * 1000)
        claim(store, "new")
        with closing(SqliteReader(local_path(database))) as copy:
            assert_same(store, copy)


def test_a_large_copy_is_made_in_parts_that_are_kept(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends the connection whenever a part has been read, and its transaction has ended by then."""
    for name, value in {"_PAGE": 10, "_PAGES": 3}.items():
        monkeypatch.setattr(copy_refresh, name, value)
    with closing(PostgresStore(database)) as store:
        trio.run(Program(3, 20).run, store)
        do(store, Post("h0", "me", 1, '"hi"', id="a"))
        path, states = copy_path(server_at(database)), list[Any]()
        index: Callable[[Any], None] = vars(copy_refresh)["_index"]

        def indexing(copy: Any) -> None:
            index(copy)
            with psycopg.connect(database, autocommit=True) as db:
                states.extend(db.execute(_COPYING).fetchall())

        monkeypatch.setattr(copy_refresh, "_index", indexing)
        counts: list[int] = []
        while not counts or counts[-1] < store.last_seq():
            with suppress(StoreUnusable):
                local_path(database)
            with closing(SqliteReader(path)) as copy:
                counts.append(copy.last_seq())
            assert len(counts) < 10

        assert counts[:-1] == list(range(30, store.last_seq(), 30))
        assert {state for state, _ in states} == {"idle"}
        with closing(SqliteReader(path)) as copy:
            assert_same(store, copy)


def test_a_page_has_few_bytes_or_one_row(database: str) -> None:
    """A step has its input twice."""
    sizes = [40_000, 40_000, 40_000, 400_000, 10, 10]
    with closing(PostgresStore(database)) as store:
        claimed = claim(store, "one")
        first = store.last_seq()
        store.commit([step_row(claimed, step, input="x" * size) for step, size in enumerate(sizes, 1)])
    with closing(LimitedDatabase(Address(database, "orchestrator", 10.0), 10.0)) as db:
        assert [len(page) for _, page in copy_refresh.pages(db, "records", first, first + len(sizes))] == [3, 1, 2]


def test_verbs_read_the_store_on_a_server(database: str, run: Run, tmp_path: Path) -> None:
    with closing(PostgresStore(database)) as store:
        trio.run(Program(2, 20).run, store)
    assert {line["harness"] for line in map(json.loads, run("status", "--json").splitlines())} == {"h0", "h1"}
    assert json.loads(run("state", "h0", "--json"))["state"] == {"total": 210}
    assert len(run("steps", "h1", "--json").splitlines()) == 20
    for words in (["show", "h0"], ["logs"], ["budgets"], ["approvals"], ["effects"], ["metrics"], ["analyze", "why", "h0"]):
        run(*words)
    assert run("export", "h0", "--format", "csv").count("\n") == 21
    assert "40" in run("analyze")
    assert run("sql", database, "select count(*) as steps from steps", "--json") == '{"steps":40}\n'
    with analysis.open(database) as opened:
        assert len(opened.rows("select harness from steps")) == 40
    assert state_at(database, "h0", 3) == {"total": 6}
    assert "untouched" in run("verify")
    for words in (["analyze", "why", "nosuch"], ["analyze", "slow", "--harness", "nosuch"]):
        assert "server-copy" not in run(*words, code=2)
    assert "taken away" in run("prune", "--keep", "5")
    with pytest.raises(UsageError, match="for reading"):
        SqliteStore(local_path(database))


def test_orders_are_written_to_the_server(database: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresStore(database)) as store:
        one = claim(store, "one")
        store.commit([step_row(one, 1)])
        store.commit([], [Fund("pool", Budget(steps=7), 1)], effects=[intent_row(one, 2, "order")])
    run("send", "one", '{"a": 1}')
    run("effects", "settle", "one", "order", "--as", "done", "--reason", "looked")
    run("budgets", "set", "pool", "steps=9")
    run("fork", "one", "1", "--as", "two")
    run("kill-switch", "on", "--harness", "one", "--reason", "halt")
    assert "halt" in run("kill-switch")
    assert "kill switch" in run("doctor")
    with closing(PostgresStore(database)) as store:
        assert [message.body for message in store.mailbox("one")] == ['{"a":1}']
        assert [effect.settled_by for effect in store.effects("one")] == ["operator"]
        assert store.accounts()["pool"].budget.steps == 9
        assert store.state_at("two", 1) == store.state_at("one", 1)
        assert store.kill_switch.which().keys() == {"one"}
    run("kill-switch", "off", "--harness", "one")
    assert run("kill-switch") == ""


def test_an_order_that_is_recorded_does_not_fail_since_the_copy_cannot_be_written(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever saw an error would send the message a second time."""
    with closing(PostgresStore(database)) as store:
        claim(store, "one")
        path = local_path(database)
        path.unlink()
        path.mkdir()

        assert commit(str(path), Post("one", "me", 1, '"hi"', id="a"))

        assert [message.body for message in store.mailbox("one")] == ['"hi"']
    assert "recorded; what is shown is not up to date: " in capsys.readouterr().err


def test_kill_switches_on_the_server_name_no_file_here(database: str, tmp_path: Path) -> None:
    """Whoever may write to the database may not write to the files of those who read it."""
    PostgresStore(database).close()
    precious = tmp_path / "precious"
    names = [ALL, "one", str(precious), "../made", "..", "", "a/b"]
    with psycopg.connect(database, options="-csearch_path=orchestrator") as db:
        for name in names:
            db.execute("INSERT INTO kill_switches VALUES (%s, '{}')", (name,))
    path = local_path(database)
    assert KillSwitch(path).which().keys() == {ALL, "one"}
    assert not precious.exists()
    assert not (path.parent / "made").exists()
    precious.write_text("dear")
    with psycopg.connect(database, options="-csearch_path=orchestrator") as db:
        db.execute("DELETE FROM kill_switches")
        db.execute("UPDATE meta SET ownership = ownership + 1")
    local_path(database)
    assert KillSwitch(path).which() == {}
    assert precious.read_text() == "dear"


def test_a_damaged_copy_is_made_anew_and_a_disk_that_fails_is_named(database: str) -> None:
    with closing(PostgresStore(database)) as store:
        trio.run(Program(2, 700).run, store)
        path = local_path(database)
        with closing(sqlite3.connect(path)) as copy:
            (page,) = copy.execute("SELECT rootpage FROM sqlite_master WHERE name = 'records'").fetchone()
            (size,) = copy.execute("PRAGMA page_size").fetchone()
        with path.open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(b"damage" * 100)
        claim(store, "new")
        with closing(SqliteReader(local_path(database))) as copied:
            assert_same(store, copied)

        path.with_name("state.json").unlink()
        path.with_name("state.json").mkdir()
        with pytest.raises(StoreError, match="cannot be brought up to date: "):
            local_path(database)


def test_what_keeps_a_copy_fresh_goes_on_after_any_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks, went_on = list[Path](), threading.Event()

    def refresh(path: Path) -> None:
        looks.append(path)
        if len(looks) < 3:
            raise ValueError("odd")
        went_on.set()

    monkeypatch.setattr(store_location, "refresh", refresh)
    keep_fresh(copy_path(Server("a", "b", "c", "d")), 0.01)
    assert went_on.wait(10)
    assert capsys.readouterr().err == "orchestrator: what is shown is no longer up to date: odd\n"


def test_without_a_home_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StoreUnusable, match="have XDG_CACHE_HOME name a folder"):
        copy_path(Server("a", "b", "c", "d"))


def test_messages_name_the_address(database: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_order_table, "_TAKE_S", 0.1)
    with closing(PostgresStore(database)) as store:
        claimed = claim(store, "one")
        store.commit([], [Append(claimed.harness, 1, 1, 0, 1, Started(0), Status.RUNNING)])
        assert f"'one' did not get the order to pause, which is withdrawn: expected its owner, run {store.run}" in run(
            "pause", "one", code=1
        )
    said = [run("pause", "one", code=1), run("budgets", "set", "x", "steps=1", code=2), run("approve", "x", code=2)]
    assert all(database in one and "server-copy" not in one for one in said)


def test_a_server_that_does_not_answer_fails_a_verb_soon(
    server: PostgresServer, database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process for the connection hangs, and then all of it."""
    monkeypatch.setattr(copy_refresh, "WAIT_S", 0.3)
    with closing(PostgresStore(database)) as store:
        trio.run(Program(1, 1).run, store)
    run("status")
    with psycopg.connect(database) as db:
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        backends = [pid for (pid,) in db.execute(asked)]
    stopped = [*backends, server.pid]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            assert "cannot be reached" in run("status", code=2)
            assert time.monotonic() - began < 10
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    run("status")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:pa55@127.0.0.1:1/x",
        "postgresql://me:#pa55@127.0.0.1:1/x",
        "postgresql://me@127.0.0.1:1/x?password=pa55",
    ],
)
def test_a_password_in_an_address_is_refused_and_never_shown(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--store", address]) == 2

    said = capsys.readouterr().err
    assert "pgpass" in said
    assert "pa55" not in said


def test_reading_does_not_import_trio(database: str, cache: Path) -> None:
    PostgresStore(database).close()
    asked = f"main(['status', '--store', {database!r}])"
    code = f"import sys; from orchestrator.cli import main; {asked}; assert 'trio' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.returncode, done.stderr[-19:]) == (0, "has no harness yet\n")


def test_readers_do_not_collide(database: str) -> None:
    """Three processes make the first copy at once, while a program commits."""
    with closing(PostgresStore(database)) as store:
        trio.run(Program(20, 100).run, store)
        command = [sys.executable, "-m", "orchestrator", "status", "--json", "--store", database]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with ExitStack() as ending:
            readers = [ending.enter_context(child(command, **pipes)) for _ in range(3)]
            one = claim(store, "one")
            for number in range(1, 200):
                store.commit([step_row(one, number)])
            said = [reader.communicate(timeout=60) for reader in readers]
        assert [(len(out.splitlines()) >= 20, errors) for out, errors in said] == [(True, "")] * 3
        with closing(SqliteReader(local_path(database))) as copy:
            assert_same(store, copy)
