"""The verb `copy`: a store on a server as a file, and one in a file on a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Words
from orchestrator.errors import UsageError
from orchestrator.store.file.server_copy import Server
from orchestrator.store.places.store_location import server_at
from orchestrator.store.postgres.postgres_address import SCHEMA, address_in, with_schema
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line


def copy(
    source: Annotated[Words, Parameter(metavar="FROM")],
    target: Annotated[Words, Parameter(metavar="TO")],
    /,
    *,
    schema: Annotated[Words, Parameter(metavar="NAME")] = "",
    common: Common = USUAL,
) -> int:
    """Copy a store on PostgreSQL into a new file, or a file into an empty schema on PostgreSQL.

    From a server: programs may run on the store meanwhile; what is recorded after the copy began is not in it. To a server: no
    program may run on the file, and it may not be encrypted, pruned, or have values in files. The copy is compared with the
    store, record by record, and kill switches come along. The password comes from $PGPASSWORD or ~/.pgpass.

    Examples:
        orchestrator copy postgresql://desk@db.example.net/desk copy.db
        orchestrator copy run.db postgresql://desk@db.example.net/desk

    Args:
        source: the address of the database, postgresql://USER@HOST:PORT/DATABASE, or a file
        target: the new file, or the address of the database
        schema: the schema with the store's tables (default: what ?schema= in the address says, or orchestrator)
    """
    from orchestrator.operating.copy_to_server import copy_to_server
    from orchestrator.operating.postgres_copy import copy_store

    of, to = _server(source, schema), _server(target, schema)
    if (of is None) == (to is None):
        raise UsageError("copy: expected an address and a file, in the order FROM TO; see `orchestrator copy --help`")
    if of is not None:
        records = copy_store(of.url, Path(target), schema=of.schema)
        said = f"{records:,} records of {of.location} are in {target}, compared one by one"
    else:
        assert to is not None
        records = copy_to_server(Path(source), to)
        said = f"{records:,} records of {source} are in {to.location}, compared one by one"
    if common.json:
        sys.stdout.write(f"{json_line({'store': target, 'records': records})}\n")
    else:
        sys.stdout.write(f"{one_line(said)}\n")
    return ExitCode.OK


def _server(place: str, schema: str) -> Server | None:
    if (address := address_in(place)) is None:
        return None
    return server_at(with_schema(address, schema or SCHEMA))
