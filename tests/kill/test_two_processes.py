"""G8: two processes cannot append to one harness; who loses it stops with a clear error, and its steps stay unbroken."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lives import History, Life

FOR_EVER = 1_000_000


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "run.db")


@pytest.fixture
def lives() -> Iterator[list[Life]]:
    """Give a list of processes, all of which are ended afterwards."""
    started: list[Life] = []
    yield started
    for life in started:
        if life.process.poll() is None:
            life.kill()
            life.process.wait()


def test_a_second_process_is_refused_and_the_first_goes_on(history: History, lives: list[Life]) -> None:
    first = Life(history.store, "--only=fields", steps=FOR_EVER)
    lives.append(first)
    first.listen(until=b"fields 3\n")

    refused = Life(history.store, "--only=fields", steps=FOR_EVER).end()
    heard = len(first.acknowledged)
    first.listen(0.2)
    first.kill()
    first.end()

    assert refused.code == 1
    assert "is owned elsewhere" in refused.errors
    assert f"process {first.process.pid} runs it" in refused.errors
    assert len(first.acknowledged) > heard
    history.add(first)
    history.verify(["fields"])


def test_who_is_taken_over_while_asleep_stops_with_ownership_lost(history: History, lives: list[Life]) -> None:
    # Paced, so that it is stopped between two commits: within one it would hold the write lock.
    first = Life(history.store, "--only=fields", "--only=tree", "--pace=0.4", steps=FOR_EVER)
    lives.append(first)
    first.listen(until=b"fields 2\n")
    first.listen(0.2)
    first.process.send_signal(signal.SIGSTOP)
    second = Life(history.store, "--only=fields", "--take-over", "--pace=0.01", steps=FOR_EVER)
    lives.append(second)
    second.listen(until=b"fields 9\n")

    first.process.send_signal(signal.SIGCONT)
    first.listen(10.0, until=b"tree 4\n")
    second.listen(0.2)
    first.process.send_signal(signal.SIGINT)
    end = first.end()
    second.kill()
    second.end()

    assert ("tree", 4) in first.acknowledged
    assert end.code == 1
    assert "another run has taken this harness over" in end.errors
    assert [step for name, step in first.acknowledged if name == "fields"] == [1, 2]
    history.add(first)
    history.add(second)
    assert history.verify(["fields", "tree"])["fields"] >= 9


def test_of_two_that_come_at_once_for_a_dead_ones_harness_one_gets_it(history: History, lives: list[Life]) -> None:
    dead = Life(history.store, "--only=fields", steps=FOR_EVER)
    lives.append(dead)
    dead.listen(until=b"fields 3\n")
    dead.kill()
    dead.end()

    both = [Life(history.store, "--only=fields", "--pace=0.01", steps=FOR_EVER) for _ in range(2)]
    lives += both
    ended = [False, False]
    while not any(ended):
        ended = [life.listen(0.2) for life in both]
    for life in both:
        life.kill()
    errors = [life.end().errors for life in both]

    assert sorted(ended) == [False, True]
    assert "is owned elsewhere" in errors[ended.index(True)]
    for life in (dead, both[ended.index(False)]):
        history.add(life)
    history.verify(["fields"])


def test_two_processes_run_different_harnesses_side_by_side(history: History, lives: list[Life]) -> None:
    one = Life(history.store, "--only=fields", "--only=tree", steps=300)
    other = Life(history.store, "--only=growing", "--only=window", steps=300)
    lives += [one, other]

    codes = [one.end().code, other.end().code]

    assert codes == [0, 0]
    history.add(one)
    history.add(other)
    assert history.verify() == {"fields": 300, "tree": 300, "growing": 300, "window": 300}
