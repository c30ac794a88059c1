"""The operator's verbs on the command line: what each takes, and what it says. What they do is in modules of their own."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import closing
from functools import partial

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.operate import approval_verbs as approvals
from orchestrator.cli.operate import effect_verbs as effects
from orchestrator.cli.operate import kill_switch_verb as kill_switches
from orchestrator.cli.operate import message_verbs as posting
from orchestrator.cli.operate.live_verbs import give
from orchestrator.cli.parsing import Add, add_common, add_verb, print_all, reader_of, store_of, words
from orchestrator.cli.value_lines import json_line
from orchestrator.errors import UsageError
from orchestrator.text.command_hints import for_store, store_option, ways_to_start
from orchestrator.text.terminal_text import one_line

SETTLE = "effects settle"
REOPEN = "approvals reopen"
TWO_WORDS = (SETTLE, REOPEN)
"""Verbs of two words."""

_EFFECTS = """\
An effect of a harness that a living process runs is "under way"; it is no concern of a person's yet.
exit codes: 6 if there are effects of unknown outcome, 0 if there are none"""
_SETTLE = """\
Find out in the world itself what became of the effect, then say so; the next run of the harness takes your word for it:
  done       the effect is not done again, and its call returns what --result says
  not-done   the effect is done when the harness comes to it
If the effect's function declares what it returns, --result has to fit that: the harness fails if it does not.
Of a governed command it is '{"code": 0, "tail": "", "duration_s": 1.0}'; without it, the command does not count as ok.
To say the same again changes nothing. A harness that a living process runs has to be stopped first (exit code 75)."""
_KILL_SWITCH = """\
While a kill switch is on, no effect begins, not even in a program whose loop is blocked or whose store is locked; one that had
begun before may still come to its end. Harnesses that come to an effect are blocked (exit code 4), and after `kill-switch off`
`orchestrator start NAME` has them go on, or `orchestrator run FILE` where no program runs. Beside a store there is a
kill switch for all harnesses, and one for each.
It is a file in PATH-latch; that it could not be recorded in the store is said, and is no failure (exit code 0)."""
_SEND = """\
MESSAGE is JSON, or else plain text, which is sent as a string: 12 is a number, '"12"' and --text 12 are strings.
`-` is what stands in standard input, less the line feed at its end. Each call sends one more message.
A harness that runs refuses what its `accepts` does not name (exit code 2). The store does not know these types: what is sent
to one that does not run, or whose program takes no orders, is checked when it is read, and set aside if it is of another."""


def add_operating(add: Add) -> None:
    """Add the operator's verbs."""
    _add_approvals(add)
    _add_effects(add)
    _add_kill_switch(add)
    _add_messages(add)


_APPROVALS = """\
A harness that waits for an approval stands still, and no other; its clocks do too. What was asked survives a stop and a
restart, and is not asked twice.
exit codes: 4 if something waits for a person, 0 if nothing does"""
_ANSWERS = """\
The answer is for exactly the action that `orchestrator approvals --json` shows, in that step of that harness, once.
A denial stands, and wins over an approval that was not used yet; a harness that cannot do without is blocked by it until
`orchestrator approvals reopen ID`. To say the same again changes nothing."""
_REOPEN = """\
For a request that was denied, or has expired: it serves nothing any more, and neither does what was said of it. The harness
asks anew, under another ID, when it is started again: `orchestrator start NAME` where its program still runs, else
`orchestrator run FILE`. Reopening alone starts nothing; --start does both. To say the same again changes nothing."""


def _add_approvals(add: Add) -> None:
    shown = add_verb(add, "approvals", "show what waits for a person's approval", _show_approvals, _APPROVALS)
    shown.add_argument("name", metavar="NAME", nargs="?", help="of a harness; default: all")
    shown.add_argument("--all", action="store_true", help="everything that was ever asked, and how it was answered")
    add_common(shown)
    for verb, verdict, help in (
        ("approve", "approved", "approve what a harness has asked for"),
        ("deny", "denied", "deny what a harness has asked for"),
    ):
        answer = add_verb(add, verb, help, partial(_respond, verdict), _ANSWERS)
        answer.add_argument("id", metavar="ID", type=words, help="as `orchestrator approvals` shows it")
        answer.add_argument("--by", metavar="NAME", type=words, help="who answers (default: who gives the command)")
        answer.add_argument("--reason", metavar="TEXT", type=words, default="", help="why; kept with it, and told")
        add_common(answer)

    reopen = add_verb(add, REOPEN, "have a request that was denied asked anew", _reopen, _REOPEN)
    reopen.add_argument("id", metavar="ID", type=words, help="as `orchestrator approvals --all` shows it")
    reopen.add_argument("--by", metavar="NAME", type=words, help="who reopens it (default: who gives the command)")
    reopen.add_argument("--reason", metavar="TEXT", type=words, default="", help="why; kept with it, and told")
    reopen.add_argument("--start", action="store_true", help="also start the harness again in the program that runs")
    add_common(reopen)


def _show_approvals(options: argparse.Namespace) -> int:
    with closing(reader_of(options)) as reader:
        shown = approvals.known_approvals(reader, options.name, every=options.all)
        print_all(approvals.approvals_lines(shown, as_json=options.json))
    pending = sum(one.is_pending for one in shown)
    if not pending:
        streams.say(f"nothing in {reader.location} waits for an approval")
        return ExitCode.OK
    option = store_option(store_of(options))
    streams.say(f"{pending} waiting: answer each with `orchestrator approve|deny ID --reason TEXT{option}`")
    return ExitCode.BLOCKED


def _respond(verdict: str, options: argparse.Namespace) -> int:
    _say_answer(verdict, options)
    return ExitCode.OK


def _say_answer(verdict: str, options: argparse.Namespace) -> None:
    """Put an answer on record, and say so; of one that was given before, by whom and when."""
    store = store_of(options)
    changed = approvals.respond(store, options.id, verdict, by=options.by, reason=options.reason)
    if options.json:
        print_all([json_line({"id": options.id, "verdict": verdict, "changed": changed})])
    by, at = ("", "") if changed else approvals.said_before(store, options.id, verdict)
    already = "" if changed else f" already, by {one_line(by)} at {at}" if by else ", as it was already"
    streams.say(f"{one_line(options.id)} is {verdict}{already}")


def _reopen(options: argparse.Namespace) -> int:
    store = store_of(options)
    asker = approvals.asker_to_reopen(store, options.id)
    _say_answer("reopened", options)
    if options.start:
        return give(store, asker, "start", as_json=options.json)
    streams.say(f"{asker} asks anew when it is started again: {ways_to_start(store, asker)}")
    return ExitCode.OK


_NO_RESULT = "null: if its function declares to return something else, say what with --result"


def _add_effects(add: Add) -> None:
    shown = add_verb(add, "effects", "show the effects that nobody knows the outcome of", _show_effects, _EFFECTS)
    shown.add_argument("name", metavar="NAME", nargs="?", help="of a harness; default: all")
    shown.add_argument("--all", action="store_true", help="every effect, whatever became of it")
    add_common(shown)
    settle = add_verb(add, SETTLE, "say what became of an effect of unknown outcome", _settle, _SETTLE)
    settle.add_argument("name", metavar="NAME", help="of the harness")
    settle.add_argument("key", metavar="KEY", type=words, help="of the effect, as `orchestrator effects` shows it")
    settle.add_argument("--as", dest="said", choices=list(effects.AS), required=True, help="whether it has happened")
    settle.add_argument("--reason", metavar="TEXT", type=words, required=True, help="how you know; kept with it")
    settle.add_argument("--result", metavar="JSON", type=words, help="what the effect came to, if it is done (default: null)")
    add_common(settle)


def _add_kill_switch(add: Add) -> None:
    what = "let no effect begin, let them begin again, or show what is latched"
    switch = add_verb(add, "kill-switch", what, _kill_switch, _KILL_SWITCH, aliases=("latch",))
    switch.add_argument("what", metavar="on|off", nargs="?", choices=("on", "off"), help="default: show what is latched")
    switch.add_argument("--harness", metavar="NAME", help="of this one only; default: of all")
    switch.add_argument("--reason", metavar="TEXT", type=words, default="", help="why; shown to whoever is stopped by it")
    add_common(switch)


def _add_messages(add: Add) -> None:
    send = add_verb(add, "send", "put a message in the mailbox of a harness", _send, _SEND)
    send.add_argument("name", metavar="NAME")
    send.add_argument("message", metavar="MESSAGE", type=words)
    send.add_argument("--text", action="store_true", help="send MESSAGE as a string, whatever it looks like")
    add_common(send)
    table = "\n".join(f"  {word:<15} {what}" for word, (_, what) in posting.TRADING.items())
    trading = add_verb(add, "trading", "tell a trading harness what to do", _trading, table)
    trading.add_argument("what", metavar="VERB", choices=list(posting.TRADING), help=", ".join(posting.TRADING))
    trading.add_argument("name", metavar="NAME")
    trading.add_argument("--reason", metavar="TEXT", type=words, default="", help="why; kept with it")
    add_common(trading)


def _show_effects(options: argparse.Namespace) -> int:
    with closing(reader_of(options)) as reader:
        shown = effects.known_effects(reader, options.name, every=options.all)
        print_all(effects.effects_lines(shown, as_json=options.json))
    unknown = sum(effect.is_unknown for effect in shown)
    if not shown:
        streams.say(f"{reader.location} has no effect{'' if options.all else ' of unknown outcome'}")
    if not unknown:
        return ExitCode.OK
    streams.say(
        f"{unknown} of unknown outcome: find out what became of each, and say so with "
        f"`orchestrator effects settle NAME KEY --as done|not-done --reason TEXT{store_option(store_of(options))}`"
    )
    return ExitCode.UNKNOWN


def _settle(options: argparse.Namespace) -> int:
    word = effects.Word(options.name, options.key, options.said, options.reason, options.result)
    changed = effects.settle(store_of(options), word)
    if options.json:
        fields = {"harness": word.name, "key": word.key, "outcome": effects.AS[word.said].value, "changed": changed}
        print_all([json_line(fields)])
    what = f"effect {one_line(word.key)!r} of {word.name!r}"
    if not changed:
        streams.say(f"{what} was settled so already")
        return ExitCode.OK
    came = "" if word.said == "not-done" else f"; its result is {one_line(word.result or _NO_RESULT)}"
    streams.say(f"{what} is settled as {word.said}{came}; to go on: {ways_to_start(store_of(options), word.name)}")
    return ExitCode.OK


def _kill_switch(options: argparse.Namespace) -> int:
    store = store_of(options)
    if options.what is None:
        return _show_kill_switches(options, store)
    done = kill_switches.turn(store, options.harness, on=options.what == "on", reason=options.reason)
    if options.json:
        print_all([json_line(kill_switches.fields(done))])
    _say_all(for_store(text, store) for text in [kill_switches.sentence(done), *done.warnings])
    return ExitCode.OK


def _show_kill_switches(options: argparse.Namespace, store: str) -> int:
    if options.reason or options.harness:
        problem = "expected on or off with --reason and --harness, was neither; say which, or leave them out"
        raise UsageError(f"{options.verb}: {problem}")
    if not print_all(kill_switches.kill_switch_lines(store, as_json=options.json)):
        streams.say(f"no kill switch is on beside {store}")
    return ExitCode.OK


def _send(options: argparse.Namespace) -> int:
    text = posting.read_message() if options.message == "-" else options.message
    message = posting.message_of(text, as_text=options.text)
    return _post(options, message)


def _trading(options: argparse.Namespace) -> int:
    return _post(options, posting.trading_message(options.what, options.reason))


_UNCHECKED = ", unchecked (one of a type that it does not accept is set aside, and its output says so)"


def _post(options: argparse.Namespace, message: object) -> int:
    sent = posting.post(store_of(options), options.name, message)
    if options.json:
        print_all([json_line(sent.fields)])
    start = ways_to_start(store_of(options), sent.name)
    then = "it runs, and has it within a moment" if sent.is_running else f"it does not run, and gets it when it does: {start}"
    streams.say(f"{sent.name} has message {sent.seq} in its mailbox{'' if sent.is_checked else _UNCHECKED}; {then}")
    return ExitCode.OK


def _say_all(lines: Iterable[str]) -> None:
    for text in lines:
        streams.say(one_line(text, 2000))
