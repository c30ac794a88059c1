"""The metrics of several programs on one store in one text: label `run` of each number names its program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio

from harnesses.diagnostics.extras import install_command
from orchestrator.control import control_server as serving
from orchestrator.control.control_api import Api
from orchestrator.control.control_client import ask_all
from orchestrator.control.run_services import Address
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import say


def merged(texts: Mapping[str, str]) -> str:
    """Return metrics in Prometheus's text format, by run, as one text, in which label `run` tells them apart.

    Each family is described once, with the numbers of all texts under it, as the format demands.
    """
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for run, text in sorted(texts.items()):
        family = ""
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                known = heads.setdefault(family, [])
                if line not in known:
                    known.append(line)
            elif line:
                samples.setdefault(family, []).append(_labelled(line, run))
    return "".join(f"{line}\n" for family in heads for line in (*heads[family], *samples.get(family, ())))


def _labelled(line: str, run: str) -> str:
    if '{run="' in line or ',run="' in line:
        return line
    name, brace, rest = line.partition("{")
    if brace:
        return f'{name}{{run="{run}",{rest}'
    name, _, value = line.partition(" ")
    return f'{name}{{run="{run}"}} {value}'


async def serve_metrics(
    store: Path, address: Address, *, task_status: trio.TaskStatus[Address] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve the metrics of all programs on a store, until cancelled; where that cannot be done, say so and return.

    Args:
        task_status: is told the address with its actual port.
    """
    if not serving.is_there():
        say(f"metrics need h11, so this run goes on without them: run `{install_command('metrics')}`")
        return
    try:
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        say(f"metrics: cannot listen on {address}: {error}; the run goes on without")
        return
    bound = Address(address.host, listeners[0].socket.getsockname()[1])
    if not bound.is_local:
        say(f"metrics: at http://{bound}/metrics, open to everybody who can reach this machine")

    async def text() -> bytes:
        return (await trio.to_thread.run_sync(_ask, store)).encode()

    server = serving.Server(Api(None, lambda: (), text).answer)
    try:
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(server.serve, listener)
            task_status.started(bound)
    finally:
        for listener in listeners:
            listener.socket.close()


def _ask(store: Path) -> str:
    replies = list(ask_all(store, "GET", "/metrics"))
    if not replies:
        raise UsageError("metrics: no worker has begun yet, or none takes questions: expected Orchestrator(control=True)")
    return merged({reply.run: reply.text for reply in replies if reply.status == 200})
