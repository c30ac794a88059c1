"""Lines that a harness, or an agent it asks, has written: recorded one by one while the step is being made.

The law: output never holds a harness up and never fills the disk. Of each step so much is recorded; of the rest, how many
lines there were. Secrets are not recorded, also if they go over several lines.
"""

from __future__ import annotations

from collections.abc import Callable

from harnesses.redaction.private_keys import begins_key, ends_key
from harnesses.redaction.redactor import LineRedactor
from orchestrator.codec import encode
from orchestrator.recording.row_redaction import MAX_LINE

MAX_LINES = 10_000
"""Lines of one step that are recorded."""
MAX_CHARACTERS = 2_000_000
"""Of them all together."""
_LOOKED_AT = 2 * MAX_LINE
"""Characters of one line that are searched for secrets."""
_MAX_SOURCES = 64
"""Sources of which it is known whether they are in the middle of a key."""


class Output:
    """The lines of one attempt.

    Args:
        send: has a record's body committed, without waiting. With it goes what takes the secrets out first: it knows of the
            lines before. The line is cut to its length only then.
        redacted: whether secrets are taken out.
    """

    __slots__ = ("_characters", "_kept", "_lines", "_longest", "_recording", "_redactors", "_send", "_unsaid")

    def __init__(self, send: Callable[[str, LineRedactor], None], *, redacted: bool = True) -> None:
        self._send = send
        self._longest = _LOOKED_AT if redacted else MAX_LINE
        self._redactors: dict[str, LineRedactor] = {}
        self._lines = self._characters = self._unsaid = 0
        self._recording = False
        self._kept: list[tuple[str, LineRedactor]] = []

    def write(self, line: str, source: str) -> None:
        """Have a line recorded, if there is room for it."""
        length = min(len(line), MAX_LINE)
        if self._lines >= MAX_LINES or self._characters + length > MAX_CHARACTERS:
            self._unsaid += 1
            self._pass_over(line[:_LOOKED_AT], source)
            return
        self._lines += 1
        self._characters += length
        self._record(line if len(line) <= self._longest else f"{line[: self._longest - 1]}…", source)

    def begin_recording(self) -> None:
        """Say how much was not recorded; what is written from now on, while the step is, belongs to the next one."""
        if self._unsaid:
            self._record(f"… and {self._unsaid} more lines, which are not recorded", "")
        self._lines = self._characters = self._unsaid = 0
        self._recording = True

    def end_recording(self) -> list[tuple[str, LineRedactor]]:
        """Return what `send` is to be given: what was written while the step was being recorded."""
        self._recording = False
        kept, self._kept = self._kept, []
        return kept

    def _redactor(self, source: str) -> LineRedactor:
        if source not in self._redactors and len(self._redactors) >= _MAX_SOURCES:
            self._redactors.clear()
        return self._redactors.setdefault(source, LineRedactor())

    def _pass_over(self, line: str, source: str) -> None:
        """Note that a key begins, or ends, in a line that is not recorded: those after it may be."""
        if begins_key(line) or ends_key(line):
            self._redactors[source] = LineRedactor(is_inside=begins_key(line))

    def _record(self, text: str, source: str) -> None:
        # An agent may write what UTF-8 cannot say.
        body = {"line": text.encode(errors="backslashreplace").decode()}
        if source:
            body["source"] = source[:_LOOKED_AT]
        sent = encode(body), self._redactor(source)
        if self._recording:
            self._kept.append(sent)
        else:
            self._send(*sent)
