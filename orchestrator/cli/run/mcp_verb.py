"""The verb `mcp`: a server of the Model Context Protocol, through which agents supervise runs."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import trio
from cyclopts import Parameter

from harnesses.errors import NotReady
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Words
from orchestrator.errors import UsageError
from orchestrator.store.places.store_location import place_of


def mcp(
    place: Annotated[Words, Parameter(metavar="STORE|FOLDER")] = "",
    /,
    *,
    content: bool = False,
    allow_orders: Annotated[Words, Parameter(metavar="all|ORDER,…")] = "",
    common: Common = USUAL,
) -> int:
    """Let agents supervise runs: serve the Model Context Protocol over standard input and output.

    An agent starts this as one of its MCP servers, such as `claude mcp add runs -- orchestrator mcp --store run.db`. It tells
    of the store of a program that runs, or of one that has ended, and cannot disturb the run. Without more it only reads, and
    shows metadata: names, numbers, times, statuses, kinds.

    Orders: pause, resume, stop, start, restart, send, ask, fork, limits; and some that have to be named, since they are a
    person's word or lift what holds agents back: approve, deny, reopen, settle, budgets, kill-switch. They are on record as
    given by mcp.

    Args:
        place: a store, or a folder: then each tool takes the name of a store in it or below (default: --store)
        content: also show what agents, programs and markets wrote: inputs, outputs, states, messages, transcripts, errors
        allow_orders: orders that the agent may give: all but those that have to be named, or some such as pause,resume
    """
    from orchestrator.mcp.stdio_service import check_installed, serve
    from orchestrator.mcp.supervision_tools import allowed_orders
    from orchestrator.mcp.tool_box import ToolBox

    try:
        check_installed()
    except NotReady as error:
        raise UsageError(str(error)) from error
    orders = allowed_orders(filter(None, (word.strip() for word in allow_orders.split(","))))
    tools = ToolBox(place_of(place or common.location), orders, content)
    if sys.stdin.isatty():
        streams.say("mcp: an agent is to start this, and talks to it over standard input and output; Ctrl-C ends it")
    # Nothing is left behind when it ends at once, and a thread that waits for standard input would keep it from ending.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        trio.run(serve, tools)
    finally:
        tools.close()
    return ExitCode.OK
