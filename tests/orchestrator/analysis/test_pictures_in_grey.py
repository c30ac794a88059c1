"""What a colour says is not lost in grey: neighbours differ in lightness, lines in their dashes, signs in their shapes."""

from __future__ import annotations

import io
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vl_convert")
pytest.importorskip("PIL")

from PIL import Image

from harnesses.charts.chart_theme import SHADES, STEPS
from orchestrator.analysis.pictures import DRAWN, picture
from orchestrator.analysis.pictures.bar_pictures import PARTS as COSTS
from orchestrator.analysis.pictures.bar_pictures import TIMES as SHARES
from orchestrator.analysis.pictures.chart_layers import STYLES
from orchestrator.analysis.pictures.picture_tables import SIGNS
from tests.orchestrator.analysis.picturing import Diary, crashing, lightness, widest_parts

APART = 0.1
"""Of the way from black to white: less is hard to tell where two meet."""


@pytest.mark.parametrize("colours", [STEPS, tuple(SHARES.values()), tuple(COSTS.values())])
def test_neighbours_in_a_bar_differ_in_lightness(colours: tuple[str, ...]) -> None:
    steps = [after - before for before, after in pairwise(map(lightness, colours))]

    assert min(steps) >= APART * 0.65
    assert lightness(colours[-1]) - lightness(colours[0]) > 0.5


def test_the_shades_behind_an_account_differ_in_lightness() -> None:
    shades = [*map(lightness, SHADES.values()), 1.0]

    assert min(after - before for before, after in pairwise(shades)) >= APART * 0.65


def test_lines_differ_in_their_dashes_too() -> None:
    assert all(one != other for (_, one), (_, other) in combinations(STYLES, 2))


def test_each_end_of_an_attempt_has_a_shape_of_its_own() -> None:
    assert len({sign.shape for sign in SIGNS.values()}) == len(SIGNS)


def test_the_parts_of_a_bar_are_told_apart_in_the_grey_picture(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    took = {"work": 600_000, "agent": 200_000, "effects": 100_000, "waiting": 100_000, "commit": 150_000, "held": 150_000}
    diary.say("started", "one", 0)
    diary.say("step", "one", 1, step=1, input=1, output=1, took_us=took)

    png = picture(diary.open(), "shares").png(1)

    parts = widest_parts(png)
    assert len(parts) == 6
    assert min(abs(after - before) for before, after in pairwise(parts)) >= 15


def test_a_picture_is_the_same_in_grey_but_for_its_colours(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    diary.life("calm", 30)
    crashing(diary, "shaky", 2)

    image = Image.open(io.BytesIO(picture(diary.open(), "timeline").png(1))).convert("L")

    low, high = image.getextrema()
    assert low < 60
    assert high == 255


@pytest.mark.parametrize("name", [name for name in DRAWN if name != "comparison"])
def test_text_is_text_and_its_font_is_one_that_readers_have(tmp_path: Path, name: str) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    crashing(diary, "shaky", 2)
    diary.steps("shaky", 3, attempt=3)

    svg = picture(diary.open(), name).svg()

    assert "<text" in svg
    assert "sans-serif" in svg


def test_a_long_picture_is_a_png_of_bounded_size(tmp_path: Path) -> None:
    diary = Diary(tmp_path / "steps.jsonl")
    for number in range(100):
        diary.life(f"h{number}", 2)

    drawn: Any = Image.open(io.BytesIO(picture(diary.open(), "timeline").png(20)))

    assert max(drawn.size) <= 8_100
