"""Of a dictionary with a limit the newest values are kept, and a value that is put again is a new one."""

from __future__ import annotations

from harnesses.data.newest import keep_newest


def test_the_newest_are_kept_and_what_is_put_again_is_new() -> None:
    known: dict[str, int] = {}

    for number, key in enumerate("abcad"):
        keep_newest(known, key, number, 3)

    assert list(known.items()) == [("c", 2), ("a", 3), ("d", 4)]
