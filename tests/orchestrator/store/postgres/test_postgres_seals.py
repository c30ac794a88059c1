"""G11: whatever is changed in a database behind the programs is found by `verify`, the first record by its name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import psycopg
import pytest
import trio

from harnesses.budgets.budget import Budget
from harnesses.effects.effect import EffectOutcome
from orchestrator.cli import main
from orchestrator.errors import StoreCorrupt, StoreUnusable
from orchestrator.store import PostgresStore
from orchestrator.store.conformance import claim, intent_row, outcome_row, step_row
from orchestrator.store.encryption import KEY_FILE
from orchestrator.store.places.store_location import local_path
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import limited
from orchestrator.store.postgres.postgres_seals import seal_new
from orchestrator.store.store_operations import Fund
from orchestrator.store.store_protocol import Post
from tests.orchestrator.store.postgres.counting_program import Program

Verify = Callable[..., tuple[list[dict[str, object]], dict[str, object]]]
SWAPPED = "; ".join(f"UPDATE records SET seq = {to} WHERE seq = {of}" for of, to in ((20, -1), (21, 20), (-1, 21)))

TABLES = ("records", "seals", "pools", "harnesses", "mailbox", "claims", "open_reservations", "unsealed")


@pytest.fixture
def verify(database: str, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Verifies the test's store, and returns what was found, and what there is."""

    def found(*words: str, code: int) -> tuple[list[dict[str, object]], dict[str, object]]:
        assert main(["verify", "--json", "--store", database, *words]) == code, capsys.readouterr().err
        *findings, last = map(json.loads, capsys.readouterr().out.splitlines())
        return findings, last

    return found


@pytest.fixture
def made(database: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A store with every kind of row, at rest, and a connection of somebody else to it."""
    with closing(PostgresStore(database)) as store:
        trio.run(Program(2, 30).run, store)
        one = claim(store, "one")
        store.commit([step_row(one, 1)], [Fund("pool", Budget(steps=7), 1)], effects=[intent_row(one, 2, "order")])
        store.commit([], [Post("one", "me", 1, '"hi"', id="a")])
    with psycopg.connect(database, autocommit=True, options="-csearch_path=orchestrator") as db:
        yield db


def test_what_was_changed_in_the_database_is_found(
    made: psycopg.Connection[tuple[object, ...]], verify: Verify, database: str
) -> None:
    findings, before = verify(code=0)
    assert (findings, before["untouched"], before["unsealed_records"]) == ([], True, 0)
    (last,) = made.execute("SELECT max(seq) FROM records").fetchone() or (0,)
    assert before["sealed_records"] == last
    local_path(database)  # which has what was recorded
    deeds: dict[str, tuple[str, object, object]] = {
        "UPDATE records SET body = body || ' ' WHERE seq = 9": ("edited", "record", 9),
        "UPDATE records SET time_us = time_us + 1 WHERE seq = 9": ("edited", "record", 9),
        "DELETE FROM records WHERE seq = 9": ("dropped", "record", 9),
        f"DELETE FROM records WHERE seq = {last}": ("cut off", "record", last),
        SWAPPED: ("reordered", "record", 20),
        "UPDATE pools SET spent = '{}', limits = '{\"steps\":99}'": ("edited", "pools", None),
        "UPDATE harnesses SET status = 'completed' WHERE name = 'one'": ("edited", "harnesses", None),
        "DELETE FROM mailbox": ("dropped", "mailbox", None),
        "UPDATE claims SET run = 'me'": ("edited", "claims", None),
        "INSERT INTO open_reservations VALUES (1, 1, 1, 1, 1, '[]', '{}')": ("inserted", "open_reservations", None),
        "UPDATE seals SET notes = '[]' WHERE position = 2": ("edited", "seal", None),
        "DELETE FROM seals WHERE position = 1": ("dropped", "seal", 1),
        "DELETE FROM seals; DELETE FROM unsealed": ("inserted", "record", 1),
    }
    for deed, expected in deeds.items():
        for table in TABLES:
            made.execute(f"CREATE TEMP TABLE kept_{table} AS SELECT * FROM {table}".encode())
        for part in deed.split("; "):
            made.execute(part.encode())

        findings, said = verify(code=5)

        assert said["untouched"] is False, deed
        assert (findings[0]["finding"], findings[0]["where"], findings[0]["seq"]) == expected, (deed, findings)
        for table in TABLES:
            made.execute(f"DELETE FROM {table}".encode())
            made.execute(f"INSERT INTO {table} SELECT * FROM kept_{table}".encode())
            made.execute(f"DROP TABLE kept_{table}".encode())
    assert verify(code=0)[0] == []


def test_a_chain_that_was_cut_off_is_found_where_its_head_was_seen(
    made: psycopg.Connection[tuple[object, ...]], verify: Verify, database: str, cache: Path
) -> None:
    """Whoever has the database can cut it off unseen there, but not on the disks of the machines."""
    head = str(verify(code=0)[1]["head"])
    (last,) = made.execute("SELECT first_seq FROM seals ORDER BY position DESC LIMIT 1").fetchone() or (0,)
    made.execute("DELETE FROM records WHERE seq >= %s", (last,))
    made.execute("DELETE FROM seals WHERE last_seq >= %s", (last,))

    findings, _ = verify(code=5)
    assert "cut off" in {finding["finding"] for finding in findings}
    with pytest.raises(StoreCorrupt, match=r"is older than its head on this machine, .*-head, or was changed: expected seal"):
        PostgresStore(database)
    for file in cache.rglob("*-head"):
        file.unlink()
    assert "cut off" in {finding["finding"] for finding in verify("--head", head, code=5)[0]}


def test_another_store_at_the_address_is_found_by_machines_that_have_seen_the_one_before(
    made: psycopg.Connection[tuple[object, ...]], verify: Verify, database: str, cache: Path
) -> None:
    verify(code=0)
    (head,) = cache.rglob("*-head")
    made.execute("UPDATE meta SET store = gen_random_uuid()::text")

    (found,), _ = verify(code=5)

    assert (found["finding"], found["where"]) == ("edited", "meta")
    assert f"remove {head} if you replaced the database yourself" in str(found["text"])
    with pytest.raises(StoreCorrupt, match=f"another store than this machine has seen there: expected {head.name[:36]} in"):
        PostgresStore(database)
    assert [*cache.rglob("*-head")] == [head]
    head.unlink()
    assert verify(code=0)[0] == []
    for other in cache.rglob("*-head"):
        other.unlink()
    made.execute("UPDATE meta SET store = '../elsewhere'")
    assert [found["where"] for found in verify(code=5)[0]] == ["meta"]


def test_what_is_gone_altogether_is_missed_under_the_address_of_the_server(
    made: psycopg.Connection[tuple[object, ...]], verify: Verify, database: str, cache: Path
) -> None:
    verify(code=0)
    for table in TABLES:
        made.execute(f"DELETE FROM {table}".encode())
    assert "cut off" in {finding["finding"] for finding in verify(code=5)[0]}
    for head in cache.rglob("*-head"):
        head.unlink()
    found, _ = verify(code=5)
    assert "proof.db" not in str(found)
    assert database in str(found)


def test_rows_that_only_the_database_says_a_program_has_changed_are_told_while_none_runs(
    made: psycopg.Connection[tuple[object, ...]], verify: Verify
) -> None:
    assert verify(code=0)[1]["notices"] == []
    made.execute("UPDATE pools SET limits = '{\"steps\":99}'")
    made.execute("INSERT INTO unsealed VALUES ('pools', '[\"pool\"]'), ('pools', '[\"pool\"]')")

    (notice,) = cast("list[str]", verify(code=0)[1]["notices"])

    assert "a program changed 1 rows since the last seal is said by table unsealed alone" in notice
    assert notice.endswith('the next program seals them as they are: pools ["pool"]')


def test_programs_that_run_are_verified_meanwhile(database: str, verify: Verify) -> None:
    """What is not sealed yet is told, rows that changed since are no findings, and one program seals at a time."""
    with closing(PostgresStore(database)) as store, closing(PostgresStore(database)) as other:
        one = claim(store, "one")
        store.commit([step_row(one, 1)], [Fund("pool", Budget(steps=7), 1)])
        found, said = verify(code=0)
        assert (found, said["sealed_records"], said["unsealed_records"]) == ([], 0, store.last_seq())
        assert said["notices"] == []

        store.sealing.seal()
        other.sealing.seal()
        store.commit([], [Fund("pool", Budget(steps=8), 2)])

        found, said = verify(code=0)
        assert (found, said["unsealed_records"]) == ([], 1)
        other.sealing.seal()
        assert verify(code=0)[1]["unsealed_records"] == 1, "the other has the lock"
    assert verify(code=0)[1]["unsealed_records"] == 0


def test_a_large_tail_with_large_records_is_sealed_in_pieces(database: str, verify: Verify) -> None:
    with closing(PostgresStore(database)) as store:
        one = claim(store, "one")
        store.commit([step_row(one, step) for step in range(1, 3000)])
        store.commit([step_row(one, 3000)._replace(body='{"delta":{},"input":"' + "\u00e9" * 5_000_000 + '"}')])
        store.commit([step_row(one, step) for step in range(3001, 3100)])
        with limited(Address(database, store.schema, 10), 10) as db:
            newest = seal_new(db)
            assert newest is not None
            assert newest.last_seq == store.last_seq()
            assert seal_new(db) is None
    assert verify("--deep", code=0)[0] == []


def test_an_encrypted_store_has_its_fields_in_the_clear_for_those_with_the_key(
    database: str, verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text(bytes(range(32)).hex())
    monkeypatch.setenv(KEY_FILE, str(tmp_path / "key"))
    with closing(PostgresStore(database)) as store:
        trio.run(Program(1, 30).run, store)
        one = claim(store, "one")
        result = outcome_row(one, 1, "order", EffectOutcome.CONFIRMED, result="hidden-result")
        store.commit([], effects=[intent_row(one, 1, "order"), result])
        assert store.effects("one")[0].result == "hidden-result"
    with psycopg.connect(database, options="-csearch_path=orchestrator") as db:
        states = "SELECT body, state FROM records UNION ALL SELECT initial_state, event FROM harnesses"
        stored = str(db.execute(states.encode()).fetchall())
    assert "hidden-result" not in stored
    assert "total" not in stored
    assert main(["state", "h0", "--store", database, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == {"total": 465}
    assert verify("--deep", code=0)[0] == []

    monkeypatch.delenv(KEY_FILE)

    assert verify(code=0)[0] == []
    with pytest.raises(StoreUnusable, match="is encrypted: expected its key"):
        PostgresStore(database)
    with pytest.raises(StoreUnusable, match="expected the key that it was encrypted with"):
        PostgresStore(database, encryption_key=bytes(32))


def test_a_server_that_is_away_is_told_once_and_its_return_too(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither is told where only the session was ended."""
    monkeypatch.setattr("orchestrator.store.postgres.postgres_store.SEAL_EVERY_S", 0.05)
    name = database.rpartition("/")[2]
    end_sealing = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND query NOT LIKE '%%leases%%'"
    said = ""

    def wait_said(text: str) -> None:
        nonlocal said
        give_up = time.monotonic() + 10
        while text not in said:
            assert time.monotonic() < give_up, said
            time.sleep(0.02)
            said += capsys.readouterr().err

    with psycopg.connect(database.replace(f"/{name}", "/postgres"), autocommit=True) as db, closing(PostgresStore(database)):
        db.execute(end_sealing, (name,))
        time.sleep(0.3)
        assert capsys.readouterr().err == ""
        db.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        db.execute(end_sealing, (name,))
        wait_said("waiting for the server, and nothing is sealed meanwhile")
        db.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        wait_said(" is reached again, and sealed")

    assert said.count("nothing is sealed") == said.count("reached again") == 1
