"""The kill switch of a store on PostgreSQL: rows in the database, which every commit of an intent heeds.

Turning it takes the lock that commits take, and changes `meta.ownership`: so each commit is before it, or reads it anew. A
program that cannot reach the server begins no effect either, since it cannot write the intent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from harnesses.diagnostics.control_characters import inert_json
from harnesses.errors import Latched
from orchestrator.child_spec import is_name
from orchestrator.kill_switch import ALL, KillSwitch, latched
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, limited
from orchestrator.store.postgres.postgres_setup import check_version

_READ = "SELECT name, said FROM kill_switches ORDER BY name"
_PUT = "INSERT INTO kill_switches VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET said = excluded.said"
_CHANGED = "UPDATE meta SET ownership = ownership + 1"
_WAIT_S = 10.0
"""Seconds that turning it waits for a commit under way: as long as a transaction of a client that hangs lasts."""


class Known(Protocol):
    """Remembers which kill switches are on."""

    kill_switches: Mapping[str, str]
    """Their recorded texts, by `@all` or name of a harness."""


class PostgresKillSwitch(KillSwitch):
    """The kill switch of a store on PostgreSQL.

    Args:
        known: has those that are on, as a program has read them last; without it, each look asks the server.
    """

    def __init__(self, address: Address, known: Known | None = None) -> None:
        super().__init__(address.location)
        self._address = address
        self._known = known

    def check(self, name: str) -> None:
        error = refusal(self._said(), name)
        if error is not None:
            raise error

    def put_on(self, name: str = ALL, **said: str) -> None:
        """Switch it on for one harness or for all. No intent of an effect is recorded after this returns.

        It waits for the server. An effect whose intent was recorded just before begins when its program has the
        answer: at most 0.8 of a lease later.
        """
        text = inert_json(msgspec.json.encode({**said, "name": name}).decode())
        with limited(self._address, _WAIT_S) as db:
            check_version(db, self._address)
            with db.transaction():
                db.execute(_CHANGED)
                db.execute(_PUT, (name, text))
                self._note(db)

    def take_off(self, name: str = ALL) -> bool:
        with limited(self._address, _WAIT_S) as db:
            check_version(db, self._address)
            with db.transaction():
                db.execute(_CHANGED)
                was_on = db.row("DELETE FROM kill_switches WHERE name = %s RETURNING true", (name,)) is not None
                self._note(db)
        return was_on

    def _note(self, db: Database) -> None:
        if self._known is not None:
            self._known.kill_switches = read_switches(db)

    def _said(self) -> Mapping[str, str]:
        if self._known is not None:
            return self._known.kill_switches
        with limited(self._address, _WAIT_S) as db:
            check_version(db, self._address)
            return read_switches(db)

    def which(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: fields_of(text) for name, text in self._said().items()}


def read_switches(db: Database) -> dict[str, str]:
    """Return the recorded text of the kill switches that are on, as JSON, by `@all` or name of a harness.

    Others, which somebody has put into the table by hand, are left out: they name no harness, and might name a file.
    """
    return {name: text for name, text in db.rows(_READ) if name == ALL or is_name(name)}


def refusal(switches: Mapping[str, str], name: str) -> Latched | None:
    """Return the error for an effect of a harness that may not begin; None if it may."""
    switch = next((switch for switch in (ALL, name) if switch in switches), None)
    return None if switch is None else latched(switch, str(fields_of(switches[switch]).get("reason") or ""))


def fields_of(text: str) -> dict[str, Any]:
    """Return the recorded text of a kill switch as fields."""
    try:
        fields = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}
