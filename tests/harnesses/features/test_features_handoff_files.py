"""A reader of a hand-off file sees a whole one, and nothing else is left in its directory."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime

import pytest
import trio

from harnesses.features import InvalidRequest
from harnesses.features.loop.feature_shutdown import HandoffFiles, write_all
from harnesses.features.planning.feature_list import add_progress
from tests.harnesses.features.played import begun


def test_files_are_written_in_a_directory_that_is_made(tmp_path):
    write_all(tmp_path / "a" / "b", {"one": "1\n", "two": "2\n"})

    assert {path.name: path.read_text() for path in (tmp_path / "a" / "b").iterdir()} == {"one": "1\n", "two": "2\n"}


def test_others_may_read_them(tmp_path):
    write_all(tmp_path, {"one": "1"})

    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o644


def test_who_has_the_old_file_open_reads_all_of_it(tmp_path):
    write_all(tmp_path, {"one": "old" * 10_000})
    with (tmp_path / "one").open() as old:
        begin = old.read(3)

        write_all(tmp_path, {"one": "new"})

        assert begin + old.read() == "old" * 10_000
    assert (tmp_path / "one").read_text() == "new"


def test_a_link_that_is_in_the_place_is_replaced_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("mine")
    os.symlink(tmp_path / "elsewhere", tmp_path / "one")

    write_all(tmp_path, {"one": "new"})

    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (tmp_path / "one").is_symlink()


def test_what_can_not_be_written_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "x").write_text("in the way")

    with pytest.raises(OSError, match="one"):
        write_all(tmp_path, {"one": "new"})

    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_text_that_utf8_can_not_say_is_written_out(tmp_path):
    write_all(tmp_path, {"one": "\ud800"})

    assert (tmp_path / "one").read_text() == "\\ud800"


def at(moment: str):
    return add_progress(begun("a"), moment, datetime(2026, 5, 4, tzinfo=UTC))


def shown(directory) -> str:
    return json.loads((directory / "HANDOFF.json").read_text())["progress"][-1]["summary"]


async def test_in_the_middle_of_a_run_they_are_written_once_a_second_at_most(tmp_path, autojump_clock):
    files = HandoffFiles(tmp_path, "work")
    seen = []

    for moment in ("first", "second", "third", "fourth"):
        await files.show(at(moment))
        seen.append(shown(tmp_path))
        await trio.sleep(0.6)

    assert seen == ["first", "first", "third", "third"]


async def test_what_is_to_be_seen_at_once_is(tmp_path, autojump_clock):
    files = HandoffFiles(tmp_path, "work")
    await files.show(at("first"))

    await files.show(at("second"), at_once=True)

    assert shown(tmp_path) == "second"


async def test_a_write_that_comes_late_does_not_put_back_what_was_there(tmp_path):
    files = HandoffFiles(tmp_path, "work")
    await files.show(at("new"), at_once=True)

    files.write(0, {"HANDOFF.json": "old"})

    assert shown(tmp_path) == "new"


async def test_a_directory_of_another_harness_is_refused(tmp_path):
    with HandoffFiles(tmp_path, "clock") as files:
        await files.show(at("first"))

    with pytest.raises(InvalidRequest, match=r"'other'.*'clock'"), HandoffFiles(tmp_path, "other"):
        pass
    with HandoffFiles(tmp_path, "clock"):
        pass


def test_a_directory_that_another_harness_uses_is_refused_before_there_are_files(tmp_path):
    with HandoffFiles(tmp_path / "new", "one"):
        with pytest.raises(InvalidRequest, match=r"'two'.*'one'"), HandoffFiles(tmp_path / "new", "two"):
            pass

    with HandoffFiles(tmp_path / "new", "two"):
        pass


@pytest.mark.parametrize("text", ["", "[1]", '{"session": 5}', "\xff"])
def test_a_file_that_says_nothing_of_a_harness_is_replaced(tmp_path, text):
    (tmp_path / "HANDOFF.json").write_text(text, encoding="latin-1")

    with HandoffFiles(tmp_path, "work"):
        pass
