"""Conversion of a stored state to the current one: migrated, checked for its shape, and typed. Pure.

Invariant: stored data is never dropped silently. A stored field that the class does not have, or a field without a default
that is not stored, is an error that names both and the remedy; so is a version that no migration leads from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from harnesses.data.migrations import called, migrations_of, version_of
from harnesses.data.values import fields_of
from harnesses.errors import HarnessMisuse
from harnesses.redaction.redactor import redact_text
from orchestrator.codec import decode, encode, encode_private
from orchestrator.errors import StateChanged, UsageError
from orchestrator.states.state_types import HarnessTypes
from orchestrator.states.stored_shapes import Fault, faults_in
from orchestrator.text.terminal_text import one_line

_SHOWN = 300
"""Characters of a state shown in a message."""


@frozen
class Readied:
    """A state ready for use."""

    state: Any
    migrated: str | None = None
    """JSON of the state, if it was migrated now."""
    is_whole: bool = False
    """Whether it differs from the stored state, so that the next step records it as a whole."""


def version_for(types: HarnessTypes) -> int:
    """Return the version of a harness's state class.

    Raises:
        StateChanged: the version or a migration is declared wrongly.
    """
    try:
        migrations = migrations_of(types.state_class)
        version = version_of(types.state_class)
    except HarnessMisuse as error:
        raise StateChanged(str(error)) from error
    if beyond := [start for start in migrations if start >= version]:
        name = _name(types)
        raise StateChanged(
            f"{name} has version {version}, and a migration from version {max(beyond)}: expected schema_version = "
            f"{max(beyond) + 1}; write it into the class"
        )
    return version


def ready(types: HarnessTypes, text: str, stored: int) -> Readied:
    """Convert a stored state to the one that a harness continues with.

    Args:
        text: JSON of the stored state.
        stored: version that it was recorded with.

    Raises:
        StateChanged: it cannot be converted to the class without loss.
    """
    current = version_for(types)
    if stored > current:
        raise StateChanged(
            f"its state was stored with version {stored} of its class, {_name(types)} has version {current}: expected "
            f"{stored} or later; run the newer program, or fork it at a step from before"
        )
    if stored == current:
        return _as_it_is(types, text)
    data = _migrated(types, decode(text), stored, current)
    _check_migrated(types, data, current)
    state = _typed(types, encode_private(data))
    return Readied(state, encode(state), is_whole=True)


def _as_it_is(types: HarnessTypes, text: str) -> Readied:
    if types.state_class is None:
        return Readied(types.state(text))
    try:
        state = types.state(text)
        written = encode(state)
    except UsageError as error:
        _check_shape(types, decode(text))
        raise StateChanged(str(error)) from error
    if written == text:  # nothing was left out, and nothing was added
        return Readied(state)
    data = decode(text)
    _check_shape(types, data)
    return Readied(state, is_whole=decode(written) != data)


def _typed(types: HarnessTypes, text: str) -> Any:
    try:
        return types.state(text)
    except UsageError as error:
        raise StateChanged(f"after its migration {error}") from error


def _migrated(types: HarnessTypes, data: Any, stored: int, current: int) -> Any:
    """Return plain data of the current version."""
    migrations, name = migrations_of(types.state_class), _name(types)
    for version in range(stored, current):
        if version not in migrations:
            raise StateChanged(
                f"its state was stored with version {stored} of its class, {name} has version {current}, and there is no "
                f"migration from version {version}: expected one; write {_template(name, version)}"
            )
        shown = one_line(redact_text(encode(data)), _SHOWN)
        what = f"the migration of {name} from version {version}"
        try:
            result = migrations[version](data)
            data = None if result is None else decode(encode(result))
        except Exception as error:
            raise StateChanged(
                f"{what} failed: {type(error).__name__}: {error}; it got {shown}; fix it and start again, nothing was changed"
            ) from error
        if data is None:
            raise StateChanged(f"{what} returned None: expected the plain data of version {version + 1}; it got {shown}")
    return data


def _check_migrated(types: HarnessTypes, data: Any, version: int) -> None:
    faults = faults_in(data, types.state_class)
    if faults:
        raise StateChanged(
            f"its state does not have the shape of {_name(types)} after its migration to version {version}: {_told(faults)}; "
            "fix the migration and start again, nothing was changed"
        )


def _check_shape(types: HarnessTypes, data: Any) -> None:
    faults = faults_in(data, types.state_class)
    if not faults:
        return
    name, version = _name(types), version_for(types)
    remedy = (
        f"put `schema_version: ClassVar[int] = {version + 1}` into the class and write {_template(name, version)}"
        if " " not in name
        else "make the state a class with a `schema_version`, or the classes in it as they were"
    )
    raise StateChanged(
        f"its stored state, of version {version}, does not have the shape of {name}, of version {version}: {_told(faults)}; "
        f"{remedy}, or start under a new name"
    )


def _told(faults: Sequence[Fault]) -> str:
    stored = ", ".join(fault.path for fault in faults if fault.is_stored)
    missing = ", ".join(fault.path for fault in faults if not fault.is_stored)
    parts = [
        f"stored, and not in the class: {stored}" if stored else "",
        f"in the class without a default, and not stored: {missing}" if missing else "",
    ]
    return "; ".join(filter(None, parts))


def _template(name: str, version: int) -> str:
    return (
        f"`@migrates({name.rpartition('.')[2]}, from_version={version})` above "
        f"`def from_version_{version}(stored: dict[str, Any]) -> dict[str, Any]`, "
        f"which returns the plain data of version {version + 1}"
    )


def _name(types: HarnessTypes) -> str:
    cls = types.state_class
    names = fields_of(cls) if isinstance(cls, type) else None
    return called(cls) if names is not None else f"the state type {cls}"
