"""Reads the output of `aider --message-file`: text for people, between the JSON lines of its analytics log. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from harnesses.agents.command.agent_output import SHOWN, EventList, PlainReading, ReadEvent, Reply
from harnesses.agents.command.output_json import inner, parsed, string
from harnesses.budgets.usage import UNUSED, Usage, count_of, money_of
from harnesses.features.agent_text import kept_part
from harnesses.features.feature_record import MAX_TEXT

_TOKENS = re.compile(
    r"^Tokens: ([\d.,]+)([kM]?) sent,.*?([\d.,]+)([kM]?) received(?:.*?Cost: \$(\d{1,9}(?:\.\d{1,12})?) message)?"
)
_EDITED = "Applied edit to "
_FAILED = re.compile(
    r"litellm\.\w*(?:Error|Timeout)\b|Input tokens: ~.* possibly exceeded context window"
    r"|No LLM model was specified and no API keys were provided"
)
"""Its own error lines; whatever else it writes may be the output of a test or the words of the model."""
_NOTHING_SAID = "the model sent no answer"


class AiderReading:
    """Reads the output of one run of aider.

    The text rounds: 9,123 tokens are "9.1k", $0.0232 are "$0.02". The events of its analytics log, written to standard output,
    are exact: launched, message_send_starting, message_send (tokens and cost), exit. A model that cannot be reached leaves the
    exit code at 0; there is then no message_send after the last message_send_starting. Seen with 0.86.2.
    """

    thread = ""

    def __init__(self) -> None:
        self._plain = PlainReading()
        self._usage = UNUSED
        self._is_exact = False
        self._said: list[str] | None = None
        """Text since the message in progress began; None between messages."""
        self._message = ""
        self._failed = ""
        """The line that names the last error of a model call, unless a later one was answered."""
        self._told = EventList()
        self._edits = 0

    @property
    def events(self) -> Sequence[ReadEvent]:
        """The events that the last line reported."""
        return self._told.events

    def line(self, text: str) -> str:
        """Store the line, and add the tokens and cost that it reports."""
        self._told.begin_line()
        if text.startswith('{"event": "') and (event := parsed(text)):
            self._take(string(event, "event"), inner(event, "properties"))
            return ""
        if _FAILED.match(text) and (self._said is not None or not self._is_exact or not self._told.rounds):
            self._failed = text
        if found := _TOKENS.match(text):
            self._usage += UNUSED if self._is_exact else _rounded(*found.groups())
            self._failed = ""
        elif text.startswith(_EDITED):
            self._edits += 1
            self._told.started("edit", f"edit-{self._edits}", text.removeprefix(_EDITED))
            self._told.finished(f"edit-{self._edits}", text)
        elif self._said is not None or not self._is_exact:
            self._told.text(f"{text}\n")
            if self._said is not None and sum(map(len, self._said)) < MAX_TEXT:
                self._said.append(text)
        self._plain.line(text)
        return text[:SHOWN]

    def _take(self, event: str, about: Mapping[str, Any]) -> None:
        self._is_exact = True
        if event == "message_send_starting":
            self._told.rounds += 1
            self._said = []
        elif event == "message_send":
            read, written = count_of(about.get("prompt_tokens")), count_of(about.get("completion_tokens"))
            self._usage += Usage(input_tokens=read, output_tokens=written, money=money_of(about.get("cost")))
            self._message, self._failed = "\n".join(self._said or ()).strip(), ""
            self._told.message(self._message, is_streamed=True)
            self._said = None

    def reply(self) -> Reply:
        """Return the last message; of a version without an analytics log, the last part of the text."""
        reply = self._plain.reply()
        failed = self._failed or (_NOTHING_SAID if self._said is not None else "")
        return Reply(
            message=kept_part(self._message) if self._message else reply.message,
            tokens=self._usage.tokens,
            error=kept_part(failed) or None,
            worked=reply.worked,
        )

    @property
    def usage(self) -> Usage:
        """The sum over the messages so far."""
        return self._usage


def _rounded(sent: str, sent_unit: str, received: str, received_unit: str, cost: str | None) -> Usage:
    read, written = _number(sent, sent_unit), _number(received, received_unit)
    return Usage(input_tokens=read, output_tokens=written, money=money_of(Decimal(cost or 0)))


def _number(digits: str, unit: str) -> int:
    try:
        return count_of(round(float(digits.replace(",", "")) * {"": 1, "k": 1_000, "M": 1_000_000}[unit]))
    except (ValueError, OverflowError):
        return 0
