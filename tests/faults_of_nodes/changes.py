"""What is changed in the process of a node before it begins: where the fault strikes, or which protection is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harnesses.budgets.budget import Granted
from orchestrator.store.postgres import (
    postgres_claims,
    postgres_connection,
    postgres_lease,
    postgres_store,
    postgres_switch,
)
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.rules import budget_rules
from tests.faults_of_nodes import acting_fleet
from tests.faults_of_nodes.ledger import FOLDER

STRIKE = "strike"
"""The file in the folder of the ledgers from whose existence on a fault strikes, once."""


_STOPPED_S = 0.3
"""Longer than this, and a loop was stopped."""


def is_struck() -> bool:
    """Return whether the fault strikes now: for one process, once."""
    try:
        Path(os.environ[FOLDER], STRIKE).unlink()
    except FileNotFoundError:
        return False
    return True


def freeze_if_struck() -> None:
    """Suspend this process, until somebody has it continue."""
    if is_struck():
        # This thread goes on for a moment after the signal, and has to be the first one that goes on after SIGCONT.
        sys.setswitchinterval(10)
        now = before = time.monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        while now < before + _STOPPED_S:
            before, now = now, time.monotonic()
        sys.setswitchinterval(0.005)


def _around_commits(before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
    ask = Database.row

    def row(self: Database, statement: str, values: Sequence[object] = ()) -> Any:
        if "commit_rows" not in statement:
            return ask(self, statement, values)
        before(values)
        answer = ask(self, statement, values)
        after(values)
        return answer

    Database.row = row  # type: ignore[method-assign]


def _nothing(_: Any) -> None:
    pass


def freeze_before_a_commit() -> None:
    """Freeze when the lease was checked and the commit is not sent."""
    _around_commits(lambda _: freeze_if_struck(), _nothing)


def freeze_before_an_intent_is_acknowledged() -> None:
    """Freeze when the server has an intent, and the harness has not heard of it."""
    _around_commits(_nothing, lambda values: freeze_if_struck() if "intent" in str(values) else None)


def freeze_in_a_transaction() -> None:
    """Freeze with the lock that every commit needs, when everything is sent but the end of the transaction."""
    ask = Database.execute

    def execute(self: Database, statement: str, values: Sequence[object] = ()) -> Any:
        if statement == "COMMIT" and threading.current_thread().name == "orchestrator-writer":
            freeze_if_struck()
        return ask(self, statement, values)

    Database.execute = execute  # type: ignore[method-assign]
    postgres_store.PostgresStore._advance = lambda *_: None  # type: ignore[method-assign]


def die_after_an_act() -> None:
    """Die when an effect is done, and its outcome is not stored."""
    act = acting_fleet.act

    def act_and_die(name: str, number: int) -> None:
        act(name, number)
        if is_struck():
            os.kill(os.getpid(), signal.SIGKILL)

    acting_fleet.act = act_and_die


def without_fence() -> None:
    """A run goes on until it hears that its lease has lapsed."""
    postgres_lease.FENCE = 1e6


def without_ending_sessions() -> None:
    """Sessions of a run whose lease has lapsed are left alone, but for the server's own limit."""
    for module, name in ((postgres_lease, "_EXTEND"), (postgres_claims, "_END_LAPSED")):
        statement = getattr(module, name)
        assert "pg_terminate_backend(a.pid)" in statement
        setattr(module, name, statement.replace("pg_terminate_backend(a.pid)", "a.pid"))


def without_overruling() -> None:
    """What the database sets for `synchronous_commit` holds."""
    postgres_connection._ACKNOWLEDGED = "SELECT 1"  # pyright: ignore[reportPrivateUsage]


def without_timelines() -> None:
    """A former primary is as good as the new one."""

    def check(connection: object, url: str) -> None:
        pass

    postgres_connection._check_timeline = check  # pyright: ignore[reportPrivateUsage]


def jump_the_clock() -> None:
    """The time of day jumps by ten years, ahead and back, twice a second."""
    real, begin = time.time_ns, time.monotonic()

    def jumping_ns() -> int:
        return real() + (int((time.monotonic() - begin) * 2) % 3 - 1) * 10 * 365 * 86_400 * 10**9

    time.time_ns, time.time = jumping_ns, lambda: jumping_ns() / 1e9


def lease_by_the_time_of_day() -> None:
    """The fence of a run is kept by the clock that people set."""
    postgres_lease.time = SimpleNamespace(monotonic=lambda: time.time())  # type: ignore[attr-defined]


def without_draining() -> None:
    """Whoever is told to end does so at once."""

    def end(number: int, frame: object) -> None:
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal = lambda *_: signal.SIG_DFL  # type: ignore[assignment]


def without_kill_switch() -> None:
    """Neither a look nor a commit heeds the kill switch."""
    for module in (postgres_store, postgres_switch):
        module.refusal = lambda *_: None  # type: ignore[attr-defined]


def without_judging() -> None:
    """Whoever asks for an amount gets it."""
    budget_rules.BudgetRules._judge = lambda *_: Granted()  # type: ignore[attr-defined] # pyright: ignore


CHANGES: dict[str, Callable[[], None]] = {
    change.__name__: change
    for change in (
        freeze_before_a_commit,
        freeze_before_an_intent_is_acknowledged,
        freeze_in_a_transaction,
        die_after_an_act,
        without_fence,
        without_ending_sessions,
        without_overruling,
        without_timelines,
        jump_the_clock,
        lease_by_the_time_of_day,
        without_draining,
        without_kill_switch,
        without_judging,
    )
}
