"""What people tell a feature harness by message while it runs, and what becomes of it. Pure.

    {"unblock": "id"}                                  it is tried again, with all its tries
    {"block": "id", "reason": "…"}                     it is not tried
    {"prompt": {"feature": "id", "text": "…"}}         its agent is asked this instead of the usual words; no text: as usual;
                                                       of at most 20,000 characters

The law: every order has an answer, a short one; one that can not be followed changes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from attrs import evolve

from harnesses.features.changes import blocked, unblocked
from harnesses.features.errors import InvalidRequest
from harnesses.features.policy import RunPolicy
from harnesses.features.record import FeatureState
from harnesses.features.texts import one_line

MAX_PROMPT = 20_000
"""Characters of a prompt by order: it is part of the state."""
_KNOWN = 'expected {"unblock": "id"}, {"block": "id", "reason": "…"} or {"prompt": {"feature": "id", "text": "…"}}'


def obeyed(state: FeatureState, policy: RunPolicy, order: object, now: datetime) -> tuple[FeatureState, str]:
    """Return the state after an order, and what became of it in words."""
    try:
        return _obeyed(state, policy, order, now)
    except InvalidRequest as error:
        return state, f"order {one_line(repr(order))} was not followed: {error}"


def _obeyed(state: FeatureState, policy: RunPolicy, order: object, now: datetime) -> tuple[FeatureState, str]:
    match _plain(order):
        case {"unblock": str(id), **rest} if not rest:
            _look_up(state, id)
            return unblocked(state, id, now), f"feature {id} is unblocked"
        case {"block": str(id), **rest} if rest.keys() <= {"reason"}:
            _look_up(state, id)
            return blocked(state, policy, id, str(rest.get("reason", "")), now), f"feature {id} is blocked"
        case {"prompt": inner, **rest} if not rest:
            match _plain(inner):
                case {"feature": str(id), "text": str(text), **rest} if not rest and text.strip():
                    return _prompted(state, id, text), f"feature {id} is asked in other words"
                case {"feature": str(id), **rest} if rest.keys() <= {"text"} and _is_blank(rest.get("text")):
                    return _prompted(state, id, None), f"feature {id} is asked as usual"
                case _:
                    pass
        case _:
            pass
    raise InvalidRequest(f"it is not known: {_KNOWN}")


def _plain(value: object) -> dict[str, object]:
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


def _is_blank(text: object) -> bool:
    return text is None or (isinstance(text, str) and not text.strip())


def _look_up(state: FeatureState, feature_id: str) -> None:
    if not any(standing.feature_id == feature_id for standing in state.standings):
        raise InvalidRequest(f"feature {one_line(feature_id)!r} is not there: expected an id of the list")


def _prompted(state: FeatureState, feature_id: str, text: str | None) -> FeatureState:
    _look_up(state, feature_id)
    if text is not None and len(text) > MAX_PROMPT:
        raise InvalidRequest(f"its text is too long: expected at most {MAX_PROMPT} characters, was {len(text)}; shorten it")
    standings = (
        evolve(standing, prompt=text) if standing.feature_id == feature_id else standing for standing in state.standings
    )
    return evolve(state, standings=tuple(standings))
