"""The verbs `effects` and `effects settle`: effects of unknown outcome, and settling them.

What counts as under way is decided by whether a living process runs the harness: that one may be asking the world itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated, Literal

from cyclopts import App, Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Name, Words, print_all
from orchestrator.operating.effect_outcomes import AS, ShownEffect, effect_fields, known_effects, settle
from orchestrator.text.command_hints import store_option, ways_to_start
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import brief, columns, json_line, stamp_us

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


def effects_lines(effects: Sequence[ShownEffect], *, as_json: bool) -> Iterator[str]:
    """Yield a line for each effect."""
    if as_json:
        yield from (json_line(effect_fields(effect)) for effect in effects)
    elif effects:
        yield from columns(_HEAD, map(_cells, effects))


def _cells(effect: ShownEffect) -> tuple[str, ...]:
    record = effect.record
    time = (stamp_us(record.time_us) or "-")[:19].replace("T", " ")
    by = f" (said by the {record.settled_by})" if record.settled_by else ""
    place = (record.harness, str(record.step_number), one_line(record.key))
    arguments = brief(record.arguments, 60)
    return (*place, effect.outcome, str(record.attempt), time, arguments, one_line(effect.reason) + by)
