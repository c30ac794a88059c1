"""Removal of secrets from rows before they are committed, in the committing thread; and the output lines of an attempt.

Invariant: the recorded text is the same whichever thread redacted it, and no row is redacted twice. One pass over the bodies
of a batch finds those that may hold a secret; only these are decoded.

A large row is redacted in a thread of its own before it joins a batch (`Recorder.redact_aside`), so that neither the loop nor
the commits of other harnesses wait for it.

A row whose redaction fails, such as one nested too deeply, is recorded with `WITHHELD` in place of its text. The step is not
lost, no secret is written, and the other rows of the batch are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harnesses.attachments import CHILD
from harnesses.redaction.private_keys import begins_key, ends_key
from harnesses.redaction.redactor import MARK, LineRedactor, redact_text, suspects
from orchestrator.codec import decode, encode, with_fields, without_secrets
from orchestrator.recording.commit_queue import PendingWrite
from orchestrator.store.store_protocol import EFFECT_KINDS

LARGE = 8_000
"""Characters of one slot that are redacted while others wait: 1 ms for ordinary text, 10 ms for hostile text."""
MAX_LINE = 4_000
"""Limit on a recorded line of output, characters; the rest of the line is cut off."""
WITHHELD = f"{MARK} withheld: it could not be searched for secrets"
_RESULT = '{"result":'
_EXACT = (CHILD, *EFFECT_KINDS)
"""Kinds of what must be read back unchanged: arguments of a child, and of an effect."""
_OF_STEP = ("input", "output", "summary")
"""Fields of a step that are redacted. The state must be read back unchanged, so `delta` is not: keep no secrets there."""


def weight(slot: PendingWrite) -> int:
    """Return how many characters have to be searched."""
    row = slot.row or slot.effect
    return (0 if row is None else len(row.body)) + sum(len(note.body) for note in slot.notes if note.kind not in _EXACT)


def redact_writes(slots: Sequence[PendingWrite]) -> None:
    """Remove the secrets from the rows of slots, except rows that were redacted before."""
    slots = [slot for slot in slots if slot.redacted]
    if not slots:
        return
    bodies: list[str] = []
    owners: list[tuple[PendingWrite, int]] = []
    for slot in slots:
        slot.redacted = False
        row = slot.row or slot.effect
        if row is not None:
            bodies.append(row.body)
            owners.append((slot, -1))
        if slot.notes:
            searched = [place for place, note in enumerate(slot.notes) if note.kind not in _EXACT]
            bodies += (slot.notes[place].body for place in searched)
            owners += ((slot, place) for place in searched)
    try:
        suspicious = set(suspects(bodies))
    except Exception:
        suspicious = set(range(len(bodies)))
    for place, (slot, note) in enumerate(owners):
        if slot.lines is not None:
            _redact_line(slot, slot.lines, is_suspect=place in suspicious)
        elif place in suspicious:
            _redact_row(slot, note)


def _redact_row(slot: PendingWrite, note: int) -> None:
    if note >= 0:
        notes = list(slot.notes)
        notes[note] = notes[note]._replace(body=_searched(notes[note].body))
        slot.notes = tuple(notes)
    elif slot.row is not None:
        slot.row = slot.row._replace(body=_searched(slot.row.body, _OF_STEP))
    elif slot.effect is not None:
        slot.effect = slot.effect._replace(body=_searched(slot.effect.body))


def _searched(body: str, names: Sequence[str] = ()) -> str:
    try:
        return without_secrets(body, names, is_suspect=True)
    except Exception:
        return with_fields(body, names, WITHHELD)


def redact_result(text: str) -> str:
    """Return the result of an effect, as JSON, without its secrets.

    It is redacted before it is stored and returned, so that the caller gets the same value now and after a crash.
    """
    body = f"{_RESULT}{text}}}"
    try:
        clean = without_secrets(body, ("result",))
    except Exception:
        clean = with_fields(body, ("result",), WITHHELD)
    return text if clean is body else clean[len(_RESULT) : -1]


def _redact_line(slot: PendingWrite, lines: LineRedactor, *, is_suspect: bool) -> None:
    """Redact a line of output, which may be part of a key of several lines, and cut it to its limit."""
    row = slot.effect
    if row is None or not (is_suspect or lines.is_inside or len(row.body) > MAX_LINE):
        return
    body = decode(row.body)
    try:
        line = lines.line(body["line"])
    except Exception:
        line = WITHHELD
    body["line"] = line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
    if "source" in body:
        body["source"] = redact_text(body["source"])
    slot.effect = row._replace(body=encode(body))


MAX_LINES = 10_000
"""Limit on the recorded lines of one step."""
MAX_CHARACTERS = 2_000_000
"""Limit on the recorded characters of one step's lines."""
_LOOKED_AT = 2 * MAX_LINE
"""Characters of one line that are searched for secrets."""
_MAX_SOURCES = 64
"""Limit on the sources for which it is tracked whether they are in the middle of a key."""


class Output:
    """Output lines of a harness, or of an agent that it calls, in one attempt; recorded one by one while a step is made.

    Output never delays a harness and never fills the disk: a limited amount per step is recorded, then only the number of
    further lines. Secrets are removed, even those that span several lines.

    Args:
        send: commits a record's body without waiting. It is given the redactor, which knows the preceding lines; the line is
            cut to its limit only after redaction.
        redacted: whether secrets are removed.
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
        """Record a line, if there is room for it."""
        length = min(len(line), MAX_LINE)
        if self._lines >= MAX_LINES or self._characters + length > MAX_CHARACTERS:
            self._unsaid += 1
            self._pass_over(line[:_LOOKED_AT], source)
            return
        self._lines += 1
        self._characters += length
        self._record(line if len(line) <= self._longest else f"{line[: self._longest - 1]}…", source)

    def begin_recording(self) -> None:
        """Record how many lines were left out; lines written from now on belong to the next step."""
        if self._unsaid:
            self._record(f"… and {self._unsaid} more lines, which are not recorded", "")
        self._lines = self._characters = self._unsaid = 0
        self._recording = True

    def end_recording(self) -> list[tuple[str, LineRedactor]]:
        """Return what to pass to `send`: the lines written while the step was being recorded."""
        self._recording = False
        kept, self._kept = self._kept, []
        return kept

    def _redactor(self, source: str) -> LineRedactor:
        if source not in self._redactors and len(self._redactors) >= _MAX_SOURCES:
            self._redactors.clear()
        return self._redactors.setdefault(source, LineRedactor())

    def _pass_over(self, line: str, source: str) -> None:
        """Track whether a key begins or ends in a line that is not recorded, since later lines may be."""
        if begins_key(line) or ends_key(line):
            self._redactors[source] = LineRedactor(is_inside=begins_key(line))

    def _record(self, text: str, source: str) -> None:
        # An agent may write text that UTF-8 cannot encode.
        body = {"line": text.encode(errors="backslashreplace").decode()}
        if source:
            body["source"] = source[:_LOOKED_AT]
        sent = encode(body), self._redactor(source)
        if self._recording:
            self._kept.append(sent)
        else:
            self._send(*sent)
