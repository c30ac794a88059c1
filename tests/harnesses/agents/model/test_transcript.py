"""A transcript is stored and read back as it was said, is bounded, and sessions are put together from their turns."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.agents.model.messages import Message, ModelUsage, Role, Thinking, ToolCall, ToolResult
from harnesses.agents.model.transcript import (
    MAX_CHARACTERS,
    Compaction,
    ModelRound,
    Transcript,
    as_record,
    carried_on,
    from_record,
)
from harnesses.attachments import attachment, value_of
from harnesses.errors import HarnessMisuse

TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 10**9)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(Role),
    text=TEXTS,
    thinking=st.lists(st.builds(Thinking, text=TEXTS, proof=TEXTS), max_size=2).map(tuple),
    calls=st.lists(st.builds(ToolCall, id=TEXTS, name=TEXTS, arguments=TEXTS), max_size=2).map(tuple),
    results=st.lists(st.builds(ToolResult, call_id=TEXTS, name=TEXTS, text=TEXTS, is_error=st.booleans()), max_size=2).map(
        tuple
    ),
)
USAGES = st.builds(ModelUsage, input_tokens=COUNTS, output_tokens=COUNTS, cached_tokens=COUNTS)
ROUNDS = st.builds(
    ModelRound,
    message=COUNTS,
    model=TEXTS,
    usage=USAGES,
    cost=st.decimals(0, 1000, places=6),
    attempts=st.integers(1, 9),
    reason=TEXTS,
)
COMPACTIONS = st.builds(Compaction, message=COUNTS, reason=TEXTS, summary=TEXTS, tokens_before=COUNTS, tokens_after=COUNTS)
TRANSCRIPTS = st.builds(
    Transcript,
    agent=TEXTS,
    model=TEXTS,
    messages=st.lists(MESSAGES, max_size=4),
    scope=TEXTS,
    session=TEXTS,
    turn=st.integers(1, 9),
    stop_reason=TEXTS,
    error=TEXTS,
    rounds=st.lists(ROUNDS, max_size=2),
    compactions=st.lists(COMPACTIONS, max_size=2),
)


@given(TRANSCRIPTS)
def test_a_transcript_is_read_back_as_it_was_attached(transcript: Transcript) -> None:
    fields = value_of(attachment("transcript", as_record(transcript)))

    assert from_record(fields) == transcript
    assert (fields["cost"], fields["message_count"]) == (str(transcript.cost), len(transcript.messages))


def user(text: str) -> Message:
    return Message(role=Role.USER, text=text)


def test_the_longest_texts_of_a_transcript_that_is_too_large_are_cut() -> None:
    long = [user(letter * MAX_CHARACTERS) for letter in "ab"]
    said = Transcript(agent="a", model="m", messages=[user("short"), *long, user("also short")])

    read = from_record(value_of(attachment("transcript", as_record(said))))

    lengths = [len(message.text) for message in read.messages]
    assert (read.messages[0].text, read.messages[3].text) == ("short", "also short")
    assert lengths[1] == lengths[2] < MAX_CHARACTERS // 2 + 100
    assert read.messages[1].text.endswith("characters are left out)")


def test_what_is_no_transcript_is_told() -> None:
    with pytest.raises(ValueError, match="not the record of a transcript"):
        from_record({"agent": "a", "model": "m", "messages": "withheld"})


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(HarnessMisuse, match="transcript"):
        attachment("transcripts", {})


def turn(*messages: Message, **more: object) -> Transcript:
    return Transcript(agent="a", model="m", messages=[Message(role=Role.SYSTEM, text="rules"), *messages], **more)  # type: ignore[arg-type]


def test_a_session_goes_on_with_what_was_said_in_its_turns_without_system_prompts() -> None:
    turns = [turn(user("1"), user("2")), turn(user("3"))]

    assert [message.text for message in carried_on(turns)] == ["1", "2", "3"]


def test_a_session_goes_on_with_the_summary_of_its_last_compaction_and_what_was_said_after_it() -> None:
    compactions = [Compaction(message=2, reason="r", summary="first"), Compaction(message=3, reason="r", summary="last")]
    turns = [turn(user("1")), turn(user("2"), user("3"), user("4"), compactions=compactions), turn(user("5"))]

    assert [message.text for message in carried_on(turns)] == ["last", "4", "5"]


def test_totals_are_those_of_all_model_calls() -> None:
    usage = ModelUsage(input_tokens=10, output_tokens=3)
    rounds = [ModelRound(model="m", usage=usage, cost=Decimal("0.1")), ModelRound(model="n", usage=usage, cost=Decimal("0.2"))]

    said = turn(user("1"), rounds=rounds)

    assert (said.usage, said.cost) == (usage + usage, Decimal("0.3"))


def test_a_try_that_was_interrupted_is_made_again_as_if_it_had_not_begun() -> None:
    works = ("", "a:1", "a:1", "a:2")
    turns = [from_record(as_record(turn(user(str(at)), work=work))) for at, work in enumerate(works, 1)]

    assert [message.text for message in carried_on(turns, "a:3")] == ["1", "3", "4"]
    assert [message.text for message in carried_on(turns, "a:2")] == ["1", "3"]
    assert [message.text for message in carried_on(turns[:3], "a:1")] == ["1"]
