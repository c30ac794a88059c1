"""MCP servers as programs, each with the official client on it: one over a finished run, one over a program that runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from tests import ROOT
from tests.orchestrator.mcp.marked_run import record


@frozen
class Answer:
    """What a tool has answered."""

    text: str
    is_error: bool

    @property
    def fields(self) -> Any:
        return json.loads(self.text)

    @property
    def data(self) -> Any:
        return self.fields["data"]


@frozen
class Agent:
    """The official client of a server."""

    portal: Any
    client: Any
    store: Path
    process: Any = None
    """The program that runs on the store, if one does."""

    def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in self.portal.call(self.client.list_tools).tools}

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        result = self.portal.call(self.client.call_tool, tool, arguments)
        (content,) = result.content
        return Answer(content.text, bool(result.is_error))


@contextmanager
def agent(place: Path, *options: str, process: Any = None) -> Iterator[Agent]:
    """Give the client of a server over a store or a folder."""
    from anyio.from_thread import start_blocking_portal
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    words = ["-m", "orchestrator", "mcp", "--store", str(place), *options]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=ROOT)
    with start_blocking_portal("trio") as portal, portal.wrap_async_context_manager(Client(stdio_client(server))) as client:
        yield Agent(portal, client, place, process)


@pytest.fixture(scope="session")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with a marker in whatever agents wrote."""
    path = tmp_path_factory.mktemp("marked") / "run.db"
    record(path)
    return path


@pytest.fixture(scope="session")
def reading(marked: Path) -> Iterator[Agent]:
    """The client of a server that shows metadata of the finished run."""
    with agent(marked) as client:
        yield client


@pytest.fixture(scope="session")
def supervising(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """The client of a server that shows all and gives orders, over a program with harnesses in every kind of trouble."""
    store = tmp_path_factory.mktemp("live") / "run.db"
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.orchestrator.web.fleet_program", store], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        while not store.exists():
            time.sleep(0.05)
        with agent(store, "--content", "--allow-orders", "all,approve,budgets,kill-switch", process=program) as client:
            yield client
    finally:
        program.kill()
        program.wait()
