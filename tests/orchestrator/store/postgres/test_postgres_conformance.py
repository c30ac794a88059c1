"""G15 among others: the store on PostgreSQL keeps every law of the protocol."""

from __future__ import annotations

import pytest

from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS, Law
from tests.orchestrator.store.postgres.conftest import OpenStore


@pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
def test_postgres(law: Law, open_store: OpenStore) -> None:
    law(open_store)
