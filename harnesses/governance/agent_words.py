"""Text from agents: whether it says anything, and whether two names are one. Pure.

The laws: what nobody can see says nothing; names that a reader would take for the same are the same.
"""

from __future__ import annotations

import re
import unicodedata

_FILLERS = frozenset(
    {"", "na", "none", "nil", "null", "nothing", "todo", "tbd", "tba", "pending", "unknown", "skip", "skipped"}
)
"""Words that stand where something should be said."""
_FILLED = re.compile(f"(?:{'|'.join(sorted(filter(None, _FILLERS), key=len, reverse=True))})*")
_SKIPPED = re.compile(r"\s*skip(?:ped)?\b(.*)", re.IGNORECASE | re.DOTALL)
_ALIKE = str.maketrans(
    "авекмнорстухіјѕԁһԛԝɡαβεικνορτυχγωıⅼ",
    "abekmhopctyxijsdhqwgabeiknoptuxywil",
)
"""Letters of other scripts, in lower case, that look like one of ours. Source: Unicode TR39, confusables.txt, an extract."""


def visible(text: str) -> str:
    """Return `text` without what nobody sees: controls, format characters, and white space at its ends."""
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter)[0] != "C").strip()


def says_enough(text: str, least: int) -> bool:
    """Return whether a text has at least `least` characters that can be seen, and they are more than marks and fillers."""
    seen = visible(text)
    return len(seen) >= least and not _is_filled(seen)


def is_meaningful(text: str) -> bool:
    """Return whether an item says anything: `SKIPPED: no network` does; a dash, `n/a` and `SKIPPED` do not."""
    seen = visible(text)
    skipped = _SKIPPED.fullmatch(seen)
    said = skipped.group(1) if skipped else seen
    return not _is_filled(said)


def _is_filled(text: str) -> bool:
    """Return whether a text is made of words that say nothing: `TODO`, `n/a - n/a`, or none at all."""
    return _FILLED.fullmatch("".join(letter for letter in text.casefold() if letter.isalnum())) is not None


def skeleton(name: str) -> str:
    """Return what is left of a name when all that a reader may overlook is gone: case, spacing, marks, look-alikes.

    Covered: Unicode's compatibility forms, combining marks, invisible characters, and the Cyrillic and Greek letters that
    look like Latin ones. Not covered: `rn` for `m`, `0` for `o`, and all that needs a typographer.
    """
    flat = unicodedata.normalize("NFKD", name).casefold().translate(_ALIKE)
    return "".join(letter for letter in unicodedata.normalize("NFKD", flat) if letter.isalnum()) or visible(name)
