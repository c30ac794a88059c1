"""`sound_answer`: a model's answer in a form that budgets can charge and every provider takes back. Pure.

    token counts     whole numbers from 0 to `MOST_TOKENS`; anything else counts as not reported, which is 0
    ids of calls     kept if they are well formed and new in the conversation; else `call_N`, counted over it
    names of tools   kept if they are well formed; else a form of them that no offered tool has

Invariants: the same answer to the same request is made sound in the same way. No id occurs twice in a conversation. A call is
of an offered tool only if the model has named it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import count

from attrs import evolve

from harnesses.agents.model.messages import ModelRequest, ModelResponse, ModelUsage, ToolCall, ToolCallDelta

MOST_TOKENS = 100_000_000
"""Higher counts of a single call are not believed; the largest context is 10 million tokens."""
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
"""Some servers want their dots and colons back; Anthropic's API is sent neither."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_SHOWN = 40


def counted(value: object) -> int:
    """Return a token count of a server; 0, as if it were not reported, for what cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else 0


def sound_answer(request: ModelRequest, response: ModelResponse, sound: SoundCalls | None = None) -> ModelResponse:
    """Return the answer to a request with its token counts, ids and names made sound.

    Args:
        sound: has made the streamed parts of its calls sound; None if none were streamed.
    """
    message = response.message
    calls = tuple((sound or SoundCalls(request)).calls(message.calls)) if message.calls else ()
    usage = _sound_usage(response.usage)
    if calls == message.calls and usage == response.usage:
        return response
    return evolve(response, usage=usage, message=evolve(message, calls=calls))


def _sound_usage(usage: ModelUsage) -> ModelUsage:
    read, written = counted(usage.input_tokens), counted(usage.output_tokens)
    cached = min(counted(usage.cached_tokens), read)
    return evolve(
        usage,
        input_tokens=read,
        output_tokens=written,
        cached_tokens=cached,
        cache_write_tokens=min(counted(usage.cache_write_tokens), read - cached),
        reasoning_tokens=min(counted(usage.reasoning_tokens), written),
    )


class SoundCalls:
    """The ids and names of the calls of one answer: the same in its streamed parts and in the answer."""

    def __init__(self, request: ModelRequest) -> None:
        self._known = {call.id for message in request.messages for call in message.calls}
        self._numbers = count(len(self._known) + 1)
        self._offered = {tool.name for tool in request.tools}
        self._streamed = dict[str, str]()

    def delta(self, event: ToolCallDelta) -> ToolCallDelta:
        """Return a streamed part with the id that its call has in the answer."""
        id = self._streamed.get(event.call_id)
        if id is None:
            id = self._streamed[event.call_id] = self._new_id(event.call_id)
        name = event.name and _sound_name(event.name, self._offered)
        return event if (id, name) == (event.call_id, event.name) else ToolCallDelta(id, name, event.arguments)

    def calls(self, calls: tuple[ToolCall, ...]) -> Iterator[ToolCall]:
        """Yield the calls of the answer; of several with one id, the first has been streamed."""
        streamed = dict(self._streamed)
        for call in calls:
            id = streamed.pop(call.id, "") or self._new_id(call.id)
            yield evolve(call, id=id, name=_sound_name(call.name, self._offered))

    def _new_id(self, given: str) -> str:
        is_kept = _ID.fullmatch(given) and given not in self._known
        id = given if is_kept else next(id for number in self._numbers if (id := f"call_{number}") not in self._known)
        self._known.add(id)
        return id


def _sound_name(name: str, offered: Collection[str]) -> str:
    if _NAME.fullmatch(name):
        return name
    form = re.sub(r"[^A-Za-z0-9_-]+", "_", name[:_MOST_SHOWN]).strip("_")
    return next(one for number in count() if (one := f"unknown{number or ''}_{form}".rstrip("_")) not in offered)
