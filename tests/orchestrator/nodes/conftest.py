"""One PostgreSQL server for the session; each test has a database of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.orchestrator.nodes.node_processes import Nodes
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def nodes(server: PostgresServer) -> Iterator[Nodes]:
    with Nodes(server.new_database()) as nodes:
        yield nodes
