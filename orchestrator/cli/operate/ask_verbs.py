"""The verbs `ask` and `query`: what a harness of a running program replies, printed as JSON."""

from __future__ import annotations

import argparse
from contextlib import closing
from urllib.parse import quote

from harnesses.messages.requests import ASK_TIMEOUT_S
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.operate.live_verbs import NotRunning, find_known
from orchestrator.cli.operate.message_verbs import message_of, read_message
from orchestrator.cli.parsing import Add, add_common, add_verb, print_all, seconds, store_of, words
from orchestrator.cli.value_lines import json_line
from orchestrator.codec import encode
from orchestrator.control.control_client import Reply, ask_all
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.command_hints import command

_ASK = """\
MESSAGE is JSON, or the text itself; `-` reads it from standard input. The harness gets a Request, and replies with a step.
exit codes: 0 with a reply, 1 if there is none in time or no program runs the harness, 2 if it cannot be asked so"""
_QUERY = """\
QUERY is a method of the harness marked with `@query`; each ARG, if it takes any, is JSON, or the text itself; where
its parameter is annotated with int, float or bool, it is made that. It is answered from the last recorded step, and changes
nothing.
exit codes: 0 with an answer, 1 if no program runs the harness or the query failed, 2 if there is no such query"""
_FAILED = (409, 422, 503, 504)


class Unanswered(OrchestratorError):
    """A question was understood, and there is no answer to it."""


def add_questions(add: Add) -> None:
    """Add the verbs."""
    ask = add_verb(add, "ask", "print what a harness of a running program replies to a message", _ask, _ASK)
    ask.add_argument("name", metavar="NAME")
    ask.add_argument("message", metavar="MESSAGE", type=words)
    ask.add_argument("--text", action="store_true", help="send MESSAGE as a string, whatever it looks like")
    ask.add_argument(
        "--timeout", metavar="S", type=seconds, default=ASK_TIMEOUT_S, help="seconds to wait for it (default: %(default)g)"
    )
    add_common(ask)
    query = add_verb(add, "query", "print what a query of a harness of a running program says", _query, _QUERY)
    query.add_argument("name", metavar="NAME")
    query.add_argument("query", metavar="QUERY")
    query.add_argument("args", metavar="ARG", nargs="*", type=words, help="optional: an argument of the query")
    add_common(query)


def _ask(options: argparse.Namespace) -> int:
    text = read_message() if options.message == "-" else options.message
    body = encode(message_of(text, as_text=options.text))
    return _put(options, f"ask?timeout_s={options.timeout}", body, options.timeout)


def _query(options: argparse.Namespace) -> int:
    args = [message_of(text, as_text=False) for text in options.args]
    return _put(options, "query", encode({"query": options.query, "args": args}), 0.0)


def _put(options: argparse.Namespace, question: str, body: str, wait_s: float) -> int:
    """Put a question to whichever program runs the harness, and print the reply.

    Raises:
        NotRunning: no program runs it.
        Unanswered: there is no reply.
        UsageError: it cannot be asked so.
    """
    store, name = store_of(options), options.name
    with closing(SqliteReader(store)) as reader:
        path = reader.path
        find_known(reader, name)
    reply: Reply | None = None
    target = f"/harnesses/{quote(name, safe='')}/{question}"
    for reply in ask_all(path, "POST", target, body.encode(), wait_s=wait_s):
        if reply.status != 404:
            break
    if reply is None or reply.status == 404:
        where = f"no program runs on {store}" if reply is None else f"no program on {store} runs {name!r} now"
        raise NotRunning(f"{where}: expected one to answer; `{command(store, 'run', 'FILE')}` starts it")
    if reply.status != 200:
        said = str(reply.fields.get("error") or reply.text)
        raise Unanswered(said) if reply.status in _FAILED else UsageError(said)
    print_all([json_line(reply.fields["reply"])])
    return ExitCode.OK
