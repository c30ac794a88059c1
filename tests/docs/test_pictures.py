"""The pictures of `docs/pictures` are what is drawn anew from the code and from a run."""

from __future__ import annotations

import pytest

from tests.docs.pictures import PICTURES, PLACE


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_is_drawn_anew(name: str) -> None:
    drawn = PICTURES[name]()

    assert (PLACE / name).read_text(encoding="utf-8") == drawn, "draw it anew: python -m tests.docs"
