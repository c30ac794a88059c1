"""Claims of harnesses in a store on PostgreSQL, as sets: a thousand of them are a handful of statements.

    end the leases of lapsed owners ──► read ──► decide each ──► insert the new ones, update the others, note all

Invariant: an owner whose lease has lapsed cannot come back: its lease is deleted, and its sessions are ended, in the
transaction that takes its harnesses over, and a renewal that came first is waited for, and counts. All of it happens under
the lock on `meta`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from harnesses.errors import OrchestratorError
from orchestrator.codec import decode, kept_of
from orchestrator.errors import OwnedElsewhere
from orchestrator.lifecycle import Status
from orchestrator.records import LIMITS_SET
from orchestrator.store.encryption import reveal_body
from orchestrator.store.postgres.postgres_connection import Database, array, text_array
from orchestrator.store.postgres.postgres_lease import END_SESSIONS
from orchestrator.store.postgres.postgres_reader import state_after
from orchestrator.store.postgres.postgres_rows import EVENT, read_children
from orchestrator.store.rules.claim_rules import check_going_on
from orchestrator.store.rules.holdings import Holdings
from orchestrator.store.rules.state_rules import derive
from orchestrator.store.store_protocol import Claim, Claimed, VersionRow

_END_LAPSED = f"""
WITH lapsed AS (DELETE FROM leases WHERE until <= clock_timestamp()
                AND run IN (SELECT owner FROM harnesses WHERE name = ANY(%s::text[]) AND owner IS NOT NULL) RETURNING run)
{END_SESSIONS}
"""
_CLAIMED = f"""
SELECT h.name, h.id, h.owner, h.owner = %s OR is_alive(h.owner), h.epoch, h.status, h.attempt, h.event, h.supervision,
       h.initial_state, coalesce(last.step, 0), last.body, coalesce(saved.step, 0), saved.state, v.step, v.version, v.state,
       (SELECT r.body FROM records r WHERE r.harness = h.id AND r.kind = 'forked' AND {EVENT} LIMIT 1),
       (SELECT r.body FROM records r WHERE r.harness = h.id AND r.kind = '{LIMITS_SET}' AND {EVENT}
        ORDER BY r.seq DESC LIMIT 1),
       EXISTS (SELECT 1 FROM records r WHERE r.harness = h.id AND r.kind = 'child' AND {EVENT}),
       ARRAY(SELECT ARRAY[r.kind, r.body] FROM records r WHERE r.harness = h.id AND r.kind IN ('intent', 'outcome')
             AND r.step = coalesce(last.step, 0) + 1 ORDER BY r.seq)
FROM harnesses h
LEFT JOIN LATERAL (SELECT r.step, r.body FROM records r WHERE r.harness = h.id AND r.kind = 'step'
                   ORDER BY r.step DESC LIMIT 1) last ON true
LEFT JOIN LATERAL (SELECT r.step, r.state FROM records r WHERE r.harness = h.id AND r.kind = 'step' AND r.state IS NOT NULL
                   ORDER BY r.step DESC LIMIT 1) saved ON true
LEFT JOIN LATERAL (SELECT w.step, w.version, r.state FROM state_versions w LEFT JOIN records r ON r.seq = w.seq
                   WHERE w.harness = h.id ORDER BY w.step DESC, w.version DESC LIMIT 1) v ON true
WHERE h.name = ANY(%s::text[])
"""
"""All that claims need, in one round trip."""
_MAKE = """
INSERT INTO harnesses (id, name, class, initial_state, owner, epoch, status, attempt, event, time_us, mailbox_limit)
SELECT n.id, n.name, n.class, n.initial_state, %s, 1, 'new', 0, '{}', 0, n.mailbox_limit
FROM unnest(%s::integer[], %s::text[], %s::text[], %s::text[], %s::bigint[])
AS n (id, name, class, initial_state, mailbox_limit)
"""
_TAKE = """
UPDATE harnesses h SET owner = %s, epoch = n.epoch, class = n.class, mailbox_limit = n.mailbox_limit
FROM unnest(%s::integer[], %s::integer[], %s::text[], %s::bigint[]) AS n (id, epoch, class, mailbox_limit) WHERE h.id = n.id
"""
_NOTE = """
INSERT INTO claims (harness, epoch, run)
SELECT n.id, n.epoch, %s FROM unnest(%s::integer[], %s::integer[]) AS n (id, epoch)
"""
_UNSAVED = """
SELECT r.harness, string_agg(r.body, ',' ORDER BY r.step), count(*) FROM unnest(%s::integer[], %s::bigint[]) AS n (id, saved)
JOIN records r ON r.harness = n.id AND r.kind = 'step' AND r.step > n.saved GROUP BY r.harness
"""
_ADD_VERSION = "INSERT INTO state_versions (harness, step, version, seq) VALUES (%s, %s, %s, %s)"
_MOST_AT_ONCE = 1000
"""Unsaved steps of a harness that are read together with those of others."""


@frozen
class _Known:
    """A harness as it is on record."""

    harness: int
    owner: str | None
    is_alive: bool
    epoch: int
    status: Status
    attempt: int
    event: str
    supervision: str
    initial: str
    step: int
    body: str | None
    saved: int
    saved_state: str | None
    migrated_at: int | None
    version: int | None
    migrated: str | None
    forked: str | None
    limits: str | None
    has_children: bool
    marks: Sequence[tuple[str, str]]

    @property
    def has_migrated(self) -> bool:
        """Whether the state after its last step is that of a migration."""
        return self.migrated is not None and self.migrated_at is not None and self.migrated_at >= self.step

    @property
    def last_saved(self) -> str:
        return self.initial if self.saved_state is None else self.saved_state


@frozen(eq=False)
class PostgresClaims:
    """Claims harnesses for a run, on one connection, within one commit.

    Args:
        holdings: what the run owns; claimed harnesses are added to it.
        spenders: harnesses that may have open reservations; claimed ones are added to it.
    """

    _db: Database
    _run: str
    _holdings: Holdings
    _spenders: set[int]

    def claim(self, claims: Sequence[Claim]) -> list[Claimed | OrchestratorError]:
        """Return what became of each claim."""
        if len({claim.name for claim in claims}) < len(claims):
            # The second one of a name finds what the first has done.
            return [result for claim in claims for result in self._claim_set([claim])]
        return self._claim_set(claims)

    def _claim_set(self, claims: Sequence[Claim]) -> list[Claimed | OrchestratorError]:
        names = text_array([claim.name for claim in claims])
        self._db.execute(_END_LAPSED, (names,))
        known = {row[0]: _Known(*row[1:]) for row in self._db.rows(_CLAIMED, (self._run, names))}
        new = [claim for claim in claims if claim.name not in known]
        numbers = self._make(new)
        results: dict[str, Claimed | OrchestratorError] = {
            claim.name: refusal
            for claim in claims
            if (found := known.get(claim.name)) is not None and (refusal := _refusal(claim, found)) is not None
        }
        results |= {claim.name: _as_made(claim, numbers[claim.name]) for claim in new}
        granted = [(claim, known[claim.name]) for claim in claims if claim.name not in results]
        taken = [(claim, found) for claim, found in granted if not _is_left(claim, found)]
        self._take(taken)
        held = {found.harness for _, found in taken}
        states = self._states([found for _, found in granted])
        for claim, found in granted:
            epoch = found.epoch + (found.harness in held)
            results[claim.name] = self._to_claimed(found, epoch, states[found.harness])
        return [results[claim.name] for claim in claims]

    def _make(self, claims: Sequence[Claim]) -> Mapping[str, int]:
        """Insert harnesses that are not on record; return their numbers by name."""
        if not claims:
            return {}
        (last,) = self._db.row("SELECT coalesce(max(id), 0) FROM harnesses")
        numbers = range(last + 1, last + 1 + len(claims))
        texts = [[claim.name for claim in claims], [claim.harness_class for claim in claims]]
        states = [self._db.cipher.hide("state", claim.initial_state) for claim in claims]
        columns = [*map(text_array, texts), text_array(states), _limits(claims)]
        self._db.execute(_MAKE, (self._run, array(numbers), *columns))
        self._note(numbers, [1] * len(claims), [0] * len(claims))
        for number, claim in zip(numbers, claims, strict=True):
            if claim.state_version != 1:
                self._db.execute(_ADD_VERSION, (number, *VersionRow(0, claim.state_version, 0)))
        return dict(zip((claim.name for claim in claims), numbers, strict=True))

    def _take(self, taken: Sequence[tuple[Claim, _Known]]) -> None:
        if not taken:
            return
        claims, found = [claim for claim, _ in taken], [one for _, one in taken]
        numbers, epochs = [one.harness for one in found], [one.epoch + 1 for one in found]
        classes = text_array([claim.harness_class for claim in claims])
        self._db.execute(_TAKE, (self._run, array(numbers), array(epochs), classes, _limits(claims)))
        self._spenders.update(numbers)
        self._note(numbers, epochs, [one.step for one in found])

    def _note(self, numbers: Sequence[int], epochs: Sequence[int], heads: Sequence[int]) -> None:
        self._db.execute(_NOTE, (self._run, array(numbers), array(epochs)))
        self._holdings.ownership += 1
        self._holdings.epochs.update(zip(numbers, epochs, strict=True))
        self._holdings.heads.update(zip(numbers, heads, strict=True))

    def _states(self, found: Sequence[_Known]) -> Mapping[int, str]:
        """Return the state of each harness after its last step, by number."""
        states: dict[int, str] = {}
        together: list[_Known] = []
        for one in found:
            if one.has_migrated:
                assert one.migrated is not None
                states[one.harness] = self._db.cipher.reveal("state", one.migrated)
            elif one.saved < one.step <= one.saved + _MOST_AT_ONCE:
                together.append(one)
            else:
                states[one.harness] = state_after(self._db, one.harness, one.last_saved, one.saved, one.step)
        if together:
            columns = array([one.harness for one in together]), array([one.saved for one in together])
            read = {harness: (bodies, count) for harness, bodies, count in self._db.rows(_UNSAVED, columns)}
            for one in together:
                bodies, count = read.get(one.harness, ("", 0))
                is_whole = count == one.step - one.saved
                # One with a missing step is read alone, where the error names it.
                states[one.harness] = (
                    derive(self._db.cipher.reveal("state", one.last_saved), [bodies], self._db.cipher)
                    if is_whole
                    else state_after(self._db, one.harness, one.last_saved, one.saved, one.step)
                )
        return states

    def _to_claimed(self, found: _Known, epoch: int, state: str) -> Claimed:
        return Claimed(
            harness=found.harness,
            epoch=epoch,
            status=Status(found.status),
            attempt=found.attempt,
            step=found.step,
            state=state,
            event=decode(found.event),
            supervision=decode(found.supervision),
            unsaved_steps=found.step - found.saved,
            marks=tuple((kind, reveal_body(self._db.cipher, kind, said)) for kind, said in found.marks),
            state_version=1 if found.version is None else found.version,
            migrated=found.has_migrated,
            kept={} if found.body is None else kept_of(found.body),
            children=read_children(self._db, found.harness) if found.has_children else (),
            model="" if found.forked is None else decode(found.forked).get("model", ""),
            time_limits={} if found.limits is None else decode(found.limits),
        )


def _refusal(claim: Claim, found: _Known) -> OrchestratorError | None:
    """Return why a harness cannot be claimed; None if it can."""
    try:
        check_going_on(claim, Status(found.status), decode(found.event))
    except OwnedElsewhere as error:
        return error
    is_free = found.owner is None or not found.is_alive or claim.take_over or _is_left(claim, found)
    return None if is_free or found.owner is None else owned_elsewhere(claim.name, found.owner)


def _is_left(claim: Claim, found: _Known) -> bool:
    """Return whether a harness is not assigned, since it has nothing left to do."""
    return found.status == Status.COMPLETED and not claim.reopen


def owned_elsewhere(name: str, owner: str) -> OwnedElsewhere:
    """Return the error for a harness that a living run has."""
    return OwnedElsewhere(
        f"harness {name!r} is owned elsewhere: run {owner} runs it; stop that one first, or, if it is gone, wait until "
        "its lease has lapsed"
    )


def _as_made(claim: Claim, number: int) -> Claimed:
    return Claimed(number, 1, Status.NEW, 0, 0, claim.initial_state, {}, {}, 0, state_version=claim.state_version)


def _limits(claims: Sequence[Claim]) -> str:
    limits = ["NULL" if claim.mailbox_limit is None else str(claim.mailbox_limit) for claim in claims]
    return "{" + ",".join(limits) + "}"
