"""A reader of a hand-off file sees a whole one, and nothing else is left in its directory."""

from __future__ import annotations

import os
import stat

import pytest

from harnesses.features.handoff_files import write_files


async def test_files_are_written_in_a_directory_that_is_made(tmp_path):
    await write_files(tmp_path / "a" / "b", {"one": "1\n", "two": "2\n"})

    assert {path.name: path.read_text() for path in (tmp_path / "a" / "b").iterdir()} == {"one": "1\n", "two": "2\n"}


async def test_others_may_read_them(tmp_path):
    await write_files(tmp_path, {"one": "1"})

    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o644


async def test_who_has_the_old_file_open_reads_all_of_it(tmp_path):
    await write_files(tmp_path, {"one": "old" * 10_000})
    with (tmp_path / "one").open() as old:
        begin = old.read(3)

        await write_files(tmp_path, {"one": "new"})

        assert begin + old.read() == "old" * 10_000
    assert (tmp_path / "one").read_text() == "new"


async def test_a_link_that_is_in_the_place_is_replaced_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    os.symlink(tmp_path / "elsewhere", tmp_path / "one")

    await write_files(tmp_path, {"one": "new"})

    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (tmp_path / "one").is_symlink()


async def test_what_can_not_be_written_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "x").write_text("in the way")

    with pytest.raises(OSError, match="one"):
        await write_files(tmp_path, {"one": "new"})

    assert [path.name for path in tmp_path.iterdir()] == ["one"]


async def test_text_that_utf8_can_not_say_is_written_out(tmp_path):
    await write_files(tmp_path, {"one": "\ud800"})

    assert (tmp_path / "one").read_text() == "\\ud800"
