"""Which part of a conversation a summary replaces."""

from __future__ import annotations

from harnesses.agents.chat.compaction import first_kept
from harnesses.agents.model.messages import Message, Role

SAID = [Message(role=Role.USER, text="x" * 40) for _ in range(10)]


def test_a_further_summary_begins_no_earlier_than_the_last_one_has_ended():
    for window in (1, 100, 1_000_000):
        assert first_kept(SAID, window, least=7) >= 7
    assert first_kept(SAID, 1_000_000, least=7) == 7
    assert first_kept(SAID, 1_000_000) == 1
