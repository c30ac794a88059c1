"""The evidence of `why` in a store, by the store's own indexes and without an engine: steps are not read one by one.

Invariant: it is what the frames of an opened run say. Text is redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from harnesses.errors import one_of
from harnesses.redaction.redactor import redact_text
from orchestrator.analysis.frames.run_tables import FIELDS
from orchestrator.analysis.questions.record_scan import Said
from orchestrator.analysis.questions.why_steps import Around, EffectFact, MessageFact, StepFact, around_of
from orchestrator.analysis.sources.source_reading import APPROVALS, LIFE
from orchestrator.codec import encode_private, without_secrets
from orchestrator.errors import UsageError
from orchestrator.events import current_kind, stored_kinds
from orchestrator.store.file.schema import EFFECTS_OF_STEP, IS_EVENT, OLDEST_READABLE
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.telemetry.span import object_in
from orchestrator.text.json_text import object_of

_TOLD = ", ".join(f"'{kind}'" for kind in stored_kinds((*LIFE, *APPROVALS)))
_SAID = f"""
SELECT seq, time_us, harness, attempt, step, kind, body FROM records {{index}} WHERE {IS_EVENT} AND kind IN ({_TOLD})
"""
_SAID_OF = f"{_SAID.format(index='INDEXED BY event_records')} AND harness = ?"
_OF_STEPS = """
SELECT r.seq, r.time_us, r.attempt, r.step, r.body FROM records r WHERE r.seq IN (
    SELECT seq FROM step_index WHERE harness = :harness AND step BETWEEN :first AND :last
    UNION SELECT seq FROM records WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step' AND harness = :harness
                                        AND step BETWEEN :first AND :last
) ORDER BY r.step
"""
_LAST_STEP = """
SELECT max(coalesce((SELECT max(step) FROM step_index WHERE harness = :harness), 0),
           coalesce((SELECT max(step) FROM records WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step'
                                                         AND harness = :harness), 0))
"""
_MADE_BEFORE = """
SELECT max(r.step) FROM records r WHERE r.time_us < :time_us AND r.seq IN (
    SELECT seq FROM step_index WHERE harness = :harness
    UNION SELECT seq FROM records WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step' AND harness = :harness
)
"""
_MESSAGES = """
SELECT m.seq, r.time_us, r.body, m.harness, m.consumed_step FROM mailbox m JOIN records r ON r.seq = m.seq
WHERE m.harness = :harness OR m.sender = :name ORDER BY m.seq
"""
_TIMES = ("work", "agent", "effects", "waiting")


class _Told(Mapping[str, Sequence[Said]]):
    """The lifecycle events and approval records of each harness, which are read when they are asked for.

    Args:
        rows: runs a query.
        names: the name of each harness as it is shown, by its number; two may have the same.
        is_indexed: whether the store has the index over these records; without it, all records are searched once.
    """

    def __init__(self, rows: Callable[[str, Any], list[Any]], names: Mapping[int, str], *, is_indexed: bool) -> None:
        self._rows = rows
        self._names = names
        self._is_indexed = is_indexed
        self._read: dict[str, list[Said]] = {}

    def __getitem__(self, name: str) -> Sequence[Said]:
        if not self._is_indexed:
            return self.all[name]
        if name not in self._read:
            numbers = [number for number, shown in self._names.items() if shown == name]
            self._read[name] = self._gather(row for number in numbers for row in self._rows(_SAID_OF, (number,))).get(name, [])
        if not self._read[name]:
            raise KeyError(name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @cached_property
    def all(self) -> dict[str, list[Said]]:
        return self._gather(self._rows(_SAID.format(index="INDEXED BY event_records" if self._is_indexed else ""), ()))

    def _gather(self, rows: Iterable[Any]) -> dict[str, list[Said]]:
        told: dict[str, list[Said]] = {}
        for seq, time_us, harness, attempt, step, kind, body in sorted(rows):
            name = self._names.get(harness, "")
            fields = object_of(without_secrets(body))
            event = Said(seq, _at(time_us), name, attempt, step, current_kind(kind), **_typed(fields))
            told.setdefault(name, []).append(event)
        return told


class StoreEvidence:
    """What a store has on record of its harnesses. Close it after use.

    Raises:
        StoreUnusable: it is not a store, or cannot be read.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self._db = open_reader(Path(location).resolve())
        with translated(location):
            self._db.execute("BEGIN")
            known = self._db.execute("SELECT id, name FROM harnesses ORDER BY name").fetchall()
        self._names = {id: redact_text(name) for id, name in known}
        self._own_names = {self._names[id]: name for id, name in known}
        (version,) = self._rows("PRAGMA user_version")[0]
        self._told = _Told(self._rows, self._names, is_indexed=version > OLDEST_READABLE)

    def close(self) -> None:
        self._db.close()

    def names(self, wanted: str | None = None) -> list[str]:
        names = sorted(set(self._names.values()))
        if wanted is not None and wanted not in names:
            known = one_of(names[:20], "nothing is recorded; run a harness first") + (" …" if len(names) > 20 else "")
            raise UsageError(f"{shown_place(self.location)} has no harness {wanted!r}: {known}")
        return names

    def said(self) -> Mapping[str, Sequence[Said]]:
        return self._told

    def said_by_all(self) -> Mapping[str, Sequence[Said]]:
        """Return what `said` does, read at once, so that it is there when this is closed."""
        return self._told.all

    def last_step(self, name: str) -> int:
        (last,) = self._rows(_LAST_STEP, {"harness": self._number(name)})[0]
        return max([int(last), *(one.step for one in self._told.get(name, ()) if one.kind == "started")])

    def gone(self) -> set[str]:
        with closing(SqliteReader(self.location)) as reader:
            return {record.name for record in reader.harnesses() if not record.owned}

    def ended_at(self) -> datetime | None:
        (last,) = self._rows("SELECT max(time_us) FROM records")[0]
        return None if last is None else _at(last)

    def around(self, name: str, number: int) -> Around:
        steps = {one.number: one for one in self._steps(name, number - 1, number)}
        return around_of(name, number, steps, list(self._effects(name, number)), self._messages(name), self._sent_while)

    def tracebacks(self, seqs: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for seq in seqs:
            for (body,) in self._rows("SELECT body FROM records WHERE seq = ?", (seq,)):
                found[seq] = _text(object_of(without_secrets(body)).get("traceback")) or ""
        return found

    def spent(self, name: str) -> list[tuple[list[str], dict[str, Any]]]:
        query = f"SELECT body FROM records WHERE {IS_EVENT} AND kind = 'budget' AND harness = ? ORDER BY seq"
        fields = [object_of(without_secrets(body)) for (body,) in self._rows(query, (self._number(name),))]
        settled = [one for one in fields if one.get("change") in ("settled", "overspent", "forfeited", "charged")]
        return [
            (list(one.get("pools") or ()), one["spent"] if "spent" in one else one.get("amounts") or {}) for one in settled
        ]

    def _steps(self, name: str, first: int, last: int) -> Iterator[StepFact]:
        of = {"harness": self._number(name), "first": first, "last": last}
        for seq, time_us, attempt, step, body in self._rows(_OF_STEPS, of):
            fields = object_of(without_secrets(body))
            took, is_timed = object_in(fields, "took_us"), isinstance(fields.get("took_us"), dict)
            times: list[float | None] = [took.get(part, 0) / 1e6 if is_timed else None for part in _TIMES]
            work, agent, effects, waiting = times
            output, delta = (_json(fields.get(part)) for part in ("output", "delta"))
            summary = _text(fields.get("summary"))
            output = output and output[:400]
            yield StepFact(seq, _at(time_us), attempt, step, work, agent, effects, waiting, summary, output, delta)

    def _effects(self, name: str, step: int) -> Iterator[EffectFact]:
        marks = self._rows(EFFECTS_OF_STEP, {"harness": self._number(name), "step": step})
        begun: dict[str, EffectFact] = {}
        for seq, _, attempt, of_step, time_us, kind, body in marks:
            fields = object_of(without_secrets(body))
            key = _text(fields.get("key")) or ""
            if kind == "intent":
                is_harmless = bool(fields.get("idempotent") or fields.get("keep"))
                begun[key] = EffectFact(seq, _at(time_us), of_step, key, "begun", "", is_harmless, attempt)
            elif (one := begun.get(key)) is not None:
                outcome, reason = _text(fields.get("outcome")) or "", _text(fields.get("reason")) or ""
                begun[key] = EffectFact(one.seq, one.at, one.step, key, outcome, reason, one.may_be_cut_off, one.attempt)
        yield from sorted(begun.values(), key=lambda one: one.seq)

    def _messages(self, name: str) -> list[MessageFact]:
        rows = self._rows(_MESSAGES, {"harness": self._number(name), "name": self._own_names[name]})
        return [self._message(*row) for row in rows]

    def _message(self, seq: int, time_us: int, body: str, to: int, consumed: int | None) -> MessageFact:
        fields = object_of(without_secrets(body))
        text = (_json(fields.get("message")) or "")[:300]
        return MessageFact(seq, _at(time_us), _text(fields.get("from")) or "", self._names.get(to, ""), text, consumed)

    def _sent_while(self, messages: Iterable[MessageFact]) -> dict[int, int]:
        """Return the step that the sender of each message was making, by the message's `seq`."""
        found: dict[int, int] = {}
        for one in messages:
            if one.sender in self._own_names:
                time_us = round(one.at.replace(tzinfo=UTC).timestamp() * 1e6)
                of = {"harness": self._number(one.sender), "time_us": time_us}
                found[one.seq] = (self._rows(_MADE_BEFORE, of)[0][0] or 0) + 1
            elif one.sender:
                found[one.seq] = 1
        return found

    def _number(self, name: str) -> int:
        numbers: dict[str, int] = {shown: id for id, shown in self._names.items()}
        return numbers[name]

    def _rows(self, query: str, parameters: Any = ()) -> list[Any]:
        with translated(self.location):
            rows: list[Any] = self._db.execute(query, parameters).fetchall()
            return rows


def _at(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(tzinfo=None, microsecond=time_us % 1_000_000)


def _typed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that questions read, each of its type; None where a value has another."""
    found: dict[str, Any] = {}
    for name, type in FIELDS.items():
        value: Any = fields.get(name)
        if type == "VARCHAR":
            found[name] = _text(value)
        elif type == "BOOLEAN":
            found[name] = value if isinstance(value, bool) else None
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            found[name] = None if not is_number else float(value) if type == "DOUBLE" else int(value)
    return found


def _json(value: object) -> str | None:
    return None if value is None else encode_private(value)


def _text(value: object) -> str | None:
    """Return text as it is, and anything else as JSON."""
    return value if value is None or isinstance(value, str) else encode_private(value)
