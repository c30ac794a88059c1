"""The arguments of tools: their JSON Schema, and what is read from them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from attrs import frozen

from harnesses.errors import near, one_of
from orchestrator.errors import UsageError

WHOLE, NUMBER, FLAG, TEXT, OBJECT = "integer", "number", "boolean", "string", "object"
_TYPES: Mapping[str, tuple[type, ...]] = {
    WHOLE: (int,),
    NUMBER: (int, float),
    FLAG: (bool,),
    TEXT: (str,),
    OBJECT: (dict,),
}
_IN_WORDS = {
    WHOLE: "a whole number from 0 up",
    NUMBER: "a number above 0",
    FLAG: "true or false",
    TEXT: "text",
    OBJECT: "an object",
}


@frozen
class Argument:
    """An argument of a tool."""

    name: str
    meaning: str
    type: str = TEXT
    """A type of JSON Schema; empty for any value."""
    is_required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        return {
            **({"type": self.type} if self.type else {}),
            **({"minimum": 0} if self.type == WHOLE else {}),
            **({"enum": list(self.choices)} if self.choices else {}),
            "description": self.meaning,
        }

    def check(self, tool: str, value: Any) -> None:
        """Refuse a value that the argument cannot have.

        Raises:
            UsageError: it is none.
        """
        if self.choices and value not in self.choices:
            raise UsageError(
                f"{tool}: {self.name}: {one_of(self.choices, 'none')}, got {value!r:.100}{near(value, self.choices)}"
            )
        if not self.type:
            return
        is_one = isinstance(value, _TYPES[self.type]) and isinstance(value, bool) == (self.type == FLAG)
        if not is_one or (isinstance(value, int) and value < 0):
            raise UsageError(f"{tool}: {self.name}: expected {_IN_WORDS[self.type]}, got {value!r:.100}; correct it")


def input_schema(arguments: Collection[Argument]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments of a tool."""
    return {
        "type": "object",
        "properties": {one.name: one.schema for one in arguments},
        "required": [one.name for one in arguments if one.is_required],
        "additionalProperties": False,
    }


def read_arguments(tool: str, arguments: Collection[Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that were given; null is none.

    Raises:
        UsageError: one is unknown, missing, or has a value that it cannot have.
    """
    known = {one.name: one for one in arguments}
    values = {name: value for name, value in given.items() if value is not None}
    for name, value in values.items():
        if name not in known:
            raise UsageError(f"{tool}: unknown argument {name!r:.100}: {one_of(known, 'none')}{near(name, known)}")
        known[name].check(tool, value)
    missing = [one.name for one in arguments if one.is_required and one.name not in values]
    if missing:
        raise UsageError(f"{tool}: expected the argument {' and '.join(map(repr, missing))}, got none; give it")
    return values
