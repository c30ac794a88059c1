"""Pictures say what is seen, whatever was recorded: nothing, one step, a storm, a hundred harnesses, hostile names."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("vl_convert")

from orchestrator.analysis import Run
from orchestrator.analysis.pictures import DRAWN, PICTURES, Picture, picture, pictures, save_pictures
from orchestrator.errors import UsageError
from tests.orchestrator.analysis.picturing import BEGIN, Diary, crashing, listed, marks, traded, turn

PLAIN = [name for name in DRAWN if name != "comparison"]
HOSTILE = (
    "<script>alert(1)</script>",
    "a" * 500,
    "a" * 499 + "b",
    "]]>&amp;\"'`${x}",
    "\u202eturned\u202c",
    "שלום עולם",
    "🙂🙃",
    "line\nfeed\x1b[31m\x00",
    "datum.value + '",
    "",
    "[0]['at'].b",
)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "steps.jsonl")


@pytest.fixture
def busy(diary: Diary) -> Run:
    """Every kind of harness, so that every picture has something to show."""
    diary.life("plain", 20)
    crashing(diary, "shaky", 3)
    listed(diary, "coder", 0.5, ["a", "b", "c"])
    for step, (feature, status) in enumerate((("a", "passed"), ("b", "not_validated"), ("b", "passed")), start=2):
        turn(diary, "coder", float(step), step, feature, status)
    for step in range(1, 30):
        traded(diary, "trader", step, step, BEGIN + timedelta(days=step), 1000 + step, 0.01 * (step % 3))
    return diary.open()


def words(drawn: Picture) -> str:
    return "\n".join(ElementTree.fromstring(drawn.svg()).itertext())


@pytest.mark.parametrize("name", PLAIN)
def test_a_picture_of_nothing_says_that_there_is_nothing(diary: Diary, name: str) -> None:
    drawn = picture(diary.open(), name)

    assert re.search(r"\b(no|nothing)\b", drawn.title, re.I)
    assert "nothing to draw" in words(drawn)


@pytest.mark.parametrize("name", PLAIN)
def test_every_picture_shows_a_run_in_which_there_is_everything(busy: Run, name: str) -> None:
    drawn = picture(busy, name)

    assert "nothing to draw" not in words(drawn)
    assert drawn.title in words(drawn).replace("\n", " ")


@pytest.mark.parametrize("name", PLAIN)
def test_every_picture_is_good_vega_lite(busy: Run, name: str) -> None:
    altair = pytest.importorskip("altair")

    chart = altair.Chart.from_dict(picture(busy, name).spec)

    assert chart.to_dict(validate=True)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("every_s", [1e-6, 1e-4, 1.0, 3e6])
def test_a_span_of_microseconds_and_one_of_years_are_drawn(diary: Diary, name: str, every_s: float) -> None:
    diary.life("one", 8, every_s=every_s)

    svg = picture(diary.open(), name).svg()

    assert "NaN" not in svg
    assert "undefined" not in svg


@pytest.mark.parametrize("name", PLAIN)
def test_one_step_is_drawn(diary: Diary, name: str) -> None:
    diary.steps("one", 1)

    drawn = picture(diary.open(), name)

    assert "NaN" not in drawn.svg()


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_is_text_and_never_markup_and_no_two_are_one(diary: Diary, name: str) -> None:
    for place, hostile in enumerate(HOSTILE):
        crashing(diary, hostile, 1 + place % 2)
        diary.steps(hostile, 3, attempt=3)

    svg = picture(diary.open(), name).svg()

    assert not re.search(r"<script|[\x00-\x08\x1b\u202a-\u202e]", svg)
    assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_names_that_begin_alike_have_rows_of_their_own(diary: Diary) -> None:
    for last in "abc":
        diary.life("x" * 100 + last, 3)
    for middle in "abc":
        diary.life("x" * 100 + middle + "x" * 100, 3)

    spec = picture(diary.open(), "timeline").spec

    assert len(set(spec["encoding"]["y"]["sort"])) == 6


@pytest.mark.parametrize("name", ["timeline", "latency", "shares", "throughput", "restarts"])
def test_a_hundred_harnesses_are_shown_and_of_more_it_is_said_who_is_left_out(diary: Diary, name: str) -> None:
    for number in range(103):
        diary.say("started", f"h{number}", 0)
        diary.steps(f"h{number}", 3 + number % 5, every_s=0.1)
        diary.say("failed", f"h{number}", 2, error="E", cause="")

    drawn = picture(diary.open(), name)

    assert "3 harnesses of 103 left out" in drawn.notes[-1]
    assert len(set(re.findall(r">(h\d+)<", drawn.svg()))) == 100


@pytest.fixture(scope="module")
def vast(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """More of everything than a picture has room for."""
    diary = Diary(tmp_path_factory.mktemp("vast") / "steps.jsonl")
    listed(diary, "coder", 0.5, [str(number) for number in range(8_000)])
    for step in range(8_000):
        turn(diary, "coder", step, step + 2, str(step), "not_validated" if step % 3 else "passed")
        traded(diary, "trader", step, step + 1, BEGIN + timedelta(hours=step), 1000 + step % 77, 0.01)
    crashing(diary, "storm", 3_000)
    return diary.open()


@pytest.mark.parametrize("name", PLAIN)
def test_a_picture_has_a_bounded_number_of_marks(vast: Run, name: str) -> None:
    drawn = picture(vast, name)

    assert marks(drawn.spec) < 12_000
    assert len(drawn.svg()) < 700_000


def test_a_restart_map_shows_a_storm_as_one_cross_with_its_number(diary: Diary) -> None:
    crashing(diary, "storm", 500, every_s=0.01)

    drawn = picture(diary.open(), "restarts")

    assert "storm crashed 500 times in 501 attempts" in drawn.title
    assert marks(drawn.spec["layer"][2]) <= 61


def test_a_burn_up_falls_where_a_feature_falls_back(diary: Diary) -> None:
    listed(diary, "coder", 0, ["a", "b"])
    for step, (feature, status) in enumerate((("a", "passed"), ("b", "passed"), ("a", "set_back")), start=2):
        turn(diary, "coder", step, step, feature, status)

    drawn = picture(diary.open(), "progress")

    assert drawn.title == "1 of 2 features pass after 2 tries; 1 of them fell back"


def test_the_title_of_equity_says_what_the_account_came_to(diary: Diary) -> None:
    for step, equity in enumerate((1000, 1200, 900, 1100), start=1):
        traded(diary, "trader", step, step, BEGIN + timedelta(days=step), equity, max(0, 1 - equity / 1200))

    drawn = picture(diary.open(), "equity")

    assert drawn.title == "+10.00%: from 1,000.00 to 1,100.00, at most 25.00% below the highest"


def test_one_harness_is_drawn_alone_when_asked_for(busy: Run) -> None:
    drawn = picture(busy, "timeline", harness="shaky")

    assert drawn.spec["encoding"]["y"]["sort"] == ["shaky"]


def test_two_runs_are_compared_by_harness(diary: Diary, tmp_path: Path) -> None:
    other = Diary(tmp_path / "other.jsonl")
    diary.life("a", 10, every_s=1.0)
    other.life("a", 10, every_s=2.0)

    drawn = picture(diary.open(), "comparison", other=other.open())

    assert drawn.title == "Of 1 harness 1 slower and 0 faster; most of all a, slower: 900 ms before, 1.8 s now"


@pytest.mark.parametrize(
    ("name", "harness", "complaint"),
    [
        ("pie", None, "'pie' is not known: expected one of timeline"),
        ("timeline", "nobody", "'nobody' is not in"),
        ("comparison", None, "needs a second run"),
    ],
)
def test_what_can_not_be_drawn_is_refused_with_what_to_do(busy: Run, name: str, harness: str | None, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        picture(busy, name, harness=harness)


def test_every_question_with_pictures_names_some_that_there_are() -> None:
    assert {name for names in PICTURES.values() for name in names} == set(DRAWN)


def test_a_question_that_is_better_read_has_no_picture(busy: Run) -> None:
    assert pictures(busy, "loops") == []


def test_pictures_are_written_by_the_ending_of_their_names(busy: Run, tmp_path: Path) -> None:
    written = [save_pictures(busy, "progress", tmp_path / "new" / "folder", format) for format in ("svg", "png", "json")]

    names = [[path.name for path in paths] for paths in written]
    assert names == [[f"progress.{ending}", f"equity.{ending}"] for ending in ("svg", "png", "json")]
    assert written[1][0].read_bytes().startswith(b"\x89PNG")


def test_an_ending_that_is_no_picture_is_refused(busy: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a name that ends with \.svg, \.png, \.json, was 'timeline\.gif'"):
        save_pictures(busy, "timeline", tmp_path, "gif")


def test_a_notebook_is_handed_svg(busy: Run) -> None:
    shown = picture(busy, "timeline")._repr_mimebundle_()

    assert shown["image/svg+xml"].startswith("<svg")


def test_of_several_pictures_those_with_nothing_to_show_are_left_out(diary: Diary) -> None:
    traded(diary, "trader", 1, 1, BEGIN, 1000, 0)

    drawn = pictures(diary.open(), "progress")

    assert [one.name for one in drawn] == ["equity"]


@pytest.mark.parametrize(("every_s", "unit"), [(0.1, "a second"), (10, "a minute"), (3e5, "a year")])
def test_slow_runs_are_counted_by_the_minute_or_by_the_year(diary: Diary, every_s: float, unit: str) -> None:
    diary.life("one", 20, every_s=every_s)

    assert f"steps {unit} on average" in picture(diary.open(), "throughput").title


def test_what_is_said_of_a_storm_counts_what_is_not_drawn_too(vast: Run) -> None:
    drawn = picture(vast, "restarts")

    assert drawn.title == "storm crashed 3,000 times in 3,001 attempts"
    assert "2,000 of 3,001 attempts are drawn" in drawn.notes[0]


def test_a_picture_holds_no_secret(diary: Diary) -> None:
    diary.say("started", "one", 0)
    diary.say("failed", "one", 1, error="KeyError", cause="no sk-ant-api03-" + "A" * 90)

    drawn = picture(diary.open(), "failures")

    assert "KeyError" in words(drawn)
    assert "AAAA" not in drawn.svg()


def test_an_account_that_began_with_nothing_is_drawn(diary: Diary) -> None:
    for step in range(1, 4):
        traded(diary, "poor", step, step, BEGIN + timedelta(days=step), 0, 0)
        traded(diary, "rich", step, step, BEGIN + timedelta(days=step), 1000 * step, 0)

    assert "+200.00% (rich) to +0.00%" in picture(diary.open(), "equity").title
