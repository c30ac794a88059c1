"""The verbs `approvals`, `approve`, `deny` and `approvals reopen`: requests that need human approval, and the answers.

What is shown was audited first: of a record that cannot be trusted that is said, and nothing can be answered to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated

from cyclopts import App, Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Name, Words, print_all
from orchestrator.operating.approval_answers import approval_fields, asker_to_reopen, respond, said_before, stamp_or_none
from orchestrator.status import Shown, known_approvals
from orchestrator.text.command_hints import store_option, ways_to_start
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line

_HEAD = ("ID", "HARNESS", "STEP", "CATEGORY", "ACTION", "STANDING", "EXPIRES")
_MOST = 20_000
"""Characters of arguments that are shown to people; of more, how many there are."""


approvals = App(name="approvals", help="Show what waits for human approval.")
By = Annotated[Words | None, Parameter(metavar="NAME")]
RequestId = Annotated[Words, Parameter(metavar="ID")]


@approvals.default
def default(name: Name | None = None, /, *, all: bool = False, common: Common = USUAL) -> int:
    """Show what waits for human approval.

    Only the harness that waits for an approval is held; its clocks are stopped too. A request survives a stop and a restart,
    and is not made twice.

    Exit codes: 4 if something waits for approval, 0 if nothing does.

    Args:
        name: only those of this harness (default: all)
        all: every request that was ever made, and how it was answered
    """
    with closing(common.reader()) as reader:
        shown = known_approvals(reader, name, every=all)
        print_all(approvals_lines(shown, as_json=common.json))
    pending = sum(one.is_pending for one in shown)
    if not pending:
        streams.say(f"nothing in {reader.location} waits for an approval")
        return ExitCode.OK
    option = store_option(common.store_path)
    streams.say(f"{pending} waiting: answer each with `orchestrator approve|deny ID --reason TEXT{option}`")
    return ExitCode.BLOCKED


@approvals.command
def reopen(id: RequestId, /, *, by: By = None, reason: Words = "", start: bool = False, common: Common = USUAL) -> int:
    """Have a denied or expired request asked again.

    The request and its answer no longer count. The harness asks again, under another ID, when it is started
    again: `orchestrator start NAME` where its program still runs, else `orchestrator run FILE`. Reopening alone starts
    nothing; --start does both. Reopening it again changes nothing.

    Args:
        id: the id of the request, as `orchestrator approvals --all` shows it
        by: who reopens it (default: the user who gives the command)
        reason: why; kept with it, and told to the harness
        start: also start the harness again in the running program
    """
    store = common.store_path
    asker = asker_to_reopen(store, id)
    _answer(id, "reopened", by, reason, common)
    if start:
        from orchestrator.cli.operate.live_verbs import give

        return give(store, asker, "start", as_json=common.json)
    streams.say(f"{asker} asks again when it is started again: {ways_to_start(store, asker)}")
    return ExitCode.OK


def approve(id: RequestId, /, *, by: By = None, reason: Words = "", common: Common = USUAL) -> int:
    """Approve what a harness has asked for.

    The answer is for exactly the action that `orchestrator approvals --json` shows, in that step of that harness, once. To
    give the same answer again changes nothing.

    Args:
        id: the id of the request, as `orchestrator approvals` shows it
        by: who answers (default: the user who gives the command)
        reason: why; kept with it, and told to the harness
    """
    return _answer(id, "approved", by, reason, common)


def deny(id: RequestId, /, *, by: By = None, reason: Words = "", common: Common = USUAL) -> int:
    """Deny what a harness has asked for.

    The answer is for exactly the action that `orchestrator approvals --json` shows, in that step of that harness. A denial is
    final, and overrides an approval that was not used yet; a harness that cannot do without the action is blocked by it until
    `orchestrator approvals reopen ID`. Giving the same answer again changes nothing.

    Args:
        id: the id of the request, as `orchestrator approvals` shows it
        by: who answers (default: the user who gives the command)
        reason: why; kept with it, and told to the harness
    """
    return _answer(id, "denied", by, reason, common)


def _answer(id: str, verdict: str, by: str | None, reason: str, common: Common) -> int:
    """Record an answer and report it; if it was given before, by whom and when."""
    store = common.store_path
    changed = respond(store, id, verdict, by=by, reason=reason)
    if common.json:
        print_all([json_line({"id": id, "verdict": verdict, "changed": changed})])
    who, at = ("", "") if changed else said_before(store, id, verdict)
    already = "" if changed else f" already, by {one_line(who)} at {at}" if who else ", as it was already"
    streams.say(f"{one_line(id)} is {verdict}{already}")
    return ExitCode.OK


def approvals_lines(shown: Sequence[Shown], *, as_json: bool) -> Iterator[str]:
    """Yield a line for each request."""
    if as_json:
        yield from (json_line(approval_fields(one)) for one in shown)
    elif shown:
        head, *lines = columns(_HEAD, map(_cells, shown))
        yield head
        for line, one in zip(lines, shown, strict=True):
            yield line
            yield f"    with {_exactly(one)}"


def _cells(one: Shown) -> tuple[str, ...]:
    request, standing = one.request, one.standing
    said = f"{one.word} by {standing.by}" if standing.by else one.word
    because = f" ({standing.reason})" if standing.reason else ""
    return (
        one.record.id,
        one.record.harness,
        str(one.record.step_number),
        one_line(str(request.get("category", "?")), 40),
        one_line(str(request.get("summary", "?")), 80),
        one_line(said + because, 80),
        (stamp_or_none(request.get("expires_us")) or "-")[:19].replace("T", " "),
    )


def _exactly(one: Shown) -> str:
    """Return what is to be done, whole: a person approves what is at its end, too."""
    text = json_line(one.request.get("arguments"))
    more = len(text) - _MOST
    return text if more <= 0 else f"{text[:_MOST]} … and {more} characters more: see all with --json before you answer"
