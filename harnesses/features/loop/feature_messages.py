"""Messages with which people control a running feature harness.

    {"unblock": "id"}                                  the feature becomes pending again, with all its tries
    {"unblock": "*"}                                   so does every blocked feature
    {"block": "id", "reason": "…"}                     the feature is no longer worked
    {"prompt": {"feature": "id", "text": "…"}}         sets the feature's prompt, of at most 20,000 characters; without text,
                                                       restores the default prompt

Invariant: every message gets a short answer; a message that cannot be followed changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import cast

import trio
from attrs import define, evolve, field

from harnesses.features.agent_text import one_line
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import FeatureStatus
from harnesses.features.feature_record import FeatureState
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.planning.state_changes import block, unblock
from harnesses.features.run_policy import RunPolicy

MAX_PROMPT = 20_000
"""Maximum characters of a prompt set by message, because it is part of the state."""
_KNOWN = (
    'expected {"unblock": "id"}, {"unblock": "*"}, '
    '{"block": "id", "reason": "…"} or {"prompt": {"feature": "id", "text": "…"}}'
)
_MAX_MESSAGES = 100
"""Maximum messages processed in one step."""


@define
class FeatureMessages:
    """Receives messages, which are processed with the next step.

    Args:
        receive: returns the next message, or raises `trio.WouldBlock`.
        workplace: processes its own kinds of messages at once.
    """

    receive: Callable[[], object]
    workplace: Workplace
    policy: RunPolicy
    _waiting: list[object] = field(factory=list[object], init=False)
    _answers: list[str] = field(factory=list[str], init=False)

    async def hear(self, state: FeatureState) -> FeatureState:
        """Receive the new messages; return the state after those that the workplace has processed."""
        while len(self._waiting) + len(self._answers) < _MAX_MESSAGES:
            try:
                message = self.receive()
            except trio.WouldBlock:
                break
            followed = await self.workplace.follow(state, message)
            if followed is None:
                self._waiting.append(message)
            else:
                state, answer = followed
                self._answers.append(answer)
        return state

    def has_news(self) -> bool:
        """Return whether there are messages to process or to answer with the next step."""
        return bool(self._waiting or self._answers)

    def follow(self, state: FeatureState, now: datetime) -> tuple[FeatureState, list[str]]:
        """Return the state after the received messages, and an answer for each."""
        answers, self._answers = self._answers, []
        messages, self._waiting = self._waiting, []
        for message in messages:
            state, answer = follow_message(state, self.policy, message, now)
            answers.append(answer)
        return state, answers


def follow_message(state: FeatureState, policy: RunPolicy, order: object, now: datetime) -> tuple[FeatureState, str]:
    """Return the state after a message, and its answer."""
    try:
        return _follow(state, policy, order, now)
    except InvalidRequest as error:
        return state, f"order {one_line(repr(order))} was not followed: {error}"


def _follow(state: FeatureState, policy: RunPolicy, order: object, now: datetime) -> tuple[FeatureState, str]:
    match _plain(order):
        case {"unblock": "*", **rest} if not rest and not any(one.feature_id == "*" for one in state.standings):
            return _unblock_all(state, now)
        case {"unblock": str(id), **rest} if not rest:
            _look_up(state, id)
            return unblock(state, id, now), f"feature {id} is unblocked"
        case {"block": str(id), **rest} if rest.keys() <= {"reason"}:
            _look_up(state, id)
            return block(state, policy, id, str(rest.get("reason", "")), now), f"feature {id} is blocked"
        case {"prompt": inner, **rest} if not rest:
            match _plain(inner):
                case {"feature": str(id), "text": str(text), **rest} if not rest and text.strip():
                    return _set_prompt(state, id, text), f"feature {id} has a new prompt"
                case {"feature": str(id), **rest} if rest.keys() <= {"text"} and _is_blank(rest.get("text")):
                    return _set_prompt(state, id, None), f"feature {id} has the default prompt again"
                case _:
                    pass
        case _:
            pass
    raise InvalidRequest(f"unknown message: {_KNOWN}")


def _unblock_all(state: FeatureState, now: datetime) -> tuple[FeatureState, str]:
    ids = [one.feature_id for one in state.standings if one.status is FeatureStatus.BLOCKED]
    if not ids:
        raise InvalidRequest("no feature is blocked: expected a blocked one to unblock, was none; leave it")
    for id in ids:
        state = unblock(state, id, now)
    return state, f"{len(ids)} features are unblocked" if len(ids) > 1 else f"feature {ids[0]} is unblocked"


def _plain(value: object) -> dict[str, object]:
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


def _is_blank(text: object) -> bool:
    return text is None or (isinstance(text, str) and not text.strip())


def _look_up(state: FeatureState, feature_id: str) -> None:
    if not any(standing.feature_id == feature_id for standing in state.standings):
        raise InvalidRequest(f"feature {one_line(feature_id)!r} does not exist: expected an id of the list")


def _set_prompt(state: FeatureState, feature_id: str, text: str | None) -> FeatureState:
    _look_up(state, feature_id)
    if text is not None and len(text) > MAX_PROMPT:
        raise InvalidRequest(f"its text is too long: expected at most {MAX_PROMPT} characters, was {len(text)}; shorten it")
    standings = (
        evolve(standing, prompt=text) if standing.feature_id == feature_id else standing for standing in state.standings
    )
    return evolve(state, standings=tuple(standings))
