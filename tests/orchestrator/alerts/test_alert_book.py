"""The book: what lasts is told once, what was not taken is told again, and nothing is lost when the process is killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.alerts.alert_book import QUIET_S, Book, book_path, read_book, the_only_one
from orchestrator.alerts.alert_facts import Fact
from orchestrator.errors import UsageError

S = 1_000_000
FACT = Fact("blocked", "blocked", "eurusd", "attempt 1", "is blocked", "no network")
DESK = {"t1": "mailto://desk"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def book(store: Path) -> Iterator[Book]:
    with closing(Book(book_path(store))) as book:
        yield book


def look(book: Book, at_s: float, *facts: Fact, again_s: float | None = None) -> None:
    for number in book.note(facts, round(at_s * S)).values():
        book.want(number, DESK, round(at_s * S), again_s)


def due(book: Book, at_s: float) -> list[str]:
    return [alert.harness for alert in book.due("t1", round(at_s * S), 100)]


def tell(book: Book, at_s: float) -> int:
    alerts = book.due("t1", round(at_s * S), 100)
    book.sent("t1", alerts)
    return len(alerts)


def test_what_lasts_is_told_once_and_again_only_if_wanted(book: Book) -> None:
    told = 0
    for at_s in range(0, 100, 2):
        look(book, at_s, FACT)
        told += tell(book, at_s)
    assert told == 1


def test_what_comes_back_soon_in_the_same_attempt_is_the_same_alert_and_later_or_in_another_attempt_a_new_one(
    book: Book,
) -> None:
    again = Fact("blocked", "blocked", "eurusd", "attempt 2", "is blocked")
    looks = [(0.0, FACT), (2.0, None), (4.0, FACT), (6.0, None), (10.0 + QUIET_S, FACT), (12.0 + QUIET_S, again)]
    told = list[int]()
    for at_s, fact in looks:
        look(book, at_s, *([fact] if fact else []))
        told.append(tell(book, at_s))
    assert told == [1, 0, 0, 0, 1, 1]


def test_a_killed_process_tells_again_what_it_had_not_marked(store: Path) -> None:
    with closing(Book(book_path(store))) as book:
        look(book, 0, FACT)
        assert due(book, 0) == ["eurusd"]  # and is killed while it sends
    with closing(Book(book_path(store))) as book:
        look(book, 2, FACT)
        assert tell(book, 2) == 1
    with closing(Book(book_path(store))) as book:
        look(book, 4, FACT)
        assert due(book, 4) == []


def test_what_was_not_taken_is_due_again_after_pauses_that_double(book: Book, store: Path) -> None:
    look(book, 0, FACT)
    from harnesses.timing.clock import now_s

    for pause_s in (5, 10, 20):
        book.failed("t1", book.due("t1", 2**62, 10), "no route")
        assert due(book, now_s() + pause_s - 2) == []
        assert due(book, now_s() + pause_s + 1) == ["eurusd"]
    (told,) = read_book(store)
    assert (told.tries, told.error, told.sent_us, told.shown) == (3, "no route", None, "mailto://desk")
    assert book.pending({"t1"}) == 1


def test_again_s_tells_what_lasts_anew(book: Book) -> None:
    from harnesses.timing.clock import now_s

    began = now_s()
    told = list[int]()
    for after_s in (0, 50, 101, 102):
        look(book, began + after_s, FACT, again_s=100)
        told.append(tell(book, began + after_s))
    assert told[:3] == [1, 0, 1]


def test_one_process_tells(store: Path) -> None:
    with the_only_one(store) as first, the_only_one(store) as second:
        assert (first, second) == (True, False)
    with the_only_one(store) as third:
        assert third


def test_the_book_is_its_owners_and_another_file_is_refused(book: Book, store: Path, tmp_path: Path) -> None:
    assert book_path(store).stat().st_mode & 0o77 == 0
    other = tmp_path / "text.txt"
    other.write_text("no database, but a text that is longer than a header of SQLite would be: " * 20)
    with pytest.raises(UsageError, match="cannot be used as the book of alerts"):
        Book(other)


def test_a_secret_in_a_cause_is_not_kept(book: Book, store: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    look(book, 0, Fact("blocked", "blocked", "eurusd", "attempt 1", "is blocked", f"token {secret} was refused"))
    assert secret not in read_book(store)[0].alert.cause
    assert secret.encode() not in b"".join(path.read_bytes() for path in store.parent.glob("run.db*"))
