"""Conversion of stored plain data to the types that a harness declared.

Invariant: data that fits its type is converted; input and output that do not fit stay plain data, and a state that does not
fit is an error.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.data.frozen_dict import DICTS
from harnesses.data.values import fields_of
from harnesses.step import Step
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.records import StepRecord


class HarnessTypes:
    """The types that one harness declared: `BaseHarness[StateT, InputT, OutputT]`.

    Undeclared types are read back as plain data. A state of plain containers takes its types from the initial state as an
    example: where that has a `Decimal`, a date or a tuple, so has the state that is read back.
    """

    __slots__ = ("_checked", "_example", "_input", "_output", "_state")

    def __init__(self, state: Any, given: Any, output: Any, example: Any = None) -> None:
        self._state, self._input, self._output, self._example = state, given, output, example
        self._checked = False

    @classmethod
    def of(cls, harness: BaseHarness[Any, Any, Any]) -> HarnessTypes:
        """Return the types of a harness; cached for classes whose state has declared fields."""
        state, given, output = _declared(type(harness))
        example = harness.state
        kept: Any = example.__class__
        if fields_of(kept) is not None:
            return _types(kept, given, output)
        return cls(state, given, output, example)

    @classmethod
    def of_class(cls, harness: type[BaseHarness[Any, Any, Any]]) -> HarnessTypes:
        """Return the types that a class declares, without an instance."""
        return cls(*_declared(harness))

    @property
    def state_class(self) -> Any:
        """The type that a stored state is converted to; None if the initial state is the example."""
        return None if self._state is Any else self._state

    def check(self, text: str) -> None:
        """Raise if a state cannot be read back; checked once per class whose state type is fully declared.

        Raises:
            UsageError: it cannot.
        """
        if not self._checked:
            self.state(text)
            self._checked = self._state is not Any

    def state(self, text: str) -> Any:
        """Return a state read back from JSON.

        Raises:
            UsageError: the stored state does not fit the type that the harness declares now.
        """
        data = decode(text)
        try:
            if self._state is Any:
                return revive(data, self._example)
            return _convert(data, self._state)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            wanted = getattr(self._state, "__qualname__", self._state)
            raise UsageError(
                f"the stored state does not fit {wanted}: {error}; give new fields a default, or start under a new name"
            ) from error

    def record(self, record: StepRecord) -> StepRecord:
        """Return a record with typed input and output; data that does not fit its type stays plain."""
        return evolve(
            record,
            input=_convert_or_keep(record.input, self._input),
            output=_convert_or_keep(record.output, self._output),
        )

    def step(self, record: StepRecord) -> Step[Any, Any]:
        """Return a record as a step with typed input and output; data that does not fit its type stays plain."""
        return Step(
            record.step_number,
            record.timestamp,
            _convert_or_keep(record.input, self._input),
            _convert_or_keep(record.output, self._output),
            record.state_delta,
        )


@cache
def _types(state: Any, given: Any, output: Any) -> HarnessTypes:
    return HarnessTypes(state, given, output)


def revive(data: Any, example: Any) -> Any:
    """Return plain data with the types that `example` has at the same places."""
    cls = example.__class__
    if cls in DICTS:
        return _revive_dict(cast(Any, data), example) if isinstance(data, dict) else data
    if cls is list or cls is tuple:
        if not isinstance(data, list):
            return data
        items = cast(Any, data)
        kinds = {item.__class__ for item in example}
        if len(kinds) == 1:
            items = [revive(item, example[0]) for item in items]
        return list(items) if cls is list else tuple(items)
    if data is None or isinstance(data, cls) or cls in (type(None), bool, int, float, str):
        return data
    return _convert(data, cls)


def _revive_dict(data: dict[str, Any], example: dict[Any, Any]) -> dict[Any, Any]:
    kinds: set[Any] = {key.__class__ for key in example}
    key_type = kinds.pop() if len(kinds) == 1 else str
    revived: dict[Any, Any] = {}
    for text, value in data.items():
        key = text if key_type is str else msgspec.convert(text, key_type, strict=False)
        revived[key] = revive(value, example[key]) if key in example else value
    return revived


@cache
def _declared(cls: type) -> tuple[Any, Any, Any]:
    """Return the arguments of `BaseHarness[…]` among the bases of `cls`; `Any` for undeclared ones."""
    for base in cls.__mro__:
        for original in getattr(base, "__orig_bases__", ()):
            arguments = get_args(original)
            if get_origin(original) is BaseHarness and len(arguments) == 3:
                state, given, output = (Any if _is_open(argument) else argument for argument in arguments)
                return state, given, output
    return Any, Any, Any


def _is_open(argument: Any) -> bool:
    """Return whether a declared type does not determine the result: undeclared, or a container of `Any`."""
    if argument in (Any, object, dict, list, tuple) or isinstance(argument, TypeVar | str):
        return True
    return any(inner in (Any, object) for inner in get_args(argument))


def _convert(data: Any, cls: Any) -> Any:
    return msgspec.convert(data, cls, str_keys=True)


def _convert_or_keep(data: Any, cls: Any) -> Any:
    if cls is Any:
        return data
    try:
        return _convert(data, cls)
    except (msgspec.ValidationError, ValueError, TypeError):
        return data


def state_type(cls: type) -> Any:
    """Return the type that a harness class declares for its state; `Any` if undeclared."""
    return _declared(cls)[0]
