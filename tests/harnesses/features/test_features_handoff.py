"""Laws of the hand-off: the same state gives the same bytes, and no text in it can mark up or act."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from unicodedata import category

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harnesses.budgets.usage import Usage
from harnesses.features.feature import TurnResult, Verdict
from harnesses.features.feature_record import FeatureState
from harnesses.features.handoff_text import FORMAT, Rows, as_json, as_markdown
from harnesses.features.planning.state_changes import finish_turn, interrupt_run, open_run
from tests.harnesses.features.played import CUT, FAIL, NOW, PASS, begun, feature, played, unlimited, verdict

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
anything = st.text(st.characters(), max_size=200) | st.text("a1 \\`*_{}[]<>()#+-.!|~&$@:/=;\n\t", max_size=60)


def worked() -> FeatureState:
    state, _ = played(begun("a", "b", feature("c", depends_on="b")), unlimited(), [PASS, FAIL])
    return state


def with_text(text: str) -> FeatureState:
    """Return a state in which each text that can come from others is `text`."""
    state = open_run(begun("a", "b"), NOW)
    state = finish_turn(state, unlimited(), "a", result=TurnResult(message=text), verdict=verdict(True, text), now=NOW)
    state = finish_turn(state, unlimited(), "b", error=text, now=NOW)
    assert state.manifest is not None
    features = (evolve(state.features[0], description=text or "x", category=text), state.features[1])
    return evolve(state, features=features, manifest=evolve(state.manifest, current_objective=text, active_branch=text))


def structure(markdown: str) -> list[str]:
    """Return what a reader sees beside text: headings, lists, tables, links."""
    tokens = MARKDOWN.parse(markdown)
    return [child.type for token in tokens for child in (token, *(token.children or ())) if child.type != "text"]


def data(state: FeatureState, **how: Any) -> dict[str, Any]:
    read = json.loads(as_json(state, **how))
    assert isinstance(read, dict)
    return read  # pyright: ignore[reportUnknownVariableType]


def test_people_read_where_the_work_stands() -> None:
    text = as_markdown(worked())

    for part in (
        "* Objective: a clock",
        "* Branch: feature/initializer",
        "* Last known good commit: c0",
        "* Features: 3, of which 1 pending, 1 passed, 1 blocked",
        "| a | passed | 1 |  | all is well |  |",
        "| b | blocked | 1 |  | AssertionError: no |  |",
        "| c | pending | 0 |  |  |  |",
        "* Run 1, 2026-05-04 12:00:01+00:00: failed. feature b not validated; validated 1 feature, 1 remaining pending",
    ):
        assert part in text


def test_a_reviewer_reads_the_assertion_the_proof_the_cost_and_how_to_see_the_work() -> None:
    state = worked()
    proof = "TestsKept: 1 changed paths\nPytestNodes: `pytest a.py::test_a` with SEED=1\n1 passed in 3.2 s\npassed 3 times"
    failure = (
        "PytestNodes: `pytest b.py`\nb.py:3: in test_b\n    assert total() == 3\nE   assert 4 == 3\nb.py:3: AssertionError"
    )
    work = TurnResult(base="a" * 40, commit="b" * 40, usage=Usage(money=Decimal("0.25")))
    a, b, c = state.standings
    a = evolve(a, evidence=Verdict(passed=True, evidence=proof), accepted=work)
    text = as_markdown(evolve(state, standings=(a, evolve(b, last_failure=failure), c)))

    assert "| a | passed | 1 | USD 0.2500 | 1 passed in 3.2 s; passed 3 times | git diff aaaaaaaaaaaa bbbbbbbbbbbb |" in text
    assert "| b | blocked | 1 |  | assert 4 == 3 |  |" in text
    assert "&#96;" not in as_markdown(evolve(state, standings=(a, evolve(b, last_failure="`x` failed"), c)))


def test_agents_read_the_same_as_data() -> None:
    read = data(worked())

    assert (read["format"], read["session"], read["objective"]) == (FORMAT, "clock", "a clock")
    assert read["counts"] == {"pending": 1, "passed": 1, "blocked": 1}
    assert [one["id"] for one in read["features"]] == ["a", "b", "c"]
    assert read["runs"][0]["validated"] == ["a"]
    assert read["progress"][-1]["summary"] == read["runs"][0]["note"]


@pytest.mark.parametrize(
    ("state", "how", "said"),
    [
        (FeatureState(), {}, "nothing was initialised yet"),
        (begun("a", "b"), {}, "start again: features that are pending: 2, a among them"),
        (open_run(begun("a"), NOW), {}, "run 1 is open; if nobody works it, start again"),
        (played(begun("a", "b"), unlimited(), [PASS, PASS, CUT])[0], {}, "start again: what passes is judged anew"),
        (begun("a"), {"cut_off": "a"}, "work on feature a continues"),
        (worked(), {}, "blocked: b, and c cannot be worked before they pass"),
        (played(begun("a"), unlimited(), [PASS])[0], {}, "nothing: every feature that can pass does"),
    ],
)
def test_it_is_said_what_to_do_next(state: FeatureState, how: dict[str, Any], said: str) -> None:
    assert said in data(state, **how)["next"][0]
    assert said.split(",")[0] in as_markdown(state, **how)


def test_it_is_said_what_was_cut_off_and_how_the_program_ended() -> None:
    state = open_run(begun("a"), NOW)

    assert "* Ended: cancelled\n* Cut off: a;" in as_markdown(state, cut_off="a", ended="cancelled")
    assert data(state, cut_off="a", ended="cancelled")["cut_off"] == "a"


def test_a_run_that_was_interrupted_is_told_by_its_outcome() -> None:
    assert "interrupted: feature a was interrupted in try 1" in as_markdown(interrupt_run(begun("a"), "a", NOW))


def test_the_same_state_gives_the_same_bytes() -> None:
    assert as_markdown(worked()) == as_markdown(worked())
    assert as_json(worked()) == as_json(worked())


def test_rows_that_were_written_before_make_no_difference() -> None:
    rows, state = (Rows(), Rows()), begun(*(str(number) for number in range(9)))

    for word in (PASS, FAIL, PASS, PASS, FAIL, PASS):
        state, _ = played(state, unlimited(2), [word])
        assert as_markdown(state, rows=rows[0]) == as_markdown(state)
        assert as_json(state, rows=rows[1]) == as_json(state)


def test_rows_can_be_shared() -> None:
    rows, state = Rows(), worked()

    texts = [(as_markdown(state, rows=rows), as_json(state, rows=rows)) for _ in range(3)]

    assert set(texts) == {(as_markdown(state), as_json(state))}


@given(anything)
def test_no_text_changes_what_is_a_heading_a_list_a_table_or_a_link(text: str) -> None:
    assert structure(as_markdown(with_text(text), ended=text or "x")) == structure(as_markdown(with_text("x"), ended="x"))


@given(anything)
def test_a_hand_off_holds_no_control_characters(text: str) -> None:
    state = with_text(text)

    written = as_markdown(state, ended=text) + as_json(state, ended=text)

    assert not [character for character in written if category(character) in ("Cc", "Cs", "Zl", "Zp") and character != "\n"]
    assert set(as_json(state, ended=text)) <= {chr(code) for code in range(32, 127)} | {"\n"}


@given(anything)
def test_json_can_be_read_whatever_was_said(text: str) -> None:
    read = data(with_text(text), ended=text)

    json.dumps(read).encode()
    assert len(read["features"]) == 2
