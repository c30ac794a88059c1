"""The state after some steps, by applying one delta after the other: what every quicker way has to come to."""

from __future__ import annotations

from collections.abc import Iterable

from harnesses.data.delta import apply_to_state
from orchestrator.codec import decode, encode_private


def replay(state: str, bodies: Iterable[str]) -> str:
    """Return the JSON of the state after the steps with these bodies, from the state before them."""
    deltas = [delta for body in bodies if (delta := decode(body)["delta"])]
    if not deltas:
        return state
    data = decode(state)
    for delta in deltas:
        data = apply_to_state(data, delta)
    return encode_private(data)
