"""Names of branches and worktrees, and texts of commit messages. No I/O.

refs/heads/harness/<name>/<feature>/<try>      the work of one try
refs/heads/harness/<name>/<branch>             receives accepted work, unless <branch> itself does
"""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import sha256

from harnesses.features.feature import Feature, TurnResult, Verdict

HEADS = "refs/heads/"
PREFIX = "harness"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_ACTS = re.compile(
    r"#(?=\d)|@(?=[A-Za-z0-9])|\bGH-(?=\d)|:(?=//)|\[(?=(?:skip|ci|no|actions|circleci|pipeline)[ -])", re.IGNORECASE
)
"""Begins a reference to an issue, a mention, an address, or a directive such as `[skip ci]`."""
_WIDTH = 72
_MOST_EVIDENCE = 2_000


def slug(text: str) -> str:
    """Return `text` if it is valid as part of a branch and directory name; otherwise its valid characters and a hash."""
    if _PLAIN.fullmatch(text) and ".." not in text and not text.endswith((".", ".lock")):
        return text
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:40].rstrip("-")
    mark = sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{plain}-{mark}" if plain else mark


def try_branch(name: str, feature_id: str, turn: int, *, taken: Collection[str], into: str) -> str:
    """Return a branch name for a try that is not in `taken` and does not conflict with `into`."""
    folder = f"{PREFIX}/{slug(name)}/{slug(feature_id)}"
    if f"{into}/".startswith(f"{folder}/"):
        folder = f"{folder}-{sha256(feature_id.encode(errors='surrogatepass')).hexdigest()[:8]}"
    number, branch = 1, f"{folder}/{turn}"
    while branch in taken:
        number += 1
        branch = f"{folder}/{turn}-{number}"
    return branch


def try_message(feature: Feature, turn: int, words: str) -> str:
    """Return the commit message of a try, which quotes the agent's message."""
    return f"{_subject(feature)}\n\nTry {turn}, not validated yet.\n\n{_quoted(words)}"


def merge_message(feature: Feature, turn: int, result: TurnResult, verdict: Verdict) -> str:
    """Return the commit message of accepted work: the feature and its evidence."""
    judged = f"Judged: {result.commit}\n" if result.commit else ""
    by = f"Validator: {_line(verdict.validator)}\n" if verdict.validator else ""
    return f"{_subject(feature)}\n\n{_quoted(verdict.evidence)}\nFeature: {_line(feature.id)}\nTurn: {turn}\n{judged}{by}"


def _subject(feature: Feature) -> str:
    id, line = _line(feature.id), _line(feature.description.strip().partition("\n\n")[0])
    line = line if line.startswith(id) else f"{id}: {line}"
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"


def _line(text: str) -> str:
    return " ".join(_storable(text).split())


def _quoted(text: str) -> str:
    """Return text in which no line can be read as a trailer."""
    kept = _storable(text)[-_MOST_EVIDENCE:].strip()
    return "".join(f"> {line}".rstrip() + "\n" for line in kept.splitlines())


def _storable(text: str) -> str:
    """Return text in which a host links, mentions, closes and skips nothing when the commit is pushed."""
    stored = text.replace("\0", "�").encode(errors="backslashreplace").decode()
    return _ACTS.sub(lambda found: f"{found[0].removesuffix('-')} ", stored)
