"""The verbs that reach a running program: `pause`, `resume`, `stop`, `start`, `restart`, `metrics`, `ask` and `query`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Annotated, Any

from cyclopts import Parameter

from harnesses.diagnostics.extras import install_command
from harnesses.messages.requests import ASK_TIMEOUT_S
from orchestrator.child_spec import check_name
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode, of_error, of_run
from orchestrator.cli.operate.message_verbs import message_of, read_message
from orchestrator.cli.verb_options import USUAL, Common, Name, Seconds, WordsOrDash, print_all
from orchestrator.codec import encode
from orchestrator.control.control_client import Reply, ask_all, order, question
from orchestrator.control.metrics_of_all import merged
from orchestrator.errors import OrchestratorError, UnknownHarness, UsageError
from orchestrator.history.past_reader import find_harness
from orchestrator.lifecycle import ENDED, Status
from orchestrator.operating.store_writing import user_name
from orchestrator.records import HarnessRecord
from orchestrator.status import shown_status
from orchestrator.store.file.server_copy import server_of, shown_place
from orchestrator.store.places.store_location import why_unplaced_at
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.command_hints import for_store, run_command, way_to_resume
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line
from orchestrator.text.value_lines import json_line

_PAST = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


_STARTS = ("start", "restart")
_AT_ONCE = 8
"""Orders that are given at the same time."""
_ENDS: Mapping[str, ExitCode] = {
    Status.BLOCKED: ExitCode.BLOCKED,
    Status.BUDGET_SPENT: ExitCode.STOPPED,
    Status.FAILED: ExitCode.FAILED,
    Status.GAVE_UP: ExitCode.FAILED,
}
"""Of what was started again and has ended since: the exit code."""


class NotRunning(OrchestratorError):
    """No living program takes orders for the harness."""


Grace = Annotated[Seconds | None, Parameter(metavar="S")]


def pause(name: Name, /, *more: Name, hard: bool = False, common: Common = USUAL) -> int:
    """Hold a harness at its next step boundary.

    The program that runs the harness gets the order over a socket beside the store, which only its user can open; on a
    PostgreSQL store through that, on whatever machine it runs. To give the order again changes nothing.

    Each of several harnesses gets its own answer, and one that fails does not stop the others.

    Exit codes: 0 the harness is paused, or will be; 1 no program runs it. Of several, the worst.

    Args:
        name: the name of the harness
        more: further harnesses
        hard: cancel the step in progress too; it is made again when the harness is resumed
    """
    return _give_all(common, (name, *more), "pause", "?hard=1" if hard else "")


def resume(name: Name, /, *more: Name, common: Common = USUAL) -> int:
    """Let a paused harness continue.

    Giving the order again changes nothing.

    Exit codes: 0 the harness continues, 1 no program runs it.

    Args:
        name: the name of the harness
        more: further harnesses
    """
    return _give_all(common, (name, *more), "resume")


def stop(name: Name, /, *more: Name, grace: Grace = None, common: Common = USUAL) -> int:
    """Stop a harness at its next step boundary.

    `orchestrator start NAME` resumes it. Giving the order again changes nothing.

    Exit codes: 0 the harness is stopped, or will be; 1 its program takes no orders.

    Args:
        name: the name of the harness
        more: further harnesses
        grace: seconds until it is cancelled (default: its own)
    """
    return _give_all(common, (name, *more), "stop", _grace(grace))


def start(name: Name, /, *more: Name, common: Common = USUAL) -> int:
    """Start an ended harness again, in the running program.

    It continues from its last recorded step, under the options that it was started with, and earlier restarts no longer count
    against it. A run file is read again, so an exhausted budget can be raised there first. No other harness is affected. A
    program all of whose harnesses have ended ends itself: then `orchestrator run FILE` starts them.

    Exit codes: 0 the harness runs or has done its work, 1 no program runs it or it failed, 3 its budget is spent, 4 it is
    blocked again.

    Args:
        name: the name of the harness
        more: further harnesses
    """
    return _give_all(common, (name, *more), "start")


def restart(name: Name, /, *more: Name, grace: Grace = None, common: Common = USUAL) -> int:
    """Stop a harness and start it again, in the running program.

    See `orchestrator start --help` for what starting again means, and for the exit codes.

    Args:
        name: the name of the harness
        more: further harnesses
        grace: seconds until it is cancelled (default: its own)
    """
    return _give_all(common, (name, *more), "restart", _grace(grace))


def _grace(grace: float | None) -> str:
    return f"?grace_s={grace}" if grace else ""


def _give_all(common: Common, names: Sequence[str], verb: str, options: str = "") -> int:
    """Give an order to some harnesses at once, print the answer of each in their order, and return the exit code.

    One that fails does not stop the others.
    """
    store, wanted = common.store_path, tuple(dict.fromkeys(names))
    if len(wanted) == 1:
        return give(store, wanted[0], verb, options, as_json=common.json)
    codes: list[ExitCode] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        given = [pool.submit(_send, store, name, verb, options) for name in wanted]
        for name, sent in zip(wanted, given, strict=True):
            try:
                codes.append(_report(verb, store, *sent.result(), as_json=common.json))
            except OrchestratorError as error:
                codes.append(of_error(error))
                said = one_line(for_store(str(error), store), 2000)
                if common.json:
                    print_all([json_line({"harness": name, "error": said})])
                streams.say(f"{one_line(name)}: {said}")
    return of_run((), codes)


def give(store: str, name: str, verb: str, options: str = "", *, as_json: bool) -> int:
    """Give an order to the program that runs a harness, print its answer, and return the exit code.

    Raises:
        UsageError: the order cannot be carried out.
        NotRunning: nobody is there to carry it out.
    """
    return _report(verb, store, *_send(store, name, verb, options), as_json=as_json)


def _send(store: str, name: str, verb: str, options: str) -> tuple[HarnessRecord, Reply | None]:
    check_name(name)
    with closing(SqliteReader(store)) as reader:
        path, record = reader.path, find_known(reader, name)
    return record, order(path, name, verb, options, by=user_name())


def find_known(reader: SqliteReader, name: str) -> HarnessRecord:
    """Return what is known of one harness.

    Raises:
        NotRunning: it is in the file of a fleet, and no node can run it.
        UnknownHarness: there is none of that name.
    """
    try:
        return find_harness(reader, name)
    except UnknownHarness:
        if (server := server_of(reader.path)) is not None and (why := why_unplaced_at(server, name)):
            raise NotRunning(f"harness {name!r} is not run: {one_line(why, 300)}; `orchestrator nodes` shows them") from None
        raise


def _report(verb: str, store: str, record: HarnessRecord, reply: Reply | None, *, as_json: bool) -> ExitCode:
    """Print the answer to an order, and return the exit code."""
    if reply is None or reply.status == 404:
        return _not_running(verb, store, record, reply, as_json=as_json)
    if reply.status not in (200, 202):
        raise UsageError(str(reply.fields.get("error") or reply.text))
    if as_json:
        print_all([json_line(reply.fields)])
    streams.say(_describe_start(reply.fields, store) if verb in _STARTS else _describe(verb, reply.fields))
    return _ENDS.get(reply.fields.get("status", ""), ExitCode.OK) if verb in _STARTS else ExitCode.OK


def _not_running(verb: str, store: str, record: HarnessRecord, reply: Reply | None, *, as_json: bool) -> ExitCode:
    """Report that no program received the order. `stop` succeeds if the harness is not running anyway."""
    if record.owned or verb != "stop":
        raise not_running(verb, store, record, reply)
    status = shown_status(record)
    if as_json:
        fields = {"harness": record.name, "status": status, "attempt": record.attempt}
        cause = str(record.event.get("cause") or "")
        print_all([json_line({**fields, "current_step": record.current_step, "cause": cause, "done": True})])
    streams.say(f"{_nobody(store, record, reply)}: {record.name} is {status} at step {record.current_step} already")
    return ExitCode.OK


def not_running(verb: str, store: str, record: HarnessRecord, reply: Reply | None) -> NotRunning:
    """Return the error for an order that no program has received."""
    status = shown_status(record)
    if record.owned and server_of(store) is None:
        return NotRunning(
            f"{record.name!r} is {status}, but its program takes no orders: expected a socket beside {shown_place(store)}; "
            f"run `{install_command('control')}`, use `orchestrator run` or Orchestrator(control=True), and start it again"
        )
    how = f"{run_command(store)}` with its run file or script"
    return NotRunning(
        f"{_nobody(store, record, reply)}, so {record.name!r} ({status}) did not get the order to {verb}: expected one; "
        f"`{how} starts it"
    )


def _nobody(store: str, record: HarnessRecord, reply: Reply | None) -> str:
    return (
        f"no program runs on {shown_place(store)}"
        if reply is None
        else f"no program on {shown_place(store)} runs {record.name!r} now"
    )


def _describe(verb: str, fields: dict[str, Any]) -> str:
    name, status, step = (one_line(str(fields.get(key))) for key in ("harness", "status", "current_step"))
    if verb == "stop":
        again = fields.get("changed") is False
        if status in {one.value for one in ENDED} and fields.get("done"):
            return f"{name} is {status} at step {step}{' already' if again else ''}"
        if again:
            return f"{name} is already stopping, and is still {status} at step {step}; `--grace S` cancels it after S seconds"
        return f"{name} has the order to stop, and is still {status} at step {step}"
    if not fields.get("done"):
        return f"{name} has the order to {verb}, which is not recorded yet; it is {status} at step {step}"
    if verb == "resume":
        return f"{name} is resumed at step {step}"
    following = int(fields.get("current_step") or 0) + 1
    return f"{name} is paused after step {step}; step {following} is completed first if it is in progress"


def _describe_start(fields: dict[str, Any], store: str) -> str:
    """Return what has become of a harness that was to be started again."""
    keys = ("harness", "status", "attempt", "current_step")
    name, status, attempt, step = (one_line(str(fields.get(key))) for key in keys)
    if not fields.get("done"):
        return f"{name} has the order to start again; it is still {status} at step {step}"
    held = f"; {way_to_resume(name, store)}" if status == Status.PAUSED else ""
    if not fields.get("changed"):
        return f"{name} is {status} at step {step}: it was not started again{held}"
    because = f": {one_line(cause, CAUSE_WIDTH)}" if (cause := str(fields.get("cause") or "")) else ""
    return f"{name} is started again: attempt {attempt}, {status.replace('_', ' ')} at step {step}{because}{held}"


def metrics(*, common: Common = USUAL) -> int:
    """Print the metrics of a run in the Prometheus text format.

    While a program runs: its counters since it began, as `orchestrator run --metrics HOST:PORT` serves them. Otherwise: what
    can be computed from all records of the store. With --json, one object for each sample.
    """
    store = common.store_path
    with closing(SqliteReader(store)) as reader:
        reader.last_seq()  # refuses what is not there, and what is no store
        is_owned = any(record.owned for record in reader.harnesses())
        replies = list(ask_all(reader.path, "GET", "/metrics"))
        text = _text_of(replies) if replies else _stored_text(reader)
    if not replies:
        who = "the program that runs" if is_owned else "no program runs"
        streams.say(f"{who} on {shown_place(store)}{' takes no questions' if is_owned else ''}: this is what its records tell")
    print_all(_json_lines(text) if common.json else text.splitlines())
    return ExitCode.OK


def _stored_text(reader: SqliteReader) -> str:
    from orchestrator.telemetry.metric_export import text_of
    from orchestrator.telemetry.metric_figures import families
    from orchestrator.telemetry.stored_spans import stored_snapshot

    return text_of(families(stored_snapshot(reader))).decode()


def _text_of(replies: list[Reply]) -> str:
    for reply in replies:
        if reply.status != 200:
            raise UsageError(str(reply.fields.get("error") or reply.text))
    return replies[0].text if len(replies) == 1 else merged({reply.run: reply.text for reply in replies})


def _json_lines(text: str) -> Iterator[str]:
    """Yield each number with its name and labels."""
    from prometheus_client.parser import text_string_to_metric_families

    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield json_line({"name": sample.name, "labels": sample.labels, "value": sample.value, "type": family.type})


_FAILED = (409, 422, 503, 504)


class Unanswered(OrchestratorError):
    """A question was understood, and there is no answer to it."""


def ask(
    name: Name,
    message: Annotated[WordsOrDash, Parameter(metavar="MESSAGE")],
    /,
    *,
    text: bool = False,
    timeout: Seconds = ASK_TIMEOUT_S,
    common: Common = USUAL,
) -> int:
    """Send a message to a running harness and print its reply.

    MESSAGE is JSON, or else plain text; - reads it from standard input. The harness receives a Request, and replies with a
    step.

    Exit codes: 0 with a reply, 1 no reply in time or no program runs the harness, 2 the harness does not accept the message.

    Args:
        name: the name of the harness
        message: the message
        text: send MESSAGE as a string, whatever it looks like
        timeout: seconds to wait for the reply (default: 30)
    """
    body = encode(message_of(read_message() if message == "-" else message, as_text=text))
    return _put(common.store_path, name, f"ask?timeout_s={timeout}", body, timeout)


def query(
    name: Name,
    query: Annotated[str, Parameter(metavar="QUERY")],
    /,
    *args: Annotated[WordsOrDash, Parameter(metavar="ARG")],
    common: Common = USUAL,
) -> int:
    """Call a query of a harness in a running program.

    QUERY is a method of the harness marked with `@query`; each ARG, if it takes any, is JSON, or else plain text; it is
    converted if its parameter is annotated with int, float or bool. It is answered from the last recorded step, and changes
    nothing.

    Exit codes: 0 with an answer, 1 no program runs the harness or the query failed, 2 there is no such query.

    Args:
        name: the name of the harness
        query: the name of the query
        args: arguments of the query
    """
    body = encode({"query": query, "args": [message_of(text, as_text=False) for text in args]})
    return _put(common.store_path, name, "query", body, 0.0)


def _put(store: str, name: str, asked: str, body: str, wait_s: float) -> int:
    """Put a question to whichever program runs the harness, and print the reply.

    Raises:
        NotRunning: no program runs it.
        Unanswered: there is no reply.
        UsageError: the harness does not accept such a question.
    """
    with closing(SqliteReader(store)) as reader:
        path = reader.path
        find_known(reader, name)
    reply = question(path, name, asked, body, wait_s, by=user_name())
    if reply is None or reply.status == 404:
        where = (
            f"no program runs on {shown_place(store)}"
            if reply is None
            else f"no program on {shown_place(store)} runs {name!r} now"
        )
        raise NotRunning(f"{where}: expected one to answer; `{run_command(store)}` starts it")
    if reply.status != 200:
        said = str(reply.fields.get("error") or reply.text)
        raise Unanswered(said) if reply.status in _FAILED else UsageError(said)
    print_all([json_line(reply.fields["reply"])])
    return ExitCode.OK
