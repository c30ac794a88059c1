"""A store on PostgreSQL is copied into a file that says the same."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import trio

from harnesses.budgets.budget import Budget
from orchestrator.cli import main
from orchestrator.errors import StoreError, StoreUnusable, UsageError
from orchestrator.operating.postgres_copy import copy_store
from orchestrator.store import PostgresStore, SqliteReader, SqliteStore
from orchestrator.store.conformance import claim, intent_row
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

    assert [file.name for file in tmp_path.iterdir()] == ["there.db"]
