"""G8 over machines: a node is killed or frozen where it does the most harm, and its server is replaced by a replica."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults_of_nodes.faults import FAULTS
from tests.faults_of_nodes.trial import attempt
from tests.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    yield server
    server.close()


@pytest.mark.parametrize("name", ["kill-in-an-effect", "freeze-in-transaction", "fail-over"])
def test_a_fault_is_survived(name: str, server: PostgresServer) -> None:
    """G8: all faults, each without each protection too, are `python -m tests.faults_of_nodes --mutants`."""
    assert attempt(server, FAULTS[name])[0] == ""
