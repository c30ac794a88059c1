"""The state of a harness at any of its steps, and what identifies a state.

The law: the hash of a state that was read back is that of the live one, whatever kill or restart came between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, TypeGuard, cast

import msgspec

from harnesses.base import BaseHarness
from harnesses.data.values import detach, fields_of
from orchestrator.codec import decode
from orchestrator.errors import StateChanged
from orchestrator.history.history_sources import Source, open_past
from orchestrator.states.state_migration import ready
from orchestrator.states.state_types import HarnessTypes
from orchestrator.store.rules.state_rules import version_at
from orchestrator.store.store_protocol import VersionRow

Like: TypeAlias = BaseHarness[Any, Any, Any] | type[BaseHarness[Any, Any, Any]]
"""A harness, or its class: what says of which types a state, an input and an output are."""
_sorted = msgspec.json.Encoder(order="sorted").encode


def state_at(source: Source, name: str, step: int, *, like: Like | None = None) -> Any:
    """Return the state of a harness after a step; 0 is the initial one.

    Args:
        source: a store, or the path of one; a run may be writing to it.
        like: the harness or its class, for a state of the declared type, migrated if it was stored with an older version of
            it; otherwise it is plain data, as it was stored.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such step, the step was pruned, or the state does not become one of the type.
    """
    with open_past(source) as past:
        text = past.state_at(name, step)
        return decode(text) if like is None else decode_state(types_of(like), text, past.state_versions(name), name, step)


def decode_state(types: HarnessTypes, text: str, versions: Sequence[VersionRow], name: str, step: int) -> Any:
    """Return the state after a step, migrated from the version that it was recorded with.

    Raises:
        StateChanged: it does not become a state of the class without a loss.
    """
    try:
        return ready(types, text, version_at(versions, step)).state
    except StateChanged as error:
        raise StateChanged(f"harness {name!r}, step {step}: {error}") from error


def state_hash(state: object) -> str:
    """Return the SHA-256 of a state, in hexadecimal digits: of its JSON without blanks, keys sorted.

    It does not matter whether the state is live or was read back, typed or plain: what is written alike has one hash. Sets
    are the exception, since as plain data they are lists in the order of that day: read a state that holds any with `like`.

    Raises:
        Unstorable: it holds something that cannot be stored.
    """
    private = detach(state)
    try:
        text = _sorted(private)
    except TypeError:
        # Keys that are no text, or a set of what has no order.
        text = _sorted(_plain(private))
    return sha256(text).hexdigest()


def _plain(value: Any) -> Any:
    """Return plain data: keys as text, and sets as lists in the order of what is written of each item."""
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, cast(Iterable[Any], value)), key=_sorted)
    cls: type[Any] = value.__class__
    names = fields_of(cls)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if _is_dict(value):
        texts = [*msgspec.to_builtins(dict.fromkeys(value), str_keys=True)]
        return dict(zip(texts, map(_plain, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return list(map(_plain, cast(Iterable[Any], value)))
    return msgspec.to_builtins(value)


def _is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def types_of(like: Like) -> HarnessTypes:
    """Return the types that a harness, or its class, declares."""
    return HarnessTypes.of_class(like) if isinstance(like, type) else HarnessTypes.of(like)
