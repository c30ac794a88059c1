"""A PostgreSQL server for tests: a new cluster in a temporary folder, on a loopback port, run as a user that is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from glob import glob
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

_BINARIES = "/usr/lib/postgresql/*/bin"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "full_page_writes": "off",
    "max_wal_size": "64MB",  # what a killed server reads again before it answers
    "logging_collector": "off",
    "wal_writer_delay": "10s",  # whoever does not wait for it loses much
    "wal_retrieve_retry_interval": "100ms",
}
_schemas = count(1)


def _programs() -> Path:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else [Path(path) for path in sorted(glob(_BINARIES))]
    if not folders:
        missing = pytest.fail if os.environ.get("REQUIRE_POSTGRES") else pytest.skip
        missing("PostgreSQL is not installed: expected initdb on the path, or in /usr/lib/postgresql")
    return folders[-1]


def _as_user() -> dict[str, Any]:
    """Return how a subprocess is run as a user that is not root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name for user in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class PostgresServer:
    """One server. Each store in it has a schema of its own.

    Args:
        fsync: whether it waits for the disk, as it must to survive the loss of power; killing it loses nothing either way.
        replica_of: the port at which the server is reached whose replica it is; None for a server of its own.
    """

    def __init__(self, *, fsync: bool = False, replica_of: int | None = None) -> None:
        self._user = _as_user()
        self._folder = tempfile.mkdtemp(prefix="postgres-")
        self._data = os.path.join(self._folder, "data")
        self._programs = _programs()
        if self._user:
            os.chown(self._folder, self._user["user"], self._user["group"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if replica_of is None:
            self._run("initdb", "-D", self._data, "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
        else:
            at = ("-h", "127.0.0.1", "-p", str(replica_of), "-U", "tester", "-w")
            self._run("pg_basebackup", "-D", self._data, *at, "-R", "-X", "stream", "-c", "fast", "--no-sync")
        settings = {**_SETTINGS, "port": str(self.port), "fsync": "on" if fsync else "off"}
        with open(os.path.join(self._data, "postgresql.conf"), "a", encoding="ascii") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        log = os.path.join(self._folder, "log")
        self._run("pg_ctl", "start", "-D", self._data, "-l", log, "-w", "-t", "300", "-s")

    def promote(self) -> None:
        """Make a replica a server that can be written to."""
        self._run("pg_ctl", "promote", "-D", self._data, "-w", "-t", "60", "-s")

    def wait_for_replicas(self) -> None:
        """Acknowledge nothing from now on that a replica does not have."""
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            db.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + 30
            while db.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone() is None:
                assert time.monotonic() < deadline, "no replica is synchronous within 30 s"
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server and what it has started, as `kill -9` does."""
        pid = self.pid
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
        for one in (pid, *map(int, children.stdout.split())):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        deadline = time.monotonic() + 10
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.01)

    @property
    def pid(self) -> int:
        """Process of the server."""
        return int(Path(self._data, "postmaster.pid").read_text().split()[0])

    def new_schema(self) -> str:
        """Return the name of a schema that no other test uses."""
        return f"store_{os.getpid()}_{next(_schemas)}"

    def new_database(self) -> str:
        """Return the address of a new, empty database."""
        with psycopg.connect(self.url, autocommit=True) as db:
            name = self.new_schema()
            db.execute(f"CREATE DATABASE {name}".encode())
        return self.url.replace("/postgres", f"/{name}")

    def close(self) -> None:
        """Kill the server and remove its folder."""
        with suppress(FileNotFoundError):  # it has ended
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        # Not a pipe for its output: the server would inherit it, and keep it open.
        with tempfile.TemporaryFile() as output:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            code = subprocess.Popen(command, **streams, **self._user, cwd="/").wait()
            output.seek(0)
            assert code == 0, f"{program}: {output.read().decode(errors='replace')}"
