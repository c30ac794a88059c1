"""G8 over machines: a node is frozen where it does the most harm, and nothing is lost, twice or late."""

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


@pytest.mark.parametrize("name", ["freeze-in-transaction"])
def test_a_fault_is_survived_and_noticed_without_its_protection(name: str, server: PostgresServer) -> None:
    """G8: all faults, each without each protection, are `python -m tests.faults_of_nodes --mutants`."""
    assert attempt(server, FAULTS[name])[0] == ""
    assert all(attempt(server, FAULTS[name], mutant)[0] for mutant in FAULTS[name].mutants)
