"""A check list is read as a person means it; nothing open is passed over without a word."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.coding.sources import NothingToDo, parse_markdown
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.planning.feature_list import check_features


def read(text: str) -> tuple[Feature, ...]:
    return parse_markdown(text, "TODO.md").features


def ids(text: str) -> list[str]:
    return [feature.id for feature in read(text)]


def refusal(text: str) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_markdown(text, "TODO.md")
    return str(caught.value).removeprefix("InvalidRequest: ")


@pytest.mark.parametrize(
    "line",
    [
        "- [ ] Read dates",
        "* [ ] Read dates",
        "+ [ ] Read dates",
        "1. [ ] Read dates",
        "12) [ ] Read dates",
        "   - [ ] Read dates",
        "-\t[ ]\tRead dates",
        "-[ ] Read dates",
        "- [] Read dates",
        "- [ ]Read dates",
        "[ ] Read dates",
        "- [ ] Read dates\r",
        "- [ ]   Read  dates  ",
        "- Group\n  - [ ] Read dates",
        "- [ ] Read\n  dates",
        "- [ ] Read\ndates",
    ],
)
def test_an_open_box_is_a_feature(line: str):
    assert read(line) == (Feature("read-dates", "Read dates", steps=("Read dates",)),)


@pytest.mark.parametrize(
    "text",
    [
        "- [x] done",
        "- [X] done",
        "* [✓] done",
        "- plain",
        "- [1] a reference",
        "- [a](http://example.org)",
        "- [](http://example.org)",
        "[x]: http://example.org",
        "- [ ] ~~given up~~",
        "- [ ]",
        "- [ ] ",
        "text - [ ] within text",
        "> - [ ] quoted",
        "```\n- [ ] code\n```",
        "~~~~ python\n- [ ] code\n~~~\n- [ ] code\n~~~~",
        "<!-- - [ ] hidden -->",
        "<!--\n- [ ] hidden\n-->",
        "# Heading\n\n    - [ ] code",
        "`- [ ] code`",
        "---\nx:\n- [ ] about the file\n---",
        "| a | - [ ] b |",
    ],
)
def test_what_is_no_open_item_is_no_feature(text: str):
    assert ids(f"{text}\n\n# Then\n\n- [ ] the only one") == ["the-only-one"]


def test_what_belongs_to_an_item_are_its_steps():
    text = "- [ ] Read dates\n  - [ ] ISO\n  * [x] RFC\n\n    1. plain\n       wrapped\n  - ~~no more~~\n- [ ] Next"

    assert [feature.steps for feature in read(text)] == [("ISO", "RFC", "plain wrapped"), ("Next",)]


@pytest.mark.parametrize("indent", ["  ", "   ", "    ", "\t"])
def test_people_indent_as_they_like(indent: str):
    assert read(f"1. [ ] Read dates\n{indent}- ISO\n{indent}{indent}- deep")[0].steps == ("ISO", "deep")


def test_one_column_is_an_unsteady_hand():
    assert ids("- [ ] one\n - [ ] two") == ["one", "two"]


def test_paragraphs_that_belong_to_an_item_are_the_rest_of_its_description():
    text = "- [ ] Read dates\n\n  Of all kinds,\n  and soon.\n\n  - step\n\n    more of it\n\nno more of it\n"

    feature = read(text)[0]

    assert (feature.description, feature.steps) == ("Read dates\n\nOf all kinds, and soon.", ("step more of it",))


def test_code_within_an_item_ends_with_the_item():
    assert ids("- [ ] one\n  ```\n  - [ ] code\n- [ ] two\n") == ["one", "two"]


def test_a_comment_within_a_line_is_cut_out():
    assert ids("- [ ] one <!-- soon --> more\n- [ ] `<!--` is read <!-- until\nhere --> end") == ["one-more", "is-read-end"]


def test_an_open_item_below_a_done_one_is_a_feature():
    assert ids("- [x] done\n  - [ ] left over\n    - step\n  - [x] done too") == ["left-over"]


@pytest.mark.parametrize("heading", ["# Parser", "### Parser ###", "Parser\n======", "Parser\n---", "# Other\n\n## Parser"])
def test_the_nearest_heading_is_the_category(heading: str):
    assert [feature.category for feature in read(f"- [ ] a\n\n{heading}\n- [ ] b")] == ["functional", "Parser"]


def test_a_line_between_paragraphs_is_no_heading():
    assert read("- [ ] a\n\n---\n\n- [ ] b")[1].category == "functional"


@pytest.mark.parametrize(
    "text",
    [
        "Read it (id: it)",
        "(id: `it`) Read it",
        "Read it {#it}",
        "Read it #it",
        "Read it #it (optional)",
        "{#it} Read it !high",
    ],
)
def test_an_id_that_is_given_is_kept(text: str):
    feature = read(f"- [ ] {text}")[0]

    assert (feature.id, feature.description) == ("it", "Read it")


@pytest.mark.parametrize(
    "text", ["Fix crash (#12)", "Fix #12", "Fix `x (id: y)`", "Speak C# well", "Go to [x](y#z)", "Write (note: now)"]
)
def test_what_looks_like_a_mark_and_is_none_is_text(text: str):
    assert read(f"- [ ] {text}")[0].description == text


@pytest.mark.parametrize("mark", ["(after: a, b)", "(depends: a,b)", "(Depends on: #a, #b)", "(needs: a) (requires: b)"])
def test_what_an_item_waits_for_is_said_in_brackets(mark: str):
    assert read(f"- [ ] A #a\n- [ ] B #b\n- [ ] C {mark}")[2].depends_on == ("a", "b")


def test_what_is_done_is_met():
    assert read("- [x] A #a\n- [ ] B #b (after: a)")[0].depends_on == ()


@pytest.mark.parametrize(
    ("mark", "priority"),
    [
        ("!urgent", 2),
        ("!High", 1),
        ("!low", -1),
        ("(priority: 7)", 7),
        ("(priority: -2)", -2),
        ("(priority: high)", 1),
        ("wow!", 0),
    ],
)
def test_how_urgent_an_item_is(mark: str, priority: int):
    assert read(f"- [ ] A {mark}")[0].priority == priority


def test_without_an_optional_item_the_work_is_complete():
    assert [feature.required for feature in read("- [ ] a (Optional)\n- [ ] b")] == [False, True]


def test_an_id_is_made_of_the_text_whatever_its_markup():
    texts = [
        "Read `dates`, **fast**",
        "read [dates](http://example.org) fast",
        "Read dates - fast! (optional)",
        "READ _dates_ fast",
    ]

    assert {ids(f"- [ ] {text}")[0] for text in texts} == {"read-dates-fast"}


def test_the_id_of_a_long_text_is_cut_and_still_its_own():
    one, other = ids("- [ ] " + "word " * 40 + "one\n- [ ] " + "word " * 40 + "other")

    assert one != other
    assert len(one) <= 50
    assert one.startswith("word-word-")


@pytest.mark.parametrize("text", ["???", "→", "…"])
def test_a_text_without_words_has_an_id_too(text: str):
    assert ids(f"- [ ] {text}")[0].startswith("item-")


def test_letters_of_all_languages_make_ids():
    assert ids("- [ ] Größe prüfen\n- [ ] 日付を読む") == ["grösse-prüfen", "日付を読む"]


def test_items_of_one_text_are_told_apart_by_their_headings():
    text = "# A\n- [ ] Tests\n# B\n- [ ] Tests\n- [ ] Tests\n- [ ] Other (id: b-tests-2)"

    assert ids(text) == ["tests", "b-tests", "tests-2", "b-tests-2"]


def test_an_id_does_not_change_when_another_item_is_done():
    text = "# A\n- [ ] Tests\n  - [ ] Tests\n# B\n- [ ] Tests"

    assert ids(text) == ["tests", "b-tests"]
    assert ids(text.replace("- [ ] Tests", "- [x] Tests", 1)) == ["a-tests", "b-tests"]


def test_an_id_that_is_given_is_never_taken_by_a_text():
    assert ids("- [ ] Tests\n- [ ] Other (id: tests)") == ["tests-2", "tests"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is nothing to do: expected at least one open item (- [ ] text), was none; add one"),
        (
            "- [x] a\n- [x] b",
            "there is nothing to do: expected at least one open item (- [ ] text), was 2 that are done; add one",
        ),
        ("- [ ] a\n- [ ] b (after: aa)", "line 2 'b': depends on 'aa': expected the id of a feature of this list"),
        ("- [ ] a #x\n- [ ] b #x", "line 2 'b': id 'x' is also used by line 1 'a': expected a unique id; rename one"),
        ("- [ ] a (id: x) #y", "line 1: expected at most one id, was x, y; keep one"),
        ("- [ ] a !high (priority: 2)", "line 1: expected at most one priority, was 2, 1; keep one"),
        (
            "- [ ] a (priority: soon)",
            "line 1: priority: expected a whole number or one of urgent, high, normal, low, was 'soon'",
        ),
        ("- [ ] a (prioritty: 2)", "line 1: unknown mark (prioritty: …): expected one of id, after, depends, depends_on"),
        ("- [ ] a !hgih", "line 1: unknown mark !hgih: expected one of !urgent, !high, !normal, !low; did you mean !high?"),
        ("- [ ] a (id: b c)", "line 1: expected an id without spaces, commas and brackets, was 'b c'; "),
        ("- [ ] (id: b)", "line 1: expected a text after the box, was none; say what is to be done"),
        ("- [ ]\n  - [ ] below", "line 1: expected a text after the box, was none; say what is to be done"),
        (f"- [ ] {'a ' * 2001}", "line 1: expected a text of at most 4000 characters, was 4001; put the details into"),
        ("- [/] a", "line 1: expected [ ] or [x] before 'a', was [/]; say if it is done"),
        ("- [ ] a\n```\n- [ ] b", "line 2: code block is never closed: expected ``` after it; add it"),
        ("- [ ] a\n<!--\n- [ ] b", "line 2: comment is never closed: expected --> after it; add it"),
        ("- [ ] a (after: b)\n- [ ] b (after: a)", "features depend on each other: 'a' → 'b' → 'a': expected dependencies"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, told: str):
    assert refusal(text).startswith(f"TODO.md: {told}")


def test_all_mistakes_are_told_at_once_in_order():
    lines = refusal("- [ ] a (after: c)\n- [/] b\n- [ ] d !hgih").splitlines()

    assert lines[0] == "TODO.md has 3 mistakes:"
    assert [line.split(":")[0].split("'")[0].strip() for line in lines[1:]] == ["line 1", "line 2", "line 3"]


def test_a_list_that_is_all_done_can_be_told_from_a_mistake():
    with pytest.raises(NothingToDo):
        parse_markdown("- [x] a", "TODO.md")


@pytest.mark.parametrize(
    "text",
    ["# " + " " * 300_000 + "x", "- [ ] a\n" + "more\n" * 200_000, "<!---->" * 100_000, "`" * 300_000, "- [ ] a\n" * 20_000],
)
def test_a_large_file_is_read_in_time(text: str):
    began = time.process_time()

    with suppress(InvalidRequest):
        parse_markdown(text, "TODO.md")

    assert time.process_time() - began < 20


@given(st.text("[] x-*1.#`<!->(){}:id~\n\t a\r\u2028é\0", max_size=60))
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_is_a_list_that_can_be_worked_or_refused(text: str):
    with suppress(InvalidRequest):
        features = read(text)
        assert check_features(features) == features


LINES = st.lists(
    st.sampled_from(["# A", "# B", "- [ ] a", "- [ ] b", "  - [ ] a", "  - c", "- [x] b", "- [ ] c #a"]), max_size=8
)


@given(LINES, st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_to_tick_an_item_off_leaves_the_ids_of_the_others(lines: list[str], number: int):
    ticked = [line.replace("[ ]", "[x]") if place == number else line for place, line in enumerate(lines)]
    with suppress(InvalidRequest):
        before, after = (dict(zip(at(each), ids("\n".join(each)), strict=True)) for each in (lines, ticked))
        assert {line: id for line, id in after.items() if line in before} == {
            line: id for line, id in before.items() if line in after
        }


def at(lines: list[str]) -> list[int]:
    """Return the lines of the features of a list that has no steps with a box below open items but by indentation."""
    found, open_above = list[int](), False
    for place, line in enumerate(lines):
        if line.startswith(("- ", "#")):
            open_above = line.startswith("- [ ]")
        if "[ ]" in line and (line.startswith("- ") or not open_above):
            found.append(place)
    return found


@pytest.mark.parametrize("deep", [51, 1_500])
def test_items_within_one_another_without_end_are_refused(deep: int):
    text = "".join(f"{'  ' * one}- [ ] x{one}\n" for one in range(deep))

    with pytest.raises(InvalidRequest, match="line 51: expected items nested at most 50 deep"):
        parse_markdown(text, "TODO.md")
