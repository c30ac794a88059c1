"""Which pictures there are, and what draws each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests import ROOT
from tests.docs import step_picture
from tests.docs.architecture_pages import flow_picture, import_picture
from tests.docs.package_graph import CHAPTERS

PLACE = ROOT / "docs" / "pictures"
PICTURES: dict[str, Callable[[], str]] = {
    "life-of-a-step.svg": step_picture.draw,
    "data-flow.svg": flow_picture,
    **{f"{chapter.name}.svg": partial(import_picture, chapter) for chapter in CHAPTERS},
}


def draw_all() -> list[Path]:
    """Draw every picture, and return their paths."""
    for name, draw in PICTURES.items():
        (PLACE / name).write_text(draw(), encoding="utf-8")
    return [PLACE / name for name in PICTURES]
