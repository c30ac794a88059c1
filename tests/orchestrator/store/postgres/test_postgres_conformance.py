"""G15 among others: the store on PostgreSQL keeps every law of the protocol."""

from __future__ import annotations

from functools import partial

import pytest

from orchestrator.store.conformance import LAWS, LAWS_BETWEEN_RUNS, Law
from tests.orchestrator.store.postgres.conftest import OpenStore

_FIELDS = ("state", "effect", "fork", "migrat", "approv", "child", "mark", "resum")


@pytest.mark.parametrize("law", LAWS + LAWS_BETWEEN_RUNS, ids=lambda law: law.__name__)
def test_postgres(law: Law, open_store: OpenStore) -> None:
    law(open_store)


def _is_about_fields(law: Law) -> bool:
    """Return whether a law is about what is encrypted; large values are not in files here, which a reader decrypts."""
    return any(word in law.__name__ for word in _FIELDS) and law.__name__ != "a_large_result_is_read_back_as_it_was_given"


@pytest.mark.parametrize("law", [*filter(_is_about_fields, LAWS + LAWS_BETWEEN_RUNS)], ids=lambda law: law.__name__)
def test_encrypted_postgres(law: Law, open_store: OpenStore) -> None:
    law(partial(open_store, encryption_key=bytes(range(32))))
