"""Text from agents, validators and people: whether it can be kept, cut to size, and made inert. Pure.

The law: what is kept of a text, and what is shown of it, is bounded and without secrets; and nothing of it can act on who
shows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeGuard

from harnesses.diagnostics.control_characters import inert
from harnesses.features.feature_record import MAX_TEXT
from harnesses.redaction.redactor import redact_text

_LOOKED_AT = 4
"""Times as much is searched for secrets as is kept."""
_NOT_HELD = re.compile(r"[\x00\ud800-\udfff]")
_MARKUP = re.compile(
    r"[\\`*\[\]<|~#$@]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # within a word it is a letter
    r"|&(?=#?\w{1,40};)"
    r"|\{(?=[{%#:])"  # templates
    r"|:(?=//|[a-z0-9_+-]{1,50}:)"  # addresses, and names of pictures
    r"|(?<=\bwww)\.",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"^(?:[-+=>]|\d{1,9}[.)])")


def storable(text: str) -> str:
    """Return `text` as one that a file can hold: halves of characters are written out, `\\ud800`."""
    return text.encode(errors="backslashreplace").decode()


def is_storable(value: object) -> TypeGuard[str]:
    """Return whether a value is a text that a file can hold, and a program can be handed."""
    return isinstance(value, str) and _NOT_HELD.search(value) is None


def says_something(value: object) -> TypeGuard[str]:
    """Return whether a value is a text that can be stored and is not blank."""
    return is_storable(value) and bool(value.strip())


def last_part(text: str, most: int = MAX_TEXT) -> str:
    """Return at most the last `most` characters: a traceback ends with what went wrong."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def kept_part(text: str, most: int = MAX_TEXT) -> str:
    """Return what is kept of a text of an agent or a validator: its last part, without secrets, as a file can hold it."""
    looked_at = text[-_LOOKED_AT * most :]
    if len(looked_at) < len(text) and "\n" in looked_at[: len(looked_at) - most]:
        # What says that the first words are secret may be cut off.
        looked_at = looked_at.partition("\n")[2]
    return last_part(redact_text(storable(looked_at)), most)


def cut_list(lines: Sequence[str], most: int) -> list[str]:
    """Return at most `most` lines, and how many more there are."""
    more = len(lines) - most
    return [*lines[:most], *([f"and {more} more"] if more > 0 else [])]


def one_line(text: str, most: int = 200) -> str:
    """Return `text` inert, on one line, and cut to its first `most` characters."""
    flat = inert(" ".join(text[: 4 * most].split()))
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def first_line(text: str, most: int = 200) -> str:
    """Return the first line of `text` that says something, inert and cut to size."""
    start = text[:MAX_TEXT].lstrip()
    return one_line(start.partition("\n")[0], most)


def gist(text: str, most: int = 200) -> str:
    """Return the line that says most: the first; of a traceback, and of a text whose beginning is cut off, the last."""
    start = text[:MAX_TEXT].lstrip()
    if start.startswith(("…", "Traceback (")):
        return one_line(text[-MAX_TEXT:].rstrip().rpartition("\n")[2], most)
    return first_line(start, most)


def plain(text: str, most: int = 200) -> str:
    """Return `text` on one line, written so that Markdown shows it as it is: no markup, no links, no breaks in tables."""
    marked = _MARKUP.sub(_as_entity, one_line(text, most))
    return _BLOCK.sub(lambda match: f"{match.group()[:-1]}&#{ord(match.group()[-1])};", marked)


def _as_entity(match: re.Match[str]) -> str:
    """Write a character as an entity: unlike a backslash, it cannot be undone by one that stands before it."""
    return f"&#{ord(match.group())};"
