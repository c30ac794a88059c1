"""What each kind of output must not have. Written from the standards, not from the code that it checks.

A checker returns what is active in an output, as short texts; none is what is wanted.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser

from tests.inert.payloads import ELEMENT, HOST

_SGR = re.compile(r"\x1b\[[0-9;]*m")
_CURSOR = re.compile(r"\x1b\[(?:\?25[lh]|[0-9]*[AKGJ]|2K)|\r(?=\x1b\[|\n)")
"""What a live table does with the cursor: hide, show, up, erase."""
_IGNORABLE = (
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0D), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point without the two selectors that say how an emoji is drawn. Source: Unicode 16."""
_FORMULA = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20\u2212]", re.UNICODE)
"""What a spreadsheet reads as a formula, in any width and after spaces it drops. Source: OWASP, CSV Injection."""
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LINKS = re.compile(
    r"[a-z][a-z0-9+.-]*://|www\.|\]\s*[(\[]|<[!@#/a-z]|@(?:everyone|here|channel|all|room)\b|\w@\w|\bmailto:\S+@|[a-z]:/",
    re.IGNORECASE,
)
"""What mail and chat programs make a link, a picture, a mention or markup of."""


def is_hidden(letter: str) -> bool:
    """Return whether a character controls a terminal, ends a line, turns the text or cannot be seen."""
    code = ord(letter)
    if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return letter not in "\n\t"
    return any(first <= code <= last for first, last in _IGNORABLE)


def hidden(text: str) -> list[str]:
    """Return the hidden characters of an output, and runs of selectors, which can carry a message."""
    found = sorted(filter(is_hidden, {*text}))
    runs = re.findall("[\ufe00-\ufe0f]{2,}", text)
    return [f"{around(text, letter)}" for letter in found] + [f"selectors {len(run)}" for run in runs]


def around(text: str, part: str) -> str:
    """Return a part of a text with what stands around it, as it can be read."""
    place = text.find(part)
    return ascii(text[max(0, place - 30) : place + 30])


def terminal(text: str) -> list[str]:
    """Check what a verb prints where colours are not wanted."""
    return hidden(text)


def screen(text: str) -> list[str]:
    """Check what is drawn on a terminal: colours and the cursor are the program's own."""
    return hidden(_CURSOR.sub("", _SGR.sub("", text)))


def lines(text: str) -> list[str]:
    """Check an output of a line for each thing: nobody writes a line of their own."""
    return hidden(text) + [f"forged line: {line[:80]!a}" for line in text.splitlines() if line.startswith("forged")]


def json_lines(text: str) -> list[str]:
    """Check lines of JSON: each is an object, with the names that it has once."""
    return hidden(text) + [problem for line in text.split("\n") if line for problem in _json(line)]


def json_text(text: str) -> list[str]:
    """Check one JSON value."""
    return hidden(text) + list(_json(text))


def _json(text: str) -> Iterator[str]:
    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in items]
        if len({*names}) < len(names):
            raise ValueError("a name twice")
        return dict(items)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except ValueError as error:
        yield f"no JSON: {error}: {text[:100]!a}"
    else:
        if isinstance(value, dict) and "pwned" in value:
            yield f"forged: {text[:100]!a}"


def sheet(text: str) -> list[str]:
    """Check CSV: rows of one width, and no formula."""
    csv.field_size_limit(1 << 30)  # a cell holds a whole traceback or transcript
    rows = list(csv.reader(io.StringIO(text, newline="")))
    wrong = [f"formula: {cell[:60]!a}" for row in rows for cell in row if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)]
    ragged = [f"width {len(row)}: {str(row)[:80]!a}" for row in rows if len(row) != len(rows[0])]
    return hidden(text) + wrong + ragged


def stream(text: str) -> list[str]:
    """Check server-sent events as a browser reads them. Source: WHATWG HTML, 9.2.6."""
    found = hidden(text)
    for line in re.split(r"\r\n|\r|\n", text):
        name, _, value = line.partition(":")
        if name == "data":
            found += _json(value)
        elif (name == "event" and not re.fullmatch(r" ?[a-z_.]+", value)) or "pwned" in value:
            found.append(f"forged event: {line[:80]!a}")
        elif name not in ("", "id", "event", "retry"):
            found.append(f"no field: {line[:80]!a}")
    return found


def message(text: str) -> list[str]:
    """Check a message to people, in whatever program they read it: no link, picture, mention or markup."""
    return hidden(text) + [f"{match[0]!r} in {around(text, match[0])}" for match in _LINKS.finditer(text)]


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        bad = tag in ("script", "img", "iframe", "object", "embed", "base", "form", "input", "video", "audio", ELEMENT)
        bad = bad or (tag == "meta" and ("http-equiv", "refresh") in attrs)
        for name, value in attrs:
            text = (value or "").strip().lower()
            is_link = name in ("href", "src", "xlink:href") and not text.startswith(("#", "data:,"))
            bad = bad or name.startswith("on") or is_link or (HOST in text and name in ("style", "href", "src"))
        if bad:
            self.wrong.append(f"<{tag} {str(attrs)[:80]!a}>")


def elements(text: str) -> list[str]:
    """Check HTML of another library: no element or handler of a payload."""
    parser = _Elements()
    parser.feed(text)
    return parser.wrong


def html(text: str) -> list[str]:
    """Check a page without scripts: only elements that a report has, and no link away."""
    return hidden(text) + elements(text)


CHECKERS = {
    "terminal": terminal,
    "screen": screen,
    "lines": lines,
    "json lines": json_lines,
    "json": json_text,
    "sheet": sheet,
    "stream": stream,
    "message": message,
    "html": html,
    "elements": elements,
}
