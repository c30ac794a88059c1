"""The verb `transcript`: what agents and their models have said in a step, or in a whole session."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from harnesses.agents.model.messages import Role
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.read.transcript_text import Layout, message_fields, turn_lines
from orchestrator.cli.verb_options import USUAL, Common, Name, StepNumber, Words, print_all
from orchestrator.errors import UsageError
from orchestrator.history.transcript_formats import FORMATS
from orchestrator.history.turn_transcripts import RecordedTurn, transcripts
from orchestrator.text.json_text import json_line
from orchestrator.text.terminal_text import one_line

_WIDEST, _NARROWEST = 120, 40
_MOST_TURNS = 10_000


def transcript(
    name: Name,
    step: StepNumber | None = None,
    /,
    *,
    session: Annotated[Words | None, Parameter(metavar="ID")] = None,
    agent: Annotated[Words | None, Parameter(metavar="AGENT")] = None,
    format: Annotated[Literal["openai", "inspect"] | None, Parameter(metavar="openai|inspect")] = None,
    full: bool = False,
    common: Common = USUAL,
) -> int:
    """Show the transcripts of agents' turns.

    Each turn of a model agent is shown with its messages, tool calls and their results, tokens and cost, and with the
    summaries that replaced older messages. Of a turn in progress, what is on record so far is shown.

    With --json there is an object for each message. --format writes the messages of one conversation as JSON lines: as
    OpenAI's Chat Completions takes them, or as an eval log of Inspect AI has them.

    Examples:
        orchestrator transcript builder 12
        orchestrator transcript builder --session 4f2a90c1 --format openai

    Args:
        name: the name of the harness
        step: the number of the step, recorded or in progress (default: the newest with a turn)
        session: all turns of this conversation, instead of those of one step
        agent: only this agent, or one call of it, such as `coder#2`
        format: write messages in this format
        full: show long texts to their end
    """
    found = transcripts(common.store_path, name, step, session=session, limit=_MOST_TURNS if session or step else 100)
    turns = [turn for turn in found if _is_of(turn, agent)]
    if turns and step is None and session is None:
        turns = [turn for turn in turns if turn.step_number == turns[-1].step_number]
    if not turns:
        streams.say(f"{one_line(name)} has no transcript{_where(step, session, agent)}")
    elif format is not None:
        print_all(_in_format(turns, format))
    elif common.json:
        print_all(json_line(fields) for turn in turns for fields in message_fields(turn))
    else:
        print_all(_lines(turns, Layout(_width(), full)))
    return ExitCode.OK


def _is_of(turn: RecordedTurn, agent: str | None) -> bool:
    return agent is None or agent in (turn.transcript.agent, turn.transcript.scope.rstrip("/"))


def _where(step: int | None, session: str | None, agent: str | None) -> str:
    said = {"of session": session, "at step": step, "of agent": agent}
    return "".join(f" {words} {one_line(str(value), 60)}" for words, value in said.items() if value is not None)


def _lines(turns: Sequence[RecordedTurn], layout: Layout) -> Iterator[str]:
    for place, turn in enumerate(turns):
        if place:
            yield ""
        yield from turn_lines(turn, layout)


def _width() -> int:
    columns = shutil.get_terminal_size((_WIDEST, 24)).columns if sys.stdout.isatty() else _WIDEST
    return max(_NARROWEST, min(columns, _WIDEST))


def _in_format(turns: Sequence[RecordedTurn], format: str) -> Iterator[str]:
    """Yield the messages of one conversation. The system prompt of its first turn stands for those of all.

    Raises:
        UsageError: the turns are of several conversations.
    """
    conversations = {turn.transcript.session or turn.transcript.scope for turn in turns}
    if len(conversations) > 1:
        known = ", ".join(sorted(one_line(one.rstrip("/"), 60) for one in conversations))
        raise UsageError(
            f"--format: expected one conversation, got {len(conversations)}: {known}; choose with --agent or --session"
        )
    for place, turn in enumerate(turns):
        for message in FORMATS[format](turn.transcript):
            if not place or message["role"] != Role.SYSTEM:
                yield json_line(message)
