"""The verbs `effects` and `effects settle`: what nobody knows the outcome of, and a person's word on it.

What counts as under way is decided by whether a living process runs the harness: that one may be asking the world itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec
from attrs import frozen

from harnesses.effects.effect import EffectOutcome
from harnesses.timing.clock import now_us
from orchestrator.cli.store_writing import commit
from orchestrator.cli.value_lines import brief, columns, json_line, stamp_us
from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.records import EffectRecord
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Settle
from orchestrator.text.terminal_text import one_line

AS = {"done": EffectOutcome.CONFIRMED, "not-done": EffectOutcome.NOT_DONE}
"""What a person may say of an effect, and what is then on record."""
_UNDER_WAY = "under way"
_CUT_OFF = "it was cut off: its program ended before the outcome was known"
_HEAD = ("HARNESS", "STEP", "KEY", "OUTCOME", "ATTEMPT", "TIME", "ARGUMENTS", "REASON")


@frozen
class Shown:
    """An effect, and whether a living process runs its harness."""

    record: EffectRecord
    owned: bool

    @property
    def is_under_way(self) -> bool:
        return self.record.is_open and self.owned

    @property
    def is_unknown(self) -> bool:
        """Whether a person is needed."""
        return self.record.is_open and not self.owned

    @property
    def outcome(self) -> str:
        if self.is_under_way:
            return _UNDER_WAY
        return EffectOutcome.UNKNOWN.value if self.is_unknown else self.record.outcome.value

    @property
    def reason(self) -> str:
        return _CUT_OFF if self.is_unknown and not self.record.reason else self.record.reason


def known_effects(reader: SqliteReader, name: str | None, *, every: bool) -> list[Shown]:
    """Return the effects of one harness or of all: those that nobody knows the outcome of, or every one.

    Raises:
        UnknownHarness: there is no such harness.
    """
    # Asked before and after: a program that ends, or begins, between two questions leaves nothing unknown.
    before = _list_owned(reader)
    effects = reader.effects(name, current=not every)
    owned = before | _list_owned(reader)
    return [Shown(effect, effect.harness in owned) for effect in effects if every or effect.is_open]


def _list_owned(reader: SqliteReader) -> set[str]:
    return {record.name for record in reader.harnesses() if record.owned}


def effects_lines(effects: Sequence[Shown], *, as_json: bool) -> Iterator[str]:
    """Yield a line for each effect."""
    if as_json:
        yield from (json_line(_fields(effect)) for effect in effects)
    elif effects:
        yield from columns(_HEAD, map(_cells, effects))


def _fields(effect: Shown) -> dict[str, Any]:
    record = effect.record
    return {
        "harness": record.harness,
        "step_number": record.step_number,
        "key": record.key,
        "outcome": record.outcome.value if effect.is_under_way else effect.outcome,
        "under_way": effect.is_under_way,
        "attempt": record.attempt,
        "seq": record.seq,
        "timestamp": stamp_us(record.time_us),
        "arguments": record.arguments,
        "result": record.result,
        "reason": record.reason,
        "idempotent": record.idempotent,
        "settled_by": record.settled_by,
    }


def _cells(effect: Shown) -> tuple[str, ...]:
    record = effect.record
    time = (stamp_us(record.time_us) or "-")[:19].replace("T", " ")
    by = f" (said by the {record.settled_by})" if record.settled_by else ""
    place = (record.harness, str(record.step_number), one_line(record.key))
    arguments = brief(record.arguments, 60)
    return (*place, effect.outcome, str(record.attempt), time, arguments, one_line(effect.reason) + by)


@frozen
class Word:
    """What a person says of an effect."""

    name: str
    key: str
    said: str
    """One of `AS`."""
    reason: str
    result: str | None = None
    """JSON; None if nothing was said of it."""


def settle(store: str, word: Word) -> bool:
    """Put a person's word on record; return False if the same was said before, and then do nothing.

    Raises:
        UsageError: there is no such effect, nothing to settle, or the result is no JSON.
        OwnedElsewhere: a living process runs that harness.
    """
    if not word.reason.strip():
        raise UsageError("--reason: expected how it was found out, was nothing; whoever reads this later will want to know")
    done = word.said == "done"
    result = _check_result(word.result, done=done)
    if _is_said_already(store, word, result):
        return False
    commit(store, Settle(word.name, word.key, done=done, result=result, reason=word.reason, time_us=now_us()))
    return True


def _check_result(result: str | None, *, done: bool) -> str:
    if result is None:
        return "null"
    if not done:
        raise UsageError("--result: expected none with --as not-done, for what was not done has no result; leave it out")
    try:
        return encode(msgspec.json.decode(result))
    except msgspec.DecodeError as error:
        raise UsageError(
            f"--result: expected JSON, was {result!r:.200}: {error}; text needs double quotes around it"
        ) from error


def _is_said_already(store: str, word: Word, result: str) -> bool:
    """Return whether the newest effect of that key was settled by a person, and in the same way."""
    with closing(SqliteReader(store)) as reader:
        if word.name not in (record.name for record in reader.harnesses()):
            return False
        same_key = [effect for effect in reader.effects(word.name) if effect.key == word.key]
    if not same_key or not same_key[-1].settled_by:
        return False
    newest = same_key[-1]
    return newest.outcome is AS[word.said] and encode(newest.result) == result
