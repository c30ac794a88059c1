"""What in a store contradicts something else in it, found by doing again what was done once.

    every state, from the first one and the deltas         against the snapshots
    the last lifecycle event on record of each harness     against its row, which says in what state it is
    the message records                                    against the mailboxes

Only a defect of the program, or somebody who has written the chain of seals anew, can have brought such a thing about.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, TypeAlias

from harnesses.delta import apply_to_state
from harnesses.record_size import ENCRYPTED
from orchestrator.codec import decode
from orchestrator.errors import StoreUnusable
from orchestrator.events import EVENTS
from orchestrator.store.encryption import FieldCipher, Plain, reveal_delta
from orchestrator.store.message_records import mailbox_columns, recorded_fields

Contradiction: TypeAlias = tuple[str, str, str, int | None]
"""What, where, text and the number of the record."""

_STEPS = """
SELECT i.harness, r.seq, r.step, r.body, r.state FROM step_index i JOIN records r ON r.seq = i.seq ORDER BY i.harness, i.step
"""
_TAIL = """
SELECT harness, seq, step, body, state FROM records
WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step' ORDER BY harness, seq
"""
_KINDS = ", ".join(repr(event.kind) for event in EVENTS)
_EVENTS = f"""
SELECT h.name, h.attempt, h.event, r.seq, r.attempt, r.body FROM harnesses h JOIN records r ON r.seq = (
    SELECT max(seq) FROM records WHERE harness = h.id AND kind IN ({_KINDS})
)
"""
_MESSAGES = """
SELECT m.seq, h.name, r.body, {columns}
FROM mailbox m JOIN harnesses h ON h.id = m.harness
LEFT JOIN records r ON r.seq = m.seq AND r.kind = 'message' AND r.harness = m.harness ORDER BY m.seq
"""
_UNREADABLE = (KeyError, IndexError, TypeError, AttributeError, ValueError)


def contradictions(db: sqlite3.Connection, cipher: FieldCipher) -> Iterator[Contradiction]:
    """Yield what contradicts something else. Encrypted states are derived only with the key."""
    yield from _states(db, cipher)
    yield from _events(db)
    yield from _messages(db)


def is_encrypted(db: sqlite3.Connection) -> bool:
    """Return whether some state in a store cannot be read without a key."""
    query = "SELECT EXISTS (SELECT 1 FROM harnesses WHERE instr(initial_state, :mark) = 1) OR EXISTS ("
    query += "SELECT 1 FROM records WHERE instr(state, :mark) = 1)"
    return bool(db.execute(query, {"mark": ENCRYPTED}).fetchone()[0])


def _states(db: sqlite3.Connection, cipher: FieldCipher) -> Iterator[Contradiction]:
    """Yield each snapshot that is not the state which the deltas come to. One state is in memory for each harness."""
    states: dict[int, Any] = {}
    initial = dict(db.execute("SELECT id, initial_state FROM harnesses"))
    broken: set[int] = set()
    begun: dict[int, int] = {}
    for query in (_STEPS, _TAIL):
        for harness, seq, step, body, state in db.execute(query):
            if harness in broken:
                continue
            try:
                if harness not in states and step != 1:
                    # Older steps were pruned: what can be derived begins with a snapshot.
                    begun[harness] = seq
                    if state is not None:
                        states[harness] = decode(cipher.reveal("state", state))
                    continue
                if harness not in states:
                    states[harness] = decode(cipher.reveal("state", initial[harness]))
                states[harness] = apply_to_state(states[harness], reveal_delta(cipher, decode(body)["delta"]))
                fits = state is None or decode(cipher.reveal("state", state)) == states[harness]
            except StoreUnusable as error:
                broken.add(harness)
                if not isinstance(cipher, Plain):
                    yield "edited", "record", f"the state after step {step} in record {seq}: {error}", seq
                continue
            except _UNREADABLE as error:
                broken.add(harness)
                yield "edited", "record", f"the state after step {step} can not be derived from record {seq}: {error}", seq
                continue
            if not fits:
                broken.add(harness)
                yield "edited", "record", f"the snapshot at step {step} is not what the deltas up to it come to", seq
    for harness, seq in begun.items():
        if harness not in states and harness not in broken:
            yield "edited", "record", f"no state can be derived from record {seq} and those before: there is no snapshot", seq


def _events(db: sqlite3.Connection) -> Iterator[Contradiction]:
    for name, attempt, event, seq, recorded_attempt, body in db.execute(_EVENTS):
        if (attempt, event) != (recorded_attempt, body):
            text = f"harness {name!r} is not where its last lifecycle event, record {seq}, has left it"
            yield "edited", "harnesses", text, seq


def _messages(db: sqlite3.Connection) -> Iterator[Contradiction]:
    for seq, name, record, *message in db.execute(_MESSAGES.format(columns=mailbox_columns(db, "m"))):
        try:
            fits = record is not None and decode(record) == recorded_fields(*message)
        except _UNREADABLE:
            fits = False
        if not fits:
            yield "edited", "mailbox", f"message {seq} to {name!r} is not what was recorded when it was sent", seq
