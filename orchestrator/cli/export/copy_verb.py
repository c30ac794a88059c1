"""The verb `copy`: a store on a server as a file, for the verbs that read files only."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, FilePath, Words
from orchestrator.store.postgres.postgres_address import shown_url
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import json_line


def copy(
    address: Annotated[Words, Parameter(metavar="ADDRESS")],
    file: FilePath,
    /,
    *,
    schema: Annotated[Words, Parameter(metavar="NAME")] = "orchestrator",
    common: Common = USUAL,
) -> int:
    """Copy a store on PostgreSQL into a new SQLite file.

    Programs may run on the store meanwhile. The copy is compared with it, record by record; then every verb can read it. What
    is recorded after the copy began is not in it. The password comes from $PGPASSWORD or ~/.pgpass.

    Examples:
        orchestrator copy postgresql://desk@db.example.net/desk copy.db

    Args:
        address: the database, postgresql://USER@HOST:PORT/DATABASE
        file: the new file
        schema: the schema with the store's tables (default: orchestrator)
    """
    from orchestrator.operating.postgres_copy import copy_store

    records = copy_store(address, file, schema=schema)
    if common.json:
        sys.stdout.write(f"{json_line({'store': str(file), 'records': records})}\n")
    else:
        said = f"{records:,} records of {shown_url(address)} are in {file}, compared one by one"
        sys.stdout.write(f"{one_line(said)}\n")
    return ExitCode.OK
