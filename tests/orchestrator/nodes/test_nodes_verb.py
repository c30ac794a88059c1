"""The verbs of fleets refuse what they cannot do in a line, and never wait for ever."""

from __future__ import annotations

import json
import re
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
import trio

from orchestrator import PostgresStore, events
from orchestrator.cli import main
from orchestrator.cli.nodes import nodes_verb
from orchestrator.cli.nodes.node_file import read_fleet
from orchestrator.errors import StoreUnusable, UsageError
from orchestrator.lifecycle import Status
from orchestrator.nodes.run_node import run_node
from orchestrator.store.conformance import claim, event_row
from orchestrator.store.postgres.postgres_nodes import NodeTable
from orchestrator.store.postgres.postgres_schema import AS_JSON, SCHEMA, VERSION
from tests.orchestrator.store.postgres.cut_off import Proxy
from tests.postgres_server import PostgresServer

Captured = pytest.CaptureFixture[str]
_ADDRESS = "postgresql://me:pa55@127.0.0.1:1/x"
_TRADING = """
[[harness]]
name = "desk"
trading = { feed = { files = { A = "bars.csv" } }, strategy = "cross"%s }
"""
_BARS = "date,open,high,low,close,volume\n" + "".join(f"2024-01-0{day},1,1,1,1,100\n" for day in range(1, 8))


@pytest.mark.parametrize("words", [["nodes"], ["node", "--fleet", "desk", "--factory", "nowhere:none"]])
def test_a_password_in_the_address_is_refused(words: list[str], capsys: Captured) -> None:
    assert main([*words, "--store", _ADDRESS]) == 2
    said = capsys.readouterr().err
    assert "without a password" in said
    assert "pa55" not in said


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--nodes", "2"], "expected --cluster ray"), (["--cluster", "ray"], "needs ray, which is not installed")],
)
def test_nodes_on_a_cluster_need_ray(words: list[str], told: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    factory = "tests.orchestrator.nodes.fleet_harnesses:ticking"
    store = _ADDRESS.replace(":pa55", "")
    assert main(["node", "--fleet", "desk", "--factory", factory, "--store", store, *words]) == 2
    assert told in capsys.readouterr().err


def test_nodes_are_shown_from_a_store_of_this_release_only(server: PostgresServer, capsys: Captured) -> None:
    database = server.new_database()

    assert main(["nodes", "--store", database]) == 2
    assert "has no store in schema 'orchestrator'" in capsys.readouterr().err

    with psycopg.connect(database, autocommit=True) as db:
        db.execute("CREATE SCHEMA orchestrator")
        db.execute(f"SET search_path = orchestrator; {SCHEMA} {AS_JSON}".encode())
    assert main(["nodes", "--store", database]) == 2
    assert f"has schema version 1: expected {VERSION}" in capsys.readouterr().err

    with closing(PostgresStore(database)) as store:
        NodeTable(store).join("desk", "red", store.run, ["git"], 1, "file")
        assert main(["nodes", "--json", "--store", database]) == 0
    (shown,) = capsys.readouterr().out.splitlines()
    assert {"node": "red", "state": "alive", "labels": ["git"]}.items() <= json.loads(shown).items()


def test_nodes_do_not_wait_for_a_silent_server(
    server: PostgresServer, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silent from the start, and once it is connected."""
    monkeypatch.setattr(nodes_verb, "_WAIT_S", 0.3)
    proxy = Proxy(server.port)
    try:
        address = server.url.replace(str(server.port), str(proxy.port))
        proxy.freeze()
        assert main(["nodes", "--store", address]) == 2
        assert "cannot be reached" in capsys.readouterr().err
        proxy.thaw()
        monkeypatch.setattr(nodes_verb, "check_version", partial(_freeze, proxy))
        assert main(["nodes", "--store", address]) == 2
        assert "cannot be reached" in capsys.readouterr().err
    finally:
        proxy.end()


def _freeze(proxy: Proxy, *_: object) -> None:
    proxy.freeze()


@pytest.mark.parametrize("broker", ["", ", broker = 'paper'", ", broker = { paper = true }"])
def test_paper_trading_with_books_on_one_machine_is_refused(broker: str, tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text(_BARS)
    (tmp_path / "run.toml").write_text(_TRADING % broker)
    with pytest.raises(UsageError, match="books that every node of the fleet reaches"):
        read_fleet(tmp_path / "run.toml")

    (tmp_path / "run.toml").write_text(_TRADING % ", broker = { paper = true, path = 'books.db' }")
    assert set(read_fleet(tmp_path / "run.toml")[0].members) == {"desk"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bars.csv", "run.toml"]


def test_an_address_that_will_never_do_ends_a_node_as_it_ends_a_run(server: PostgresServer, capsys: Captured) -> None:
    store = server.new_database()
    missing = "does not exist; check database and user in the address, and the password"
    for address, words in (
        (f"{store}-that-is-not-there", missing),
        (re.sub("://([^@/]*@)?", "://nobody-such@", store), missing),
        (f"{store}?shema=nope", "invalid URI query parameter: \"shema\"; did you mean 'schema'?"),
    ):
        assert main(["status", "--store", address]) == 2
        assert words in capsys.readouterr().err
        with pytest.raises(UsageError if "shema" in address else StoreUnusable, match=re.escape(words)):
            trio.run(_take_part, address)


async def _take_part(address: str) -> None:
    with trio.fail_after(10):
        await run_node("tests.orchestrator.nodes.fleet_harnesses:ticking", store=address, fleet="desk")


def test_what_no_node_can_run_is_told_with_the_reason_and_what_is_cut_off_with_the_command_of_a_node(
    server: PostgresServer, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    database = server.new_database()
    with closing(PostgresStore(database)) as store:
        table = NodeTable(store)
        table.join("desk", "red", store.run, [], 1, "file")
        table.tell("desk", "red", store.run, draining=False, unplaced={"far": "expected a node with gpu"})
        two = claim(store, "two")
        store.commit([], [event_row(two, events.Started(), Status.RUNNING)])
        for words in (["start", "far"], ["ask", "far", "1"], ["limits", "set", "far", "period_s=5"]):
            assert main([*words, "--store", database]) == 1
            assert "harness 'far' is not run: expected a node with gpu; `orchestrator nodes" in capsys.readouterr().err
    assert main(["status", "--store", database]) == 0
    assert f"orchestrator node FILE --fleet desk --store {database}" in capsys.readouterr().out
