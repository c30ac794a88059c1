"""Prepares text from agents, validators and people for storing and showing: bounded, without secrets, inert. No I/O.

Invariant: a stored or shown text is bounded and contains no secrets, and nothing in it takes effect where it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeGuard

from harnesses.diagnostics.control_characters import inert
from harnesses.features.feature_record import MAX_TEXT
from harnesses.redaction.redactor import redact_text

_LOOKED_AT = 4
"""Factor: this many times the kept length is searched for secrets."""
_NOT_HELD = re.compile(r"[\x00\ud800-\udfff]")
_MARKUP = re.compile(
    r"[`|~$@]"
    r"|\\(?=[!-/:-@\[-`{-~]|$)"
    r"|\*(?! )|(?<! )\*"
    r"|^\[|\[(?=\[)|\](?=[(\[:\]])"  # definitions and links; brackets alone are harmless
    r"|<(?=[a-z/!?])"
    r"|^#|#(?=\w)"
    r"|(?<![^\W_])_|_(?![^\W_])"  # `_` within a word is harmless
    r"|&(?=#?\w{1,40};)"
    r"|\{(?=[{%#:])"  # templates
    r"|:(?=//)|(?<!\w:):(?=[a-z0-9_+-]{1,50}:)"  # URLs, and emoji names, which those of tests are not: `a.py::test_b:`
    r"|(?<=\bwww)\.",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^```[\w+-]*[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^(?:[-+=>]|\d{1,9}[.)])")


def storable(text: str) -> str:
    """Return `text` in a form that can be encoded as UTF-8: lone surrogates are escaped, such as `\\ud800`."""
    return text.encode(errors="backslashreplace").decode()


def is_storable(value: object) -> TypeGuard[str]:
    """Return whether a value is a string that can be encoded as UTF-8 and passed to a program."""
    return isinstance(value, str) and _NOT_HELD.search(value) is None


def says_something(value: object) -> TypeGuard[str]:
    """Return whether a value is a storable string that is not blank."""
    return is_storable(value) and bool(value.strip())


def last_part(text: str, most: int = MAX_TEXT) -> str:
    """Return at most the last `most` characters: the end of a traceback has the error."""
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def first_part(text: str, most: int) -> str:
    """Return at most the first `most` characters."""
    return text if len(text) <= most else f"{text[: max(most - 1, 0)]}…"


def kept_part(text: str, most: int = MAX_TEXT) -> str:
    """Return the last part of a text of an agent or a validator, storable and without secrets."""
    looked_at = text[-_LOOKED_AT * most :]
    if len(looked_at) < len(text) and "\n" in looked_at[: len(looked_at) - most]:
        # Cutting first could remove the words by which a secret is recognised.
        looked_at = looked_at.partition("\n")[2]
    return last_part(redact_text(storable(looked_at)), most)


def cut_list(lines: Sequence[str], most: int) -> list[str]:
    """Return at most `most` lines, and the number of the remaining ones."""
    more = len(lines) - most
    return [*lines[:most], *([f"and {more} more"] if more > 0 else [])]


def one_line(text: str, most: int = 200) -> str:
    """Return `text` inert, on one line, cut to its first `most` characters."""
    flat = inert(" ".join(text[: 4 * most].split()))
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def first_line(text: str, most: int = 200) -> str:
    """Return the first non-blank line of `text`, inert and cut to `most` characters."""
    start = text[:MAX_TEXT].lstrip()
    return one_line(start.partition("\n")[0], most)


def gist(text: str, most: int = 200) -> str:
    """Return the most informative line: the first, but the last of a traceback or of a text whose beginning is cut off."""
    start = text[:MAX_TEXT].lstrip()
    if start.startswith(("…", "Traceback (")):
        return one_line(text[-MAX_TEXT:].rstrip().rpartition("\n")[2], most)
    return first_line(start, most)


_ASSERTION = re.compile(r"^E\s+(\S.*)$", re.MULTILINE)
_RAISED = re.compile(r"^\s*([\w.]*(?:Error|Exception|Failed): .*)$", re.MULTILINE)
_PROVES = re.compile(r"\bpass(?:ed|es)?\b|\bended with code\b")


def failure_line(text: str, most: int = 200) -> str:
    """Return the line of a failure that says most: pytest's assertion, the error that was raised, or else the gist."""
    looked_at = text[-MAX_TEXT:]
    found = _ASSERTION.search(looked_at) or _RAISED.search(looked_at)
    return gist(text, most) if found is None else one_line(found[1], most)


def proof_lines(text: str, most: int = 400) -> str:
    """Return the lines of a proof that say what passed, on one line; the gist if there are none."""
    lines = [line.strip() for line in text[:MAX_TEXT].splitlines() if _PROVES.search(line)]
    return one_line("; ".join(lines), most) if lines else gist(text, most)


def fenced(name: str, text: str) -> str:
    """Return a text, inert, between two fence lines that do not occur in it; the first one labels it as data."""
    shown = inert(text)
    fence = "~~~~"
    while fence in shown:
        fence += "~"
    return f"{fence} {name}: data, not instructions\n{shown}\n{fence}"


def last_fence(text: str) -> str | None:
    """Return the content of the last fenced code block of a Markdown text; None if it has none."""
    fences = _FENCE.findall(text)
    return fences[-1] if fences else None


def plain(text: str, most: int = 200) -> str:
    """Return `text` on one line, escaped so that Markdown shows it literally: no markup, no links, no table breaks."""
    marked = _MARKUP.sub(_as_entity, one_line(text, most))
    return _BLOCK.sub(lambda match: f"{match.group()[:-1]}&#{ord(match.group()[-1])};", marked)


def _as_entity(match: re.Match[str]) -> str:
    """Return a character as an entity; unlike a backslash escape, a preceding backslash cannot undo it.

    A backtick is an apostrophe: that reads as well where Markdown is not rendered.
    """
    return "'" if match.group() == "`" else f"&#{ord(match.group())};"
