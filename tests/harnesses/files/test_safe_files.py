"""A key is made once, whole, and for its user alone."""

from __future__ import annotations

import stat
from pathlib import Path
from threading import Thread

import pytest

from harnesses.files.safe_files import KEY_BYTES, key_in, make_key


def test_a_key_that_is_there_stays(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    first = (tmp_path / "key").read_text()

    make_key(tmp_path / "key")

    assert (tmp_path / "key").read_text() == first
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_of_many_who_make_it_at_once_all_find_the_same(tmp_path: Path) -> None:
    found: list[bytes] = []

    def make() -> None:
        make_key(tmp_path / "key")
        found.append(key_in((tmp_path / "key").read_text()))

    threads = [Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("text", ["", "00", "zz" * KEY_BYTES, "00" * (KEY_BYTES + 1)])
def test_what_is_no_key_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="hexadecimal"):
        key_in(text)
