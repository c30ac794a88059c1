"""The state of a harness at any step, and a hash that identifies a state.

Invariant: a state that was read back has the same hash as the live one, whatever kill or restart came between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import msgspec

from harnesses.data.values import detach, fields_of
from orchestrator.codec import decode
from orchestrator.errors import StateChanged
from orchestrator.history.past_reader import PAGE as PAGE
from orchestrator.history.past_reader import Past as Past
from orchestrator.history.past_reader import Source as Source
from orchestrator.history.past_reader import find_harness as find_harness
from orchestrator.history.past_reader import is_log as is_log
from orchestrator.history.past_reader import oldest_step as oldest_step
from orchestrator.history.past_reader import open_past as open_past
from orchestrator.history.past_reader import pages as pages
from orchestrator.history.past_reader import read_records as read_records
from orchestrator.states.state_migration import ready
from orchestrator.states.state_types import HarnessTypes
from orchestrator.store.rules.state_rules import version_at
from orchestrator.store.store_protocol import VersionRow

if TYPE_CHECKING:
    from harnesses.base import BaseHarness

Like: TypeAlias = "BaseHarness[Any, Any, Any] | type[BaseHarness[Any, Any, Any]]"
"""A harness or its class, which determines the types of states, inputs and outputs."""
_sorted = msgspec.json.Encoder(order="sorted").encode


def state_at(source: Source, name: str, step: int, *, like: Like | None = None) -> Any:
    """Return the state of a harness after a step; 0 is the initial state.

    Args:
        source: a store, or its path; a run may be writing to it.
        like: the harness or its class: the state then has the declared type, migrated if it was stored with an older
            version; default is plain data, as stored.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such step, the step was pruned, or the state does not fit the type.
    """
    with open_past(source) as past:
        text = past.state_at(name, step)
        return decode(text) if like is None else decode_state(types_of(like), text, past.state_versions(name), name, step)


def decode_state(types: HarnessTypes, text: str, versions: Sequence[VersionRow], name: str, step: int) -> Any:
    """Return the state after a step, migrated from the version that it was recorded with.

    Raises:
        StateChanged: it cannot be converted to the class without loss.
    """
    try:
        return ready(types, text, version_at(versions, step)).state
    except StateChanged as error:
        raise StateChanged(f"harness {name!r}, step {step}: {error}") from error


def state_hash(state: object) -> str:
    """Return the SHA-256 of a state in hexadecimal: of its JSON without blanks, keys sorted.

    A state that is live or read back, typed or plain, has the same hash if its JSON is the same. Sets are an exception, since
    as plain data they are lists in arbitrary order: read a state that holds sets with `like`.

    Raises:
        Unstorable: it holds something that cannot be stored.
    """
    private = detach(state)
    try:
        text = _sorted(private)
    except TypeError:
        # Keys that are not text, or a set of unordered items.
        text = _sorted(_plain(private))
    return sha256(text).hexdigest()


def _plain(value: Any) -> Any:
    """Return plain data with keys as text, and sets as lists sorted by the JSON of their items."""
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
    """Return the types that a harness or its class declares."""
    return HarnessTypes.of_class(like) if isinstance(like, type) else HarnessTypes.of(like)
