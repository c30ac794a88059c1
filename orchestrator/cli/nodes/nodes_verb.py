"""The verb `nodes`: who runs the harnesses of a store on PostgreSQL, and what nobody can run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Words, print_all
from orchestrator.errors import UsageError
from orchestrator.store.places.store_location import server_at
from orchestrator.store.postgres.postgres_address import Address, is_postgres_url
from orchestrator.store.postgres.postgres_connection import limited
from orchestrator.store.postgres.postgres_nodes import HarnessPlace, NodeRow, read_nodes, read_places
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line

_HEAD = ("FLEET", "NODE", "STATE", "LEASE", "CPUS", "LABELS", "HARNESSES", "FILE")
_WAIT_S = 5.0


def nodes(*, fleet: Annotated[Words | None, Parameter(metavar="NAME")] = None, common: Common = USUAL) -> int:
    """Show the nodes of a store on PostgreSQL, and what no node can run.

    A node whose lease has lapsed is `lost`, and is shown for a day. Nodes with another FILE neither take nor give each other's
    harnesses. With --json, the names of the harnesses are in it.

    Args:
        fleet: of this fleet alone
    """
    store = common.store or os.environ.get("ORCHESTRATOR_STORE")
    if not is_postgres_url(store):
        raise UsageError(f"nodes: --store: expected postgresql://…, got {store or 'nothing'}; only such a store has nodes")
    server = server_at(store)
    address = Address(server.url, server.schema, _WAIT_S)
    with limited(address, _WAIT_S) as db:
        check_version(db, address)
        found, places = read_nodes(db, fleet), read_places(db)
    lines = [*_json_lines(found, places)] if common.json else [*_lines(found, places)]
    if not print_all(lines):
        streams.say(f"{server.location} has no node")
    return ExitCode.OK


def _state(node: NodeRow) -> str:
    return "lost" if not node.is_alive else "draining" if node.draining else "alive"


def _names(node: NodeRow, places: Sequence[HarnessPlace]) -> list[str]:
    return [place.name for place in places if place.run == node.run]


def _unplaced(found: Sequence[NodeRow]) -> Mapping[str, str]:
    return {name: why for node in found if node.is_alive for name, why in node.unplaced.items()}


def _lines(found: Sequence[NodeRow], places: Sequence[HarnessPlace]) -> Iterator[str]:
    rows = [
        (
            one_line(node.fleet),
            one_line(node.name),
            _state(node),
            f"{node.left_s:.1f} s" if node.is_alive else "",
            f"{node.cpus:g}",
            one_line(",".join(sorted(node.labels))),
            str(len(_names(node, places))),
            one_line(node.digest),
        )
        for node in found
    ]
    if rows:
        yield from columns(_HEAD, rows)
    for name, why in sorted(_unplaced(found).items()):
        yield one_line(f"harness {name} is not run: {why}", 500)


def _json_lines(found: Sequence[NodeRow], places: Sequence[HarnessPlace]) -> Iterator[str]:
    for node in found:
        said: dict[str, Any] = {
            "fleet": node.fleet,
            "node": node.name,
            "run": node.run,
            "state": _state(node),
            "lease_left_s": round(max(node.left_s, 0.0), 3),
            "cpus": node.cpus,
            "labels": sorted(node.labels),
            "file": node.digest,
            "harnesses": _names(node, places),
            "not_run": node.unplaced if node.is_alive else {},
        }
        yield json_line(said)
