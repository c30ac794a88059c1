"""Dangerous actions that a builder asks for in its contract: they are done for it, once a person has approved. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from harnesses.governance.contract_nouns import BuilderContract
from harnesses.pipeline.task import Deed
from harnesses.secrets import MARK, redact_text

MAX_REQUESTS = 10
MAX_WORDS = 200
MAX_WORD = 4_000
MAX_SUMMARY = 250
_FORM = '{"category": "publish", "summary": "…", "command": ["…"]}'


def requested(contract: BuilderContract) -> tuple[tuple[Deed, ...], tuple[str, ...]]:
    """Return the deeds that a contract asks for, and what is wrong with those that can not be done."""
    given = contract.more.get("actions")
    if given is None:
        return (), ()
    if not isinstance(given, list | tuple):
        return (), (f"builder.actions: expected an array of {_FORM}, was {given!r:.80}",)
    items = cast("list[object]", given)
    if len(items) > MAX_REQUESTS:
        return (), (f"builder.actions: expected at most {MAX_REQUESTS}, was {len(items)}",)
    deeds: list[Deed] = []
    problems: list[str] = []
    for place, item in enumerate(items):
        deed = _deed(item)
        if deed is None:
            problems.append(f"builder.actions[{place}]: expected {_FORM}, was {item!r:.120}")
        elif any(MARK in word or redact_text(word) != word for word in (*deed.command, deed.summary)):
            problems.append(f"builder.actions[{place}]: it holds a secret, which would be on record; read it where it is used")
        else:
            deeds.append(deed)
    return tuple(deeds), tuple(problems)


def _deed(item: object) -> Deed | None:
    if not isinstance(item, Mapping):
        return None
    fields = cast(Mapping[str, object], item)
    if not fields.keys() <= {"category", "summary", "command", "limit_s"}:
        return None
    category, summary, command = fields.get("category"), fields.get("summary"), fields.get("command")
    limit_s = fields.get("limit_s", 600.0)
    if not (_is_text(category, 80) and _is_text(summary, MAX_SUMMARY) and isinstance(command, list | tuple) and command):
        return None
    words = cast("list[object]", command)
    if len(words) > MAX_WORDS or not all(
        isinstance(word, str) and "\0" not in word and len(word) <= MAX_WORD for word in words
    ):
        return None
    if (
        isinstance(limit_s, bool)
        or not isinstance(limit_s, int | float)
        or not math.isfinite(limit_s)
        or not 0 < limit_s <= 86_400
    ):
        return None
    return Deed(category=str(category), summary=str(summary), command=tuple(map(str, words)), limit_s=float(limit_s))


def _is_text(value: object, most: int) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= most
