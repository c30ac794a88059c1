"""Nothing that acts on who shows a text is left in it, and JSON means the same without it."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from harnesses.agents.scripted_agent import _add, _Recorded  # pyright: ignore[reportPrivateUsage]
from harnesses.diagnostics.control_characters import inert, inert_json
from harnesses.pipeline.run_folder.folder_text import as_json
from harnesses.pipeline.stage_work import as_text
from orchestrator.kill_switch import Latch

_UNSEEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}
_STAY = "\t\n"
ACTIVE = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in _UNSEEN and chr(code) not in _STAY]
_SEEN_CF = {"\u0600", "\u0601", "\u0602", "\u0603", "\u0604", "\u0605", "\u06dd", "\u070f", "\u0890", "\u0891", "\u08e2"}
"""Marks of numbers and verses in Arabic and Syriac: they are seen, though they are format characters."""
_SEEN_CF |= {"\U000110bd", "\U000110cd", *map(chr, range(0x13430, 0x13440))}
TRICK = "".join(one for one in ACTIVE if not 0xD800 <= ord(one) < 0xE000)


def test_every_character_that_acts_or_is_not_seen_is_written_out() -> None:
    left = {one for one in ACTIVE if one in inert(f"a{one}b")}

    assert left <= _SEEN_CF
    assert inert("tab\tand\nline, né, 漢字, 👍🏽") == "tab\tand\nline, né, 漢字, 👍🏽"


def test_json_without_them_means_the_same() -> None:
    text = inert_json(json.dumps({"said": TRICK}, ensure_ascii=False))

    assert json.loads(text) == {"said": TRICK}
    assert inert(text) == text


def written(folder: Path) -> list[str]:
    """Return what is written, wherever text of an agent or a person goes into a JSON file."""
    latch = Latch(folder / "run.db")
    latch.put_on("a", reason=TRICK)
    assert latch.which()["a"]["reason"] == TRICK
    _add(folder / "attempts.json", TRICK, _Recorded(message=TRICK))
    files = [*latch.folder.iterdir(), folder / "attempts.json"]
    return [*(file.read_text(encoding="utf-8") for file in files), as_json({"goal": TRICK}), as_text({"summary": TRICK})]


@pytest.mark.parametrize("place", range(4))
def test_no_file_of_ours_carries_them(tmp_path: Path, place: int) -> None:
    text = written(tmp_path)[place]

    assert {one for one in ACTIVE if one in text} - _SEEN_CF == set()
