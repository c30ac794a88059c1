"""The head never goes back, and is always as long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import StoreCorrupt
from orchestrator.store.integrity.chain_head import LENGTH, Head, Noted, begin_head, head_path, read_head

HASH = "a" * 64


@pytest.fixture
def store(tmp_path: Path) -> Path:
    begin_head(tmp_path / "run.db", Noted(1, 0, HASH))
    return tmp_path / "run.db"


@pytest.fixture
def head(store: Path) -> Iterator[Head]:
    head = Head(store)
    yield head
    head.close()


def test_it_says_what_was_noted_last(head: Head, store: Path) -> None:
    head.write(Noted(2, 10, HASH))

    assert head.read() == read_head(head_path(store).read_text()) == Noted(2, 10, HASH)


def test_it_never_goes_back(head: Head) -> None:
    head.write(Noted(7, 10, HASH))

    head.write(Noted(6, 9, HASH))

    assert head.read() == Noted(7, 10, HASH)


def test_it_is_always_as_long(head: Head, store: Path) -> None:
    for noted in (Noted(2, 3, HASH), Noted(1 << 62, 1 << 62, HASH)):
        head.write(noted)
        assert head_path(store).stat().st_size == LENGTH


def test_many_that_write_at_once_leave_the_newest(store: Path) -> None:
    def write(first: int) -> None:
        head = Head(store)
        for position in range(first, 100, 4):
            head.write(Noted(position, position, HASH))
        head.close()

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert read_head(head_path(store).read_text()).position == 99


@pytest.mark.parametrize("text", ["[]", "{", '{"position": "1", "last_seq": 0, "hash": ""}', "null", '{"position": 1}'])
def test_one_that_was_changed_from_outside_is_told_and_left_as_it_is(head: Head, store: Path, text: str) -> None:
    head_path(store).write_text(text)

    with pytest.raises(StoreCorrupt, match=r"cannot be read back: .* run `orchestrator verify`"):
        head.read()
    head.write(Noted(9, 9, HASH))

    assert head_path(store).read_text() == text
