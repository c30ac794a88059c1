"""Which pictures there are, and what draws each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests import ROOT
from tests.docs import step_picture

PLACE = ROOT / "docs" / "pictures"
PICTURES: dict[str, Callable[[], str]] = {"life-of-a-step.svg": step_picture.draw}


def draw_all() -> list[Path]:
    """Draw every picture, and return their paths."""
    for name, draw in PICTURES.items():
        (PLACE / name).write_text(draw(), encoding="utf-8")
    return [PLACE / name for name in PICTURES]
