"""One operation of somebody who runs no harness, such as an approval or a message: without a lease, in one transaction."""

from __future__ import annotations

import secrets
from typing import Any

from orchestrator.errors import StoreUnusable
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, is_connection_error, limited
from orchestrator.store.postgres.postgres_operations import PostgresOperations
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.store.rules.holdings import Holdings
from orchestrator.store.store_protocol import Operation


def commit_order(address: Address, operation: Operation, *, wait_s: float) -> Any:
    """Return the result of one operation, when it is durable.

    Args:
        wait_s: seconds that each statement may take, such as waiting for a commit under way.

    Raises:
        OrchestratorError: the store has refused it.
        StoreUnusable: the server does not answer; perhaps it has been recorded.
    """
    with limited(address, wait_s) as db:
        check_version(db, address)
        try:
            result = _commit(db, address.location, operation)
        except Exception as error:
            if not is_connection_error(error):
                raise
            raise StoreUnusable(
                f"{address.location} has stopped answering: expected it to say that this is recorded; perhaps it is: look "
                "before you do it again"
            ) from error
    if isinstance(result, Exception):
        raise result
    return result


def _commit(db: Database, location: str, operation: Operation) -> Any:
    with db.transaction():
        ownership, _, _, newest = db.row("SELECT * FROM begin_commit('')")
        holdings = Holdings(ownership)
        operations = PostgresOperations(db, location, secrets.token_hex(6), holdings=holdings, newest=newest, spenders=set())
        (result,) = operations.do_all([operation])
        operations.tell_news()
        if holdings.ownership != ownership:
            db.execute("UPDATE meta SET ownership = %s", (holdings.ownership,))
    return result
