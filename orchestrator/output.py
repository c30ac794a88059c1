"""Lines that a harness, or an agent it asks, has written: recorded one by one while the step is being made.

The law: output never holds a harness up and never fills the disk. Of each step so much is recorded; of the rest, how many
lines there were. Secrets are not recorded, also if they go over several lines.
"""

from __future__ import annotations

from collections.abc import Callable

from harnesses.secrets import LineRedactor, redact_text
from orchestrator.codec import encode

MAX_LINES = 10_000
"""Lines of one step that are recorded."""
MAX_CHARACTERS = 2_000_000
"""Of them all together."""
MAX_LINE = 4_000
"""Characters of one line that are recorded, the first ones."""
_LOOKED_AT = 4 * MAX_LINE
"""Characters of one line that are searched for secrets."""
_MAX_SOURCES = 64
"""Sources of which it is known whether they are in the middle of a key."""


class Output:
    """The lines of one attempt.

    Args:
        send: has a record's body committed, without waiting.
        redacted: whether secrets are taken out.
    """

    __slots__ = ("_characters", "_kept", "_lines", "_recording", "_redacted", "_redactors", "_send", "_unsaid")

    def __init__(self, send: Callable[[str], None], *, redacted: bool = True) -> None:
        self._send = send
        self._redacted = redacted
        self._redactors: dict[str, LineRedactor] = {}
        self._lines = self._characters = self._unsaid = 0
        self._recording = False
        self._kept: list[str] = []

    def write(self, line: str, source: str) -> None:
        """Have a line recorded, if there is room for it."""
        if self._redacted:
            line = self._redactor(source).line(line[:_LOOKED_AT])
            source = redact_text(source[:_LOOKED_AT])
        text = line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
        if self._lines >= MAX_LINES or self._characters + len(text) > MAX_CHARACTERS:
            self._unsaid += 1
            return
        self._lines += 1
        self._characters += len(text)
        self._record(text, source)

    def begin_recording(self) -> None:
        """Say how much was not recorded; what is written from now on, while the step is, belongs to the next one."""
        if self._unsaid:
            self._record(f"… and {self._unsaid} more lines, which are not recorded", "")
        self._lines = self._characters = self._unsaid = 0
        self._recording = True

    def end_recording(self) -> list[str]:
        """Return the bodies of what was written while the step was being recorded."""
        self._recording = False
        kept, self._kept = self._kept, []
        return kept

    def _redactor(self, source: str) -> LineRedactor:
        if source not in self._redactors and len(self._redactors) >= _MAX_SOURCES:
            self._redactors.clear()
        return self._redactors.setdefault(source, LineRedactor())

    def _record(self, text: str, source: str) -> None:
        # An agent may write what UTF-8 can not say.
        body = {"line": text.encode(errors="backslashreplace").decode()}
        if source:
            body["source"] = source
        if self._recording:
            self._kept.append(encode(body))
        else:
            self._send(encode(body))
