"""The JSON Schema of run files, for editors: made of what the page about run files says of each key."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.alerts.alert_rules import MEASURES, WORDS
from orchestrator.restart import Restart, Strategy
from tests.docs.run_file_keys import described
from tests.docs.run_files_page import KEYS

_KINDS = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "table": "object",
    "array": "array",
    "array of tables": "array",
    "array of texts": "array",
}
_WORDS: Mapping[str, Iterable[str]] = {
    "the file.strategy": Strategy,
    "[[harness]].restart": Restart,
    "[[harness]].durability": ("step", "group"),
    "[[supervisor]].strategy": Strategy,
    "[[supervisor]].restart": Restart,
}
"""The words that a text may be."""
_ITEMS = {"harness": "[[harness]]", "supervisor": "[[supervisor]]", "pool": "[[pool]]", "alert": "[[alert]]"}
_TABLES = {"backoff": "backoff", "budget": "budget", "guardrails": "guardrails", "memory": "memory", "ping": "ping"}
_FUNCTION = {
    "type": "object",
    "required": ["function"],
    "properties": {"function": {"type": "string"}, "arguments": {"type": "object"}},
    "additionalProperties": False,
}
_REQUIRED = {"the file": ["harness"], "[[harness]]": ["name"], "[[supervisor]]": ["name"], "[[pool]]": ["name"]}
_REQUIRED |= {"[[alert]]": ["when", "to"], "ping": ["url"]}
_READY_MADE = ("trading", "features", "coding", "pipeline")


def schema() -> dict[str, Any]:
    """Return the schema."""
    tables = {where: _table(where, keys) for where, keys in KEYS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run file of the orchestrator",
        **tables.pop("the file"),
        "$defs": {_name(where): table for where, table in tables.items()},
    }


def text() -> str:
    """Return the file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _table(where: str, keys: Iterable[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "object",
        "properties": {key: _key(where, key) for key in keys},
        "additionalProperties": False,
    }
    return {**made, "required": _REQUIRED[where]} if where in _REQUIRED else made


def _key(where: str, key: str) -> dict[str, Any]:
    known = described(where, key)
    meaning = known.meaning[:1].upper() + known.meaning[1:]
    return {**({"description": meaning} if meaning else {}), **_type(where, key, known.type)}


def _type(where: str, key: str, kind: str) -> dict[str, Any]:
    if where == "the file" and key in _ITEMS:
        return {"type": "array", "items": _reference(_ITEMS[key])}
    if key in _TABLES and not where.startswith(_READY_MADE):
        return _reference(_TABLES[key])
    if where == "[[harness]]" and key in _READY_MADE:
        return _reference(key)
    if where == "[[alert]]" and key == "when":
        said = [
            {"enum": [*WORDS]},
            {"type": "string", "pattern": rf"^(({'|'.join(MEASURES)}) *> *[0-9.]+|(?i:select|with|from)\b.*)"},
        ]
        return {"anyOf": [*said, {"type": "array", "items": {"anyOf": said}}]}
    if (words := _WORDS.get(f"{where}.{key}")) is not None:
        return {"enum": [str(word) for word in words]}
    if where.startswith(_READY_MADE):
        return _loose(where, key, kind)
    kinds = sorted({_KINDS[word] for word in kind.split(" or ") if word in _KINDS})
    return {} if kind == "any" else {"type": kinds[0] if len(kinds) == 1 else kinds}


def _loose(where: str, key: str, kind: str) -> dict[str, Any]:
    """Return the type of a key of a ready-made harness: strict where there is a table of it, or it is a plain value."""
    if key == "policy":
        return _reference("features.policy")
    inner = [name for name in KEYS if name.startswith((f"{where}.{key} ", f"{where}.{key}.")) or name == f"{where}.{key}"]
    if inner and not where.startswith("pipeline"):
        return {"anyOf": [{"type": "string"}, *map(_reference, inner), _FUNCTION]}
    plain = {"boolean": ["boolean"], "integer": ["integer"], "number": ["number", "string"]}
    return {"type": plain[kind]} if kind in plain else {}


def _reference(where: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{_name(where)}"}


def _name(where: str) -> str:
    return where.strip("[]").replace(" ", "_").replace(".", "_")
