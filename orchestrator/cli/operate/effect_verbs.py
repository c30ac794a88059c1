"""The verbs `effects` and `effects settle`: what nobody knows the outcome of, and a person's word on it.

What counts as under way is decided by whether a living process runs the harness: that one may be asking the world itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated, Any, Literal

import msgspec
from attrs import frozen
from cyclopts import App, Parameter

from harnesses.effects.effect import CUT_OFF, OPEN, EffectOutcome
from harnesses.timing.clock import now_us
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.store_writing import commit
from orchestrator.cli.value_lines import brief, columns, json_line, stamp_us
from orchestrator.cli.verb_options import USUAL, Common, Name, Words, print_all
from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.records import EffectRecord
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Settle
from orchestrator.text.command_hints import store_option, ways_to_start
from orchestrator.text.terminal_text import one_line

AS = {"done": EffectOutcome.CONFIRMED, "not-done": EffectOutcome.NOT_DONE}
"""What a person may say of an effect, and what is then on record."""
_UNDER_WAY = "under way"
_HEAD = ("HARNESS", "STEP", "KEY", "OUTCOME", "ATTEMPT", "TIME", "ARGUMENTS", "REASON")


_NO_RESULT = "null: if its function declares to return something else, say what with --result"


effects = App(name="effects", help="Show effects of unknown outcome.")


@effects.default
def default(name: Name | None = None, /, *, all: bool = False, common: Common = USUAL) -> int:
    """Show effects of unknown outcome.

    An effect of a harness that a living process runs is "under way" and needs no decision yet.

    Exit codes: 6 if there are effects of unknown outcome, 0 if there are none.

    Args:
        name: only those of this harness (default: all)
        all: every effect, whatever its outcome
    """
    with closing(common.reader()) as reader:
        shown = known_effects(reader, name, every=all)
        print_all(effects_lines(shown, as_json=common.json))
    unknown = sum(effect.is_unknown for effect in shown)
    if not shown:
        streams.say(f"{reader.location} has no effect{'' if all else ' of unknown outcome'}")
    if not unknown:
        return ExitCode.OK
    streams.say(
        f"{unknown} of unknown outcome: find out what became of each, and record it with "
        f"`orchestrator effects settle NAME KEY --as done|not-done --reason TEXT{store_option(common.store_path)}`"
    )
    return ExitCode.UNKNOWN


@effects.command(name="settle")
def settle_effect(
    name: Name,
    key: Annotated[Words, Parameter(metavar="KEY")],
    /,
    *,
    said: Annotated[Literal["done", "not-done"], Parameter(name="--as")],
    reason: Words,
    result: Annotated[Words | None, Parameter(metavar="JSON", allow_leading_hyphen=True)] = None,
    common: Common = USUAL,
) -> int:
    """Record the outcome of an effect whose outcome is unknown.

    Find out, at the effect's target, whether it happened, then record that; the next run of the harness relies on it:

        done       the effect is not done again, and its call returns what --result says
        not-done   the effect is done when the harness comes to it

    If the effect's function declares what it returns, --result has to match it; otherwise the harness fails. For a governed
    command it is '{"code": 0, "tail": "", "duration_s": 1.0}'; without it, the command does not count as successful. Recording
    the same again changes nothing. A harness that a living process runs has to be stopped first (exit code 75).

    Args:
        name: the name of the harness
        key: the key of the effect, as `orchestrator effects` shows it
        said: whether the effect has happened
        reason: how you know; kept with it
        result: what the effect returned, if it is done (default: null)
    """
    changed = settle(common.store_path, name, key, said, reason=reason, result=result)
    if common.json:
        print_all([json_line({"harness": name, "key": key, "outcome": AS[said].value, "changed": changed})])
    what = f"effect {one_line(key)!r} of {name!r}"
    if not changed:
        streams.say(f"{what} was settled so already")
        return ExitCode.OK
    came = "" if said == "not-done" else f"; its result is {one_line(result or _NO_RESULT)}"
    streams.say(f"{what} is settled as {said}{came}; to go on: {ways_to_start(common.store_path, name)}")
    return ExitCode.OK


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
        "file": record.file,
        "reason": record.reason,
        "idempotent": record.idempotent,
        "keep": record.keep,
        "settled_by": record.settled_by,
    }


def _cells(effect: Shown) -> tuple[str, ...]:
    record = effect.record
    time = (stamp_us(record.time_us) or "-")[:19].replace("T", " ")
    by = f" (said by the {record.settled_by})" if record.settled_by else ""
    place = (record.harness, str(record.step_number), one_line(record.key))
    arguments = brief(record.arguments, 60)
    return (*place, effect.outcome, str(record.attempt), time, arguments, one_line(effect.reason) + by)


def settle(store: str, name: str, key: str, said: str, *, reason: str, result: str | None = None) -> bool:
    """Put a person's word on record; return False if the same was said before, and then do nothing.

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
