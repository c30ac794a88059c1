"""The verb `node`: this machine takes its share of a fleet's harnesses."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import trio
from cyclopts import Parameter

from harnesses.nurseries import open_beside
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.nodes.node_file import read_fleet
from orchestrator.cli.run.code_loading import find_modules_in
from orchestrator.cli.run.service_manager import stay_alive, tell_manager
from orchestrator.cli.std_streams import keep_talking, say
from orchestrator.cli.verb_options import USUAL, Common, Count, Seconds, Words
from orchestrator.errors import UsageError
from orchestrator.nodes.fleet_members import Fleet, load_fleet
from orchestrator.nodes.run_node import run_node
from orchestrator.nodes.run_on_ray import run_on_ray
from orchestrator.store.places.store_location import server_at
from orchestrator.store.postgres.postgres_address import is_postgres_url


def node(
    file: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    /,
    *,
    fleet: Annotated[Words, Parameter(metavar="NAME")],
    factory: Annotated[Words | None, Parameter(metavar="MODULE:FUNCTION")] = None,
    name: Annotated[Words | None, Parameter(metavar="NAME")] = None,
    label: Annotated[tuple[Words, ...], Parameter(metavar="LABEL", negative=())] = (),
    cpus: Annotated[float | None, Parameter(metavar="N")] = None,
    cluster: Literal["ray"] | None = None,
    nodes: Annotated[Count | None, Parameter(metavar="N")] = None,
    address: Annotated[Words | None, Parameter(metavar="HOST:PORT")] = None,
    lease: Seconds | None = None,
    drain: Seconds = 10.0,
    common: Common = USUAL,
) -> int:
    """Take a share of the harnesses of a fleet, as one of several machines.

    All of them are on one PostgreSQL store, and have the same run file, or function that returns the harnesses. These are
    spread over the nodes that are alive; those of a node that is gone are taken over when its lease has lapsed. SIGTERM and
    Ctrl-C hand everything over at the next step boundaries, and end this node with exit code 0.

    Example:
        orchestrator node run.toml --store postgresql://desk@db.example.net/desk --fleet desk --label git --cpus 4

    Args:
        file: a run file (.toml)
        fleet: name of the fleet; nodes of the same name share its harnesses
        factory: a function that returns the harnesses, instead of a file
        name: name of this node in the fleet (default: that of the machine)
        label: what harnesses may need of a node (`needs`); may be given several times
        cpus: processors that harnesses may use here (default: those that this process may use; 1 for each node on a cluster)
        cluster: place nodes on a cluster of Ray, as long as this command runs; a label is a resource of that name
        nodes: how many nodes to place on the cluster (default: 1)
        address: head of the cluster (default: that of RAY_ADDRESS, or of this machine; `local` makes one here)
        lease: seconds after which others take over from a node that is gone (default: 10)
        drain: seconds that harnesses have to come to a step boundary after SIGTERM (default: 10); then they are cancelled
    """
    store = common.store or os.environ.get("ORCHESTRATOR_STORE")
    if not is_postgres_url(store):
        raise UsageError(f"node: --store: expected postgresql://…, which several machines reach, got {store or 'nothing'}")
    server = server_at(store)
    if (file is None) == (factory is None):
        raise UsageError("node: expected a run file or --factory MODULE:FUNCTION, and not both; give one")
    if cluster is None and (nodes is not None or address is not None):
        raise UsageError("node: --nodes and --address: expected --cluster ray with them, got none; add it")
    keep_talking()
    load = partial(_members, file and file.resolve(), factory, Path.cwd())
    members, options = load()
    say(f"recording in {server.location}; {len(members.members)} harnesses of fleet {fleet}, {members.digest}")
    given = {"name": name, "cpus": cpus, "lease_s": lease, "nodes": nodes, "address": address}
    named: dict[str, Any] = {"store": server.address, "fleet": fleet, "labels": label, "drain_s": drain}
    named |= {key: value for key, value in given.items() if value is not None}
    take_part = partial(run_on_ray, load, **named) if cluster else partial(run_node, members, **{**options, **named})
    try:
        trio.run(_run, take_part)
    finally:
        tell_manager("STOPPING=1")
    return ExitCode.OK


def _members(file: Path | None, factory: str | None, folder: Path) -> tuple[Fleet, dict[str, Any]]:
    """Return the harnesses, and what the file says of all of them; called on the machine of each node.

    Args:
        folder: of the command; modules are looked for there, too.
    """
    if file is None:
        find_modules_in(folder)
        return load_fleet(str(factory)), {}
    find_modules_in(file.parent, folder)
    members, kept = read_fleet(file)
    if kept.read.alerts:
        say("alerts of the file are not told by nodes: run `orchestrator notify` beside them")
    return members, {key: value for key, value in kept.read.options.items() if key != "drain_s"}


async def _run(take_part: partial[Any]) -> None:
    async with open_beside() as nursery:
        nursery.start_soon(stay_alive)
        tell_manager("READY=1")
        await take_part()
