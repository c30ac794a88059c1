"""What people tell a feature harness by message while it runs, and what becomes of it. Pure.

    {"unblock": "id"}                                  it is tried again, with all its tries
    {"block": "id", "reason": "…"}                     it is not tried
    {"prompt": {"feature": "id", "text": "…"}}         its agent is asked this instead of the usual words; no text: as usual

The law: every order has an answer; one that can not be followed changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import cast

from attrs import evolve

from harnesses.features.changes import blocked, unblocked
from harnesses.features.errors import InvalidRequest
from harnesses.features.policy import RunPolicy
from harnesses.features.record import FeatureState
from harnesses.features.texts import inert, one_line

_KNOWN = 'expected {"unblock": "id"}, {"block": "id", "reason": "…"} or {"prompt": {"feature": "id", "text": "…"}}'


def obeyed(state: FeatureState, policy: RunPolicy, order: object, now: datetime) -> tuple[FeatureState, str]:
    """Return the state after an order, and what became of it in words."""
    try:
        return _obeyed(state, policy, order, now)
    except InvalidRequest as error:
        return state, f"order {one_line(repr(order))} was not followed: {error}"


def _obeyed(state: FeatureState, policy: RunPolicy, order: object, now: datetime) -> tuple[FeatureState, str]:
    given = cast(Mapping[str, object], order) if isinstance(order, Mapping) else {}
    match given:
        case {"unblock": str(id)} if len(given) == 1:
            return unblocked(state, id, now), f"feature {id} is unblocked"
        case {"block": str(id)} if given.keys() <= {"block", "reason"}:
            reason = str(given.get("reason", ""))
            return blocked(state, policy, id, reason, now), f"feature {id} is blocked"
        case {"prompt": {"feature": str(id), **rest}} if len(given) == 1 and rest.keys() <= {"text"}:
            text = rest.get("text")
            if text is None or isinstance(text, str):
                return _prompted(state, id, text), f"feature {id} is asked {'as usual' if text is None else 'in other words'}"
    raise InvalidRequest(f"it is not known: {_KNOWN}")


def _prompted(state: FeatureState, feature_id: str, text: str | None) -> FeatureState:
    if not any(standing.feature_id == feature_id for standing in state.standings):
        raise InvalidRequest(f"feature {inert(feature_id)!r} is not there: expected an id of the list")
    standings = (
        evolve(standing, prompt=text) if standing.feature_id == feature_id else standing for standing in state.standings
    )
    return evolve(state, standings=tuple(standings))
