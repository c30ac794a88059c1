"""Parses the marks in the text of an item: its id, dependencies and priority. No I/O.

Text in backticks is never a mark. `markdown` describes the grammar.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from difflib import get_close_matches
from hashlib import sha256

from attrs import define, field, frozen

from harnesses.coding.sources.markdown_items import outside_code
from harnesses.features.planning.feature_list import MAX_PRIORITY

_KEYED = re.compile(r"\(\s*(?P<key>[A-Za-z][A-Za-z _-]*?)\s*:\s*(?P<value>[^()]*?)\s*\)")
_CURLY = re.compile(r"\{\s*#(?P<value>[^\s{}]+)\s*\}")
_OPTIONAL = re.compile(r"\(\s*optional\s*\)", re.IGNORECASE)
_URGENCY = re.compile(r"(?<!\S)!(?P<value>[A-Za-z]+)(?!\S)")
_HASH = re.compile(r"(?<!\S)#(?P<value>[^\W\d][\w./-]*)\s*$")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_ID = re.compile(r"[^\s,(){}]+")

_KEYS = {
    "id": "id",
    "after": "after",
    "depends": "after",
    "depends_on": "after",
    "needs": "after",
    "requires": "after",
    "priority": "priority",
}
URGENCY = {"urgent": 2, "high": 1, "normal": 0, "low": -1}
_LONGEST = 50
"""Maximum characters of an id derived from a text; a longer one is cut and ends with a hash of the text."""


@frozen
class Marked:
    """The text of an item, and its marks."""

    text: str
    id: str | None = None
    after: tuple[str, ...] = ()
    priority: int = 0
    required: bool = True


def read_marks(text: str, note: Callable[[str], None]) -> Marked:
    """Return the text without its marks, and their values; problems are passed to `note`."""
    reading = _Reading(text, outside_code(text), note)
    reading.keyed()
    reading.urgency()
    reading.optional()
    reading.ids()
    ids, priorities = reading.found_ids, reading.priorities
    for what, values in (("id", ids), ("priority", priorities)):
        if len(values) > 1:
            note(f"expected at most one {what}, was {', '.join(map(str, values))}; keep one")
    return Marked(
        text=" ".join(reading.text.split()),
        id=ids[0] if ids else None,
        after=tuple(reading.after),
        priority=priorities[0] if priorities else 0,
        required=reading.required,
    )


@define
class _Reading:
    """A text from which marks are removed, one kind at a time."""

    text: str
    visible: str
    """The text with everything in backticks removed."""
    note: Callable[[str], None]
    found_ids: list[str] = field(factory=list[str])
    after: list[str] = field(factory=list[str])
    priorities: list[int] = field(factory=list[int])
    required: bool = True

    def keyed(self) -> None:
        for match in _KEYED.finditer(self.visible):
            key = match["key"].lower().replace(" ", "_").replace("-", "_")
            value = self.text[match.start("value") : match.end("value")].replace("`", "")
            match _KEYS.get(key):
                case "id":
                    self.found_ids.append(_id(value, self.note))
                case "after":
                    self.after += [_id(one.strip(), self.note) for one in value.split(",")]
                case "priority":
                    self.priorities.append(_priority(value, self.note))
                case _:
                    _note_misspelt(match["key"], key, self.note)
                    continue
            self._cut(match)

    def urgency(self) -> None:
        for match in _URGENCY.finditer(self.visible):
            word = match["value"].lower()
            if word in URGENCY:
                self.priorities.append(URGENCY[word])
                self._cut(match)
            elif near := get_close_matches(word, URGENCY, n=1, cutoff=0.75):
                known = ", ".join(f"!{one}" for one in URGENCY)
                self.note(f"unknown mark !{word}: expected one of {known}; did you mean !{near[0]}?")

    def optional(self) -> None:
        for match in _OPTIONAL.finditer(self.visible):
            self.required = False
            self._cut(match)

    def ids(self) -> None:
        for pattern in (_CURLY, _HASH):  # in this order: a final `#id` is at the end only when the other marks are removed
            for match in pattern.finditer(self.visible):
                self.found_ids.append(match["value"])
                self._cut(match)

    def _cut(self, match: re.Match[str]) -> None:
        start, end = match.span()
        gap = " " * (end - start)
        self.text = self.text[:start] + gap + self.text[end:]
        self.visible = self.visible[:start] + gap + self.visible[end:]


def slug(text: str) -> str:
    """Return an id derived from a text; markup in the text does not change the id."""
    plain = unicodedata.normalize("NFKC", _LINK.sub(r"\1", text)).casefold()
    made = re.sub(r"[\W_]+", "-", plain).strip("-")
    if made and len(made) <= _LONGEST:
        return made
    mark = sha256(" ".join(plain.split()).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{made[: _LONGEST - 9].strip('-') or 'item'}-{mark}"


def _id(value: str, note: Callable[[str], None]) -> str:
    value = value.removeprefix("#")
    if not _ID.fullmatch(value):
        note(f"expected an id without spaces, commas and brackets, was {value!r:.60}; write each mark in brackets of its own")
    return value


def _priority(value: str, note: Callable[[str], None]) -> int:
    if value.lower() in URGENCY:
        return URGENCY[value.lower()]
    if re.fullmatch(r"[+-]?\d{1,7}", value) and abs(int(value)) <= MAX_PRIORITY:
        return int(value)
    note(f"priority: expected a whole number or one of {', '.join(URGENCY)}, was {value!r:.60}; correct it")
    return 0


def _note_misspelt(said: str, key: str, note: Callable[[str], None]) -> None:
    """Report a bracket with a colon if its word is nearly one of the known marks; otherwise it is prose."""
    near = get_close_matches(key, [one for one in _KEYS if len(one) > 4], n=1, cutoff=0.85)
    if near:
        note(f"unknown mark ({said}: …): expected one of {', '.join(_KEYS)}; did you mean {near[0]!r}?")
