"""What is on record of an event reads back as it was, also by who knows only an earlier form of it."""

from __future__ import annotations

import msgspec

from orchestrator.codec import encode
from orchestrator.events import Started


def test_a_start_says_how_far_a_harness_looks_back_only_if_that_is_unusual() -> None:
    assert encode(Started()) == '{"after_step":0}'
    assert encode(Started(3, 500)) == '{"after_step":3,"max_context_steps":500}'
    for event in (Started(), Started(3, 500)):
        assert msgspec.json.decode(encode(event), type=Started) == event
