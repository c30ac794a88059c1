"""A store on PostgreSQL is copied into a file that says the same."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import trio

from harnesses.budgets.budget import Budget
from harnesses.data.large_values import LARGE_BYTES
from harnesses.effects.effect import EffectOutcome
from orchestrator.cli import main
from orchestrator.errors import StoreError, StoreUnusable, UsageError
from orchestrator.kill_switch import KillSwitch
from orchestrator.operating.copy_to_server import copy_to_server
from orchestrator.operating.postgres_copy import copy_store
from orchestrator.store import PostgresStore, SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, intent_row, outcome_row, step_row
from orchestrator.store.places.store_location import server_at
from orchestrator.store.store_operations import Fund
from orchestrator.store.store_protocol import Post
from tests.orchestrator.store.postgres.counting_program import Program
from tests.postgres_server import PostgresServer


def test_every_verb_reads_the_copy_of_a_store(
    server: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """G10: records, steps, states, messages, effects and budgets are the same, and all of it is sealed."""
    database, path = server.new_database(), tmp_path / "copy.db"
    with closing(PostgresStore(database)) as store:
        trio.run(Program(3, 20).run, store)
        waiting = claim(store, "waiting")
        fund = Fund("pool", Budget(steps=7), 1)
        store.commit([], [Post("waiting", "me", 1, '"hi"', id="a"), fund], effects=[intent_row(waiting, 1, "order")])

        assert main(["copy", database, str(path), "--json"]) == 0

        assert json.loads(capsys.readouterr().out) == {"store": str(path), "records": store.last_seq()}
        with closing(SqliteReader(path)) as copy:
            assert copy.records() == store.records()
            assert (copy.accounts(), copy.effects()) == (store.accounts(), store.effects())
            assert copy.mailbox("waiting") == store.mailbox("waiting")
            for name in ("h0", "h1", "h2"):
                assert (copy.steps(name), copy.state_at(name, 20)) == (store.steps(name), store.state_at(name, 20))
            known, owned = copy.harnesses(), [one.name for one in store.harnesses() if one.owned]
            assert [(one.name, one.status) for one in known] == [(one.name, one.status) for one in store.harnesses()]
            assert (owned, [one.name for one in known if one.owned]) == (["waiting"], [])
    assert main(["verify", "--store", str(path)]) == 0
    with closing(SqliteStore(path)) as opened:
        assert claim(opened, "h0").step == 20


def test_a_copy_is_a_new_file_or_none(server: PostgresServer, tmp_path: Path) -> None:
    database, there, path = server.new_database(), tmp_path / "there.db", tmp_path / "copy.db"
    there.touch()
    with pytest.raises(UsageError, match="exists already"):
        copy_store(database, there)
    with pytest.raises(StoreUnusable, match="has no store in schema"):
        copy_store(database, path)
    PostgresStore(database).close()
    with psycopg.connect(database) as db:
        db.execute("DROP TABLE orchestrator.pools")
    with pytest.raises(StoreError, match="pools"):
        copy_store(database, path)

    assert not path.exists()


def test_a_file_is_copied_to_a_server_and_back(
    server: PostgresServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes on there; and what comes back is what was there, with the kill switch."""
    first, database, second = tmp_path / "first.db", server.new_database(), tmp_path / "second.db"
    with closing(SqliteStore(first)) as store:
        trio.run(Program(3, 20).run, store)
        waiting = claim(store, "waiting")
        fund = Fund("pool", Budget(steps=7), 1)
        store.commit([], [Post("waiting", "me", 1, '"hi"', id="a"), fund], effects=[intent_row(waiting, 1, "order")])
    KillSwitch(first).put_on("h1", reason="halt", by="anna")

    assert main(["copy", str(first), database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 69
    assert main(["copy", database, str(second)]) == 0

    with closing(SqliteReader(first)) as before, closing(SqliteReader(second)) as after:
        assert after.records() == before.records()
        assert after.harnesses() == before.harnesses()
        assert (after.accounts(), after.effects()) == (before.accounts(), before.effects())
    assert KillSwitch(second).which() == KillSwitch(first).which()
    assert main(["verify", "--store", str(second)]) == 0
    with closing(PostgresStore(database)) as store:
        assert store.kill_switch.which().keys() == {"h1"}
        claimed = claim(store, "h0")
        assert claimed.step == 20
        assert all(store.commit([step_row(claimed, 21)]).seqs)
    capsys.readouterr()
    assert main(["copy", str(first), database]) == 2
    assert "has records already" in capsys.readouterr().err


def test_what_only_a_file_can_have_is_not_copied_to_a_server(database: str, tmp_path: Path) -> None:
    path, to = tmp_path / "run.db", server_at(database)
    with closing(SqliteStore(path)) as store:
        one = claim(store, "one")
        store.commit([step_row(one, number) for number in range(1, 4)])
        with pytest.raises(UsageError, match="a program runs on it"):
            copy_to_server(path, to)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM records WHERE seq = 2")
        db.commit()
    with pytest.raises(UsageError, match="was pruned"):
        copy_to_server(path, to)
    hidden = tmp_path / "hidden.db"
    with closing(SqliteStore(hidden, key=bytes(32))) as store:
        claim(store, "one")
    with pytest.raises(UsageError, match="is encrypted"):
        copy_to_server(hidden, to)
    large = tmp_path / "large.db"
    with closing(SqliteStore(large)) as store:
        one = claim(store, "one")
        value = outcome_row(one, 1, "read", EffectOutcome.CONFIRMED, result="x" * (LARGE_BYTES + 1))
        store.commit([], effects=[intent_row(one, 1, "read"), value])
    with pytest.raises(UsageError, match="large values in files"):
        copy_to_server(large, to)
