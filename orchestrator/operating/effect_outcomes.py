"""Effects as plain values, and settling those of unknown outcome.

An effect counts as under way while a living process runs its harness: that process may be checking the outcome itself.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec
from attrs import frozen

from harnesses.effects.effect import CUT_OFF, OPEN, EffectOutcome
from harnesses.timing.clock import now_us
from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.operating.store_writing import commit
from orchestrator.records import EffectRecord
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Settle
from orchestrator.text.json_text import stamp_us

AS = {"done": EffectOutcome.CONFIRMED, "not-done": EffectOutcome.NOT_DONE}
"""What a person may say of an effect, and what is then on record."""
_UNDER_WAY = "under way"


@frozen
class ShownEffect:
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
        if self._is_cut_off:
            return EffectOutcome.INTERRUPTED.value
        return EffectOutcome.UNKNOWN.value if self.is_unknown else self.record.outcome.value

    @property
    def reason(self) -> str:
        return CUT_OFF if (self.is_unknown or self._is_cut_off) and not self.record.reason else self.record.reason

    @property
    def _is_cut_off(self) -> bool:
        """Whether it is one that tells its caller so, when that asks for it again."""
        return self.record.outcome in OPEN and self.record.keep and not self.record.idempotent and not self.owned


def known_effects(reader: SqliteReader, name: str | None, *, every: bool) -> list[ShownEffect]:
    """Return the effects of one harness or of all: those that nobody knows the outcome of, or every one.

    Raises:
        UnknownHarness: there is no such harness.
    """
    # Asked before and after: a program that ends, or begins, between two questions leaves nothing unknown.
    before = _list_owned(reader)
    effects = reader.effects(name, current=not every)
    owned = before | _list_owned(reader)
    return [ShownEffect(effect, effect.harness in owned) for effect in effects if every or effect.is_open]


def _list_owned(reader: SqliteReader) -> set[str]:
    return {record.name for record in reader.harnesses() if record.owned}


def effect_fields(effect: ShownEffect) -> dict[str, Any]:
    """Return an effect as the command and the API show it."""
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
        "file": record.file,
        "reason": record.reason,
        "idempotent": record.idempotent,
        "keep": record.keep,
        "settled_by": record.settled_by,
    }


def settle(store: str, name: str, key: str, said: str, *, reason: str, result: str | None = None) -> bool:
    """Record the outcome that an operator has found; return False, and do nothing, if the same is on record already.

    Args:
        said: one of `AS`.
        result: JSON; None if nothing was said of it.

    Raises:
        UsageError: there is no such effect, nothing to settle, or the result is no JSON.
        OwnedElsewhere: a living process runs that harness.
    """
    if not reason.strip():
        raise UsageError("--reason: expected how it was found out, got nothing; whoever reads this later will want to know")
    done = said == "done"
    text = _check_result(result, done=done)
    if (AS[said], text) == _said_before(store, name, key):
        return False
    commit(store, Settle(name, key, done=done, result=text, reason=reason, time_us=now_us()))
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
            f"--result: expected JSON, got {result!r:.200}: {error}; text needs double quotes around it"
        ) from error


def _said_before(store: str, name: str, key: str) -> tuple[EffectOutcome, str] | None:
    """Return how the newest effect of that key was settled by a person, and with what result; None if it was not."""
    with closing(SqliteReader(store)) as reader:
        if name not in (record.name for record in reader.harnesses()):
            return None
        same_key = [effect for effect in reader.effects(name) if effect.key == key]
    if not same_key or not same_key[-1].settled_by:
        return None
    return same_key[-1].outcome, encode(same_key[-1].result)
