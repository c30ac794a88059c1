"""Connecting to PostgreSQL, and translating its errors. psycopg comes with the extra `postgres` and is imported here only.

psycopg's synchronous side is used, in threads: its async side, like asyncpg, needs asyncio.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from harnesses.diagnostics.extras import install_command
from harnesses.errors import near
from harnesses.redaction.redactor import redact_text
from orchestrator.errors import StoreBusy, StoreError, StoreUnusable, UsageError
from orchestrator.store.postgres.postgres_address import Address, shown_url
from orchestrator.store.postgres.postgres_schema import WRITES

if TYPE_CHECKING:
    from psycopg import Connection, Cursor


_ACKNOWLEDGED = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')
"""
"""Has the server lose nothing that it acknowledges, in a crash or, with synchronous replicas, in a fail-over."""
_TIMELINE = """
SELECT CASE WHEN pg_is_in_recovery() THEN 0
       ELSE ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::integer END
"""
_QUOTED_NAME = re.compile(r'"([a-z_]+)"')
_REFUSALS = re.compile(
    r'FATAL: +(?:database|role) ".*" does not exist|authentication failed for user|no password supplied|no pg_hba\.conf entry'
)
"""What servers say to somebody who will not be let in later either. libpq gives no code to errors of connecting."""
_timelines: dict[str, int] = {}
"""The newest timeline that this process has seen, by addresses of several hosts."""


class Database:
    """One connection, without a transaction unless one is begun by a statement.

    Args:
        wait_s: seconds allowed for connecting.
    """

    def __init__(self, address: Address, wait_s: float) -> None:
        self.cipher = address.cipher
        """Of the store."""
        settings = (
            f"-csearch_path={address.schema}",
            f"-cidle_in_transaction_session_timeout={round(address.lease_s * 1000)}",
            f"-ctcp_keepalives_idle={max(1, round(address.lease_s))}",
            "-cclient_min_messages=warning",
            # Whatever the database sets for its other users.
            r"-cdefault_transaction_isolation=read\ committed",
            "-cstatement_timeout=0",
            "-clock_timeout=0",
            f"-c{WRITES}=on",
        )
        self._connection = _connect(
            address.url,
            wait_s,
            autocommit=True,
            application_name=f"orchestrator {address.run}".strip(),
            options=" ".join(settings),
            tcp_user_timeout=round(address.lease_s * 1000),
            keepalives_idle=max(1, round(address.lease_s / 2)),
        )
        self.server_process = self._connection.info.backend_pid
        """Process of the server that serves this connection."""
        # A duplicate, since the connection may close its own while another thread shuts it down.
        self._socket = socket.socket(fileno=os.dup(self._connection.fileno()))

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor[Any]:
        """Run a statement, with `%s` for each value."""
        # As bytes, since psycopg's types accept literals only.
        return self._connection.execute(statement.encode(), values or None)

    def row(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Return the first row of a query; None if there is none."""
        return self.execute(statement, values).fetchone()

    def rows(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query."""
        return self.execute(statement, values).fetchall()

    def copy_in(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows into a table."""
        with self._connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Generator[None]:
        """Commit what is done within; roll back if it raises."""
        self.execute(begin)
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    @contextmanager
    def pipeline(self) -> Generator[None]:
        """Send statements without waiting for their answers, except where a row is fetched."""
        with self._connection.pipeline():
            yield

    def hear(self, seconds: float) -> tuple[str, int] | None:
        """Wait for a notification; return its text and the process of the server that sent it, or None after `seconds`."""
        for heard in self._connection.notifies(timeout=seconds, stop_after=1):
            return heard.payload, heard.pid
        return None

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed or broken."""
        return bool(self._connection.closed)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
        self._connection.close()

    def cut(self) -> None:
        """Break the connection, whatever thread is waiting for an answer on it: that thread gets an error at once."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


def _connect(url: str, wait_s: float, **options: Any) -> Connection[Any]:
    """Connect to the first host of an address that can be written to, and is no former primary.

    Raises:
        UsageError: it is not a valid address.
        psycopg.OperationalError: there is none; the error of the last host, or of one that may be away for a while.
    """
    psycopg = _psycopg()
    hosts = _hosts_of(url)
    timeout_s = max(2, round(wait_s / len(hosts)))
    failed: BaseException | None = None
    for host in hosts:
        try:
            connection: Connection[Any] = psycopg.connect(url, **host, **options, connect_timeout=timeout_s)
        except psycopg.OperationalError as error:
            failed = failed if failed is not None and is_refusal(error) else error
            continue
        try:
            connection.execute(_ACKNOWLEDGED)
            if len(hosts) > 1:
                _check_timeline(connection, url)
        except BaseException as error:
            connection.close()
            if not isinstance(error, psycopg.OperationalError):
                raise
            failed = error
        else:
            return connection
    assert failed is not None
    raise failed


def _hosts_of(url: str) -> list[dict[str, str]]:
    """Return what differs between the hosts of an address; of several, those count that can be written to."""
    params = _options_of(url)
    names, ports = str(params.get("host") or "").split(","), str(params.get("port") or "").split(",")
    if len(names) == 1 or "hostaddr" in params:
        return [{}]
    ports = ports if len(ports) == len(names) else ports * len(names)
    only = {} if "target_session_attrs" in params else {"target_session_attrs": "read-write"}
    return [{"host": name, **({"port": port} if port else {}), **only} for name, port in zip(names, ports, strict=True)]


def _options_of(url: str) -> dict[str, Any]:
    psycopg = _psycopg()
    try:
        return dict(psycopg.conninfo.conninfo_to_dict(url))
    except psycopg.ProgrammingError as error:
        text = redact_text(str(error).strip())
        known = ["schema", *(option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults())]
        hint = near(found[1], known) if (found := _QUOTED_NAME.search(text)) else ""
        raise UsageError(f"store: {shown_url(url)} is not a valid address: {text}{hint or '; correct it'}") from None


def _check_timeline(connection: Connection[Any], url: str) -> None:
    """Raise `psycopg.OperationalError` for a server that was replaced by another: each promotion begins a new timeline."""
    row: Any = connection.execute(_TIMELINE).fetchone()
    newest = _timelines[url] = max(row[0], _timelines.get(url, 0))
    if row[0] < newest:
        info = connection.info
        raise _psycopg().OperationalError(
            f"{info.host}:{info.port} is a former primary: expected timeline {newest} or later, got {row[0]}; stop it, and "
            "make it a standby of the new one"
        )


class LimitedDatabase(Database):
    """A connection of somebody who does not wait for ever: a statement without an answer after `wait_s` breaks it."""

    def __init__(self, address: Address, wait_s: float) -> None:
        super().__init__(address, wait_s)
        self._wait_s = wait_s

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor[Any]:
        """Run a statement, with `%s` for each value."""
        timer = threading.Timer(self._wait_s, self.cut)
        timer.daemon = True
        timer.start()
        try:
            return super().execute(statement, values)
        finally:
            timer.cancel()

    @contextmanager
    def waiting_longer(self, more_s: float) -> Generator[None]:
        """Allow more time for each answer within the block, such as a large one."""
        before, self._wait_s = self._wait_s, self._wait_s + more_s
        try:
            yield
        finally:
            self._wait_s = before


@contextmanager
def limited(address: Address, wait_s: float) -> Generator[LimitedDatabase]:
    """Connect for as long as the block lasts. Connecting, and each statement, takes at most about `wait_s` seconds.

    Raises:
        StoreError: the server does not answer in time, or refuses something.
    """
    with translated(address.location):
        db = LimitedDatabase(address, wait_s)
        try:
            yield db
        finally:
            db.close()


def array(values: Sequence[int]) -> str:
    """Return integers as the text of a PostgreSQL array. Adapting a list to one takes psycopg ten times as long."""
    return "{" + ",".join(map(str, values)) + "}"


def text_array(values: Sequence[str | None]) -> str:
    """Return texts as the text of a PostgreSQL array."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_connection_error(error: BaseException) -> bool:
    """Return whether the server could not be reached, or is shutting down or starting: worth another try."""
    psycopg = _psycopg()
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state: str | None = getattr(error, "sqlstate", None)
    # 08 connection, 57P0x shutdown, crash and start-up, 25P03 idle in a transaction, 53300 too many connections.
    return state is None or state.startswith(("08", "57P")) or state in ("25P03", "53300")


def is_refusal(error: BaseException) -> bool:
    """Return whether a server has answered, and has no such database or user, or another password for it."""
    return is_connection_error(error) and _REFUSALS.search(str(error)) is not None


@contextmanager
def translated(location: str) -> Generator[None]:
    """Convert PostgreSQL's errors into ours, with a remedy."""
    psycopg = _psycopg()
    try:
        yield
    except psycopg.Error as error:
        raise _translate(location, error) from error


def _translate(location: str, error: Any) -> StoreError:
    psycopg, said = _psycopg(), str(error).strip().splitlines()
    # An address that is not valid is quoted in the error, with its password.
    text = redact_text(said[0]) if said else type(error).__name__
    if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected):
        return StoreBusy(f"{location} is locked: {text}; try again")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return StoreUnusable(f"{location} cannot be used: {text}; grant CREATE on the database to this user")
    if is_refusal(error):
        return StoreUnusable(f"{location} cannot be used: {text}; check database and user in the address, and the password")
    if is_connection_error(error):
        return StoreUnusable(f"{location} cannot be reached: {text}; check that the server runs, and the address")
    return StoreError(f"{location} failed: {text}; earlier records are safe, check the server")


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(f"a store on PostgreSQL needs psycopg: {error}; run `{install_command('postgres')}`") from error
    return psycopg
