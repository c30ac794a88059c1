"""One trial of a fault: real nodes on a database of their own, and the judgement of what they did."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
from attrs import field, frozen

from orchestrator.store.postgres.postgres_schema import SCHEMA
from orchestrator.store.postgres.postgres_store import PostgresStore
from tests.faults_of_nodes.acting_fleet import NAMES
from tests.faults_of_nodes.changes import STRIKE
from tests.faults_of_nodes.ledger import FOLDER, Line, read
from tests.orchestrator.nodes.node_processes import LEASE_S, Nodes, wait_until
from tests.orchestrator.store.postgres.cut_off import Proxy
from tests.postgres_server import PostgresServer

_LATE = """
SELECT seq, kind, epoch FROM (SELECT *, max(epoch) OVER (PARTITION BY harness ORDER BY seq) AS newest FROM records) AS r
WHERE epoch > 0 AND epoch < newest
"""
_AGAIN = """
SELECT harness, step FROM records WHERE kind = 'intent' GROUP BY harness, epoch, attempt, step, body HAVING count(*) > 1
"""
_PATIENCE_S = 40.0
_MUTANT_PATIENCE_S = 12.0


def altered(function: str, old: str, new: str) -> str:
    """Return the statement that replaces a function of the schema by one with another text."""
    begin = SCHEMA.index(f"CREATE FUNCTION {function}(")
    text = SCHEMA[begin : SCHEMA.index("$$;", begin) + 3]
    assert old in text, f"{function} has no {old!r}"
    return text.replace(old, new).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)


@frozen
class Mutant:
    """A protection that is removed."""

    name: str
    changes: tuple[str, ...] = ()
    """In the processes of nodes, see `changes`."""
    sql: str = ""
    """In the database, in the schema of the store."""
    kind: str = ""
    """Of the harnesses."""
    is_asynchronous: bool = False
    """Whether the server acknowledges what its replica does not have."""


NONE = Mutant("")


@frozen
class Pair:
    """A server and its replica, over a network that may be cut."""

    primary: PostgresServer
    replica: PostgresServer
    network: Proxy

    def url(self, database: str) -> str:
        """Return an address that names both."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.replica.port}"
        return f"postgresql://tester@{hosts}/{database}?target_session_attrs=read-write"


@contextmanager
def new_pair(*, synchronous: bool) -> Generator[Pair]:
    """Make a server and its replica."""
    with ExitStack() as stack:
        primary = PostgresServer()
        stack.callback(primary.close)
        network = Proxy(primary.port)
        stack.callback(network.end)
        replica = PostgresServer(replica_of=network.port)
        stack.callback(replica.close)
        if synchronous:
            primary.wait_for_replicas()
        yield Pair(primary, replica, network)


@frozen
class Fault:
    """What happens to nodes, and to their server.

    Attributes:
        run: does it to a trial, and asserts what has to hold.
        mutants: protections without each of which it has to fail.
    """

    name: str
    run: Callable[[Trial], None]
    mutants: tuple[Mutant, ...]
    kind: str = ""
    """Of the harnesses."""
    has_replica: bool = False
    """Whether it needs servers of its own, one of which is a replica of the other."""


class _FaultNodes(Nodes):
    program = "tests.faults_of_nodes.fault_node"
    fleet = "tests.faults_of_nodes.acting_fleet"


@frozen
class Trial:
    """Nodes that a fault strikes, with the protection of a mutant removed."""

    server: PostgresServer
    nodes: Nodes
    folder: Path
    mutant: Mutant
    kind: str = ""
    pair: Pair | None = None
    measured: dict[str, float] = field(factory=dict[str, float])
    """What is shown beside the result."""

    def start(self, name: str, *changes: str, url: str | None = None) -> subprocess.Popen[bytes]:
        """Start a node, changed by the fault and by the mutant."""
        environment = {**os.environ, FOLDER: str(self.folder), "FAULTS_KIND": self.mutant.kind or self.kind}
        environment["XDG_CACHE_HOME"] = str(self.folder / f"cache-{name}")
        with open(self.folder / f"log-{name}", "ab") as log:
            changed = (*changes, *self.mutant.changes)
            return self.nodes.start(name, "acting", url, *changed, env=environment, output=log)

    def start_pair(self, *changes: str, url: str | None = None) -> subprocess.Popen[bytes]:
        """Start `a`, which is changed and will be struck, and `b`; return `a` when both have their share and make steps.

        Raises:
            RuntimeError: they do not, before any fault.
        """
        first = self.start("a", *changes, url=url)
        self.start("b")
        try:
            self.nodes.wait_for({"a": 2, "b": 2})
            self.nodes.wait_for_steps()
        except AssertionError as error:
            raise RuntimeError(f"the nodes of a trial do not begin: {error}") from error
        if self.mutant.name:
            self.nodes.patience_s = _MUTANT_PATIENCE_S
        return first

    def strike(self) -> None:
        """Have the changes of nodes strike."""
        (self.folder / STRIKE).touch()

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something is true."""
        wait_until(holds, what, self.nodes.patience_s)

    def wait_for_state(self, process: subprocess.Popen[bytes], state: str) -> None:
        """Wait until a process is `T`, frozen, or `Z`, dead."""
        stat = Path(f"/proc/{process.pid}/stat")
        self.wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == state, f"{process.pid} is {state}")

    def resume(self, process: subprocess.Popen[bytes]) -> None:
        """Have a frozen process go on."""
        process.send_signal(signal.SIGCONT)

    def lines(self, *kinds: str) -> dict[str, list[Line]]:
        """Return what each harness did, of some kinds."""
        return {name: [line for line in read(self.folder, name) if line.kind in kinds] for name in NAMES}

    def assert_taken_over_in_time(self, pid: int) -> None:
        """Assert that each harness of a process went on in another within the lease and a second.

        The second is longer on a machine on which many programs want a processor.
        """
        waits: list[float] = []
        for lines in self.lines("want", "act", "ack").values():
            for before, after in pairwise(lines):
                if before.pid == pid != after.pid:
                    waits.append(after.at_s - before.at_s)
                    break
        assert waits, f"no harness of process {pid} went on elsewhere"
        limit_s = LEASE_S + max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        self.measured["take-over, s"] = max(waits)
        assert max(waits) <= limit_s, f"taken over after {max(waits):.2f} s: expected {limit_s:.2f} s at most"

    def assert_never_on_two(self, since_s: float) -> None:
        """Assert that no harness ran in a process after it had begun in another, from a moment on at which none moved."""
        for name, every in self.lines("beat").items():
            lines = [line for line in every if line.at_s >= since_s]
            order = list(dict.fromkeys(line.pid for line in lines))
            first = {pid: next(line.at_s for line in lines if line.pid == pid) for pid in order}
            last = {pid: max(line.at_s for line in lines if line.pid == pid) for pid in order}
            for pid, following in pairwise(order):
                over_s = last[pid] - first[following]
                assert over_s <= 0, f"{name} ran in process {pid} for {over_s:.3f} s beside process {following}"

    def assert_whole(self) -> None:
        """Assert that nothing is missing, twice, out of order or lost."""
        store = self.nodes.store
        seqs = [record.seq for record in store.records(limit=10_000_000)]
        assert seqs == list(range(1, len(seqs) + 1)), "seq has a gap"
        assert (late := store.rows(_LATE)) == [], f"a former owner has written: {late}"
        assert (again := store.rows(_AGAIN)) == [], f"an intent is recorded twice: {again}"
        self.nodes.assert_whole()
        for name in NAMES:  # the nodes go on: what is read later is newer
            acks = self.lines("ack")[name]
            stored = {step.step_number: step.output for step in store.steps(name, limit=1_000_000)}
            numbers = [line.number for line in acks]
            assert numbers == sorted(set(numbers)), f"{name} went on twice after a step, or out of order"
            for line in acks:
                owner = stored.get(line.number)
                assert owner == str(line.pid), f"{name}: step {line.number} was acknowledged to {line.pid}, and is {owner}'s"
            done = [line.number for line in self.lines("act")[name]]
            assert len(done) == len(set(done)), f"{name}: an effect was done twice: {_twice(done)}"
            assert set(done) >= set(stored), f"{name}: effects of recorded steps were not done: {set(stored) - set(done)}"


def _twice(numbers: Sequence[int]) -> list[int]:
    return sorted({number for number in numbers if numbers.count(number) > 1})


@contextmanager
def trial_of(server: PostgresServer, mutant: Mutant = NONE, kind: str = "", pair: Pair | None = None) -> Generator[Trial]:
    """Make a database for a trial; every process of it is killed at the end."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        url = server.new_database()
        url = url if pair is None else pair.url(url.rpartition("/")[2])
        PostgresStore(url).close()
        if mutant.sql:
            with psycopg.connect(url, autocommit=True, options="-csearch_path=orchestrator") as db:
                db.execute(mutant.sql.encode())
        with _FaultNodes(url, patience_s=_PATIENCE_S) as nodes:
            yield Trial(server, nodes, Path(folder), mutant, kind, pair)


def attempt(server: PostgresServer, fault: Fault, mutant: Mutant = NONE) -> tuple[str, dict[str, float], float]:
    """Return why a fault was noticed, or an empty text; what was measured, and how many seconds it took.

    Raises:
        Exception: the trial itself broke.
    """
    begin = time.monotonic()
    with ExitStack() as stack:
        pair = stack.enter_context(new_pair(synchronous=not mutant.is_asynchronous)) if fault.has_replica else None
        trial = stack.enter_context(trial_of(server if pair is None else pair.primary, mutant, fault.kind, pair))
        try:
            fault.run(trial)
        except AssertionError as error:
            why = str(error) or repr(error)
            logs = "" if mutant.name else "".join(_logs(trial.folder))
            return f"{why}\n{logs}".strip(), trial.measured, time.monotonic() - begin
        return "", trial.measured, time.monotonic() - begin


def _logs(folder: Path) -> Generator[str]:
    for log in sorted(folder.glob("log-*")):
        yield f"{log.name}:\n{log.read_text()[-3000:]}\n"
