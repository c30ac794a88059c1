"""Hooks and observers are told in order, on a thread of their own: they can neither break nor delay a run."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

from harnesses.features import NoHooks
from harnesses.features.loop.observers import ObserverThread
from tests.harnesses.features.worked import harness, passing


def test_calls_are_made_in_order_on_another_thread():
    aside, told, done = ObserverThread(), [], threading.Event()

    for number in range(100):
        aside.notify(lambda number=number: told.append((number, threading.current_thread())))
    aside.notify(done.set)

    assert done.wait(10)
    assert [number for number, _ in told] == list(range(100))
    assert {thread for _, thread in told} != {threading.current_thread()}


def test_what_they_raise_is_logged_and_the_next_one_is_told(caplog):
    aside, done = ObserverThread(), threading.Event()

    def fails(error):
        raise error

    with caplog.at_level(logging.WARNING):
        aside.notify(fails, ValueError("odd"))
        aside.notify(fails, SystemExit(3))
        aside.notify(done.set)
        assert done.wait(10)

    assert aside.counts.failed == 2
    assert "ValueError: odd" in caplog.text


def test_telling_waits_for_nobody_and_what_is_too_much_is_dropped_and_counted():
    aside, go, begun = ObserverThread(limit=2), threading.Event(), threading.Event()

    aside.notify(lambda: (begun.set(), go.wait(10)))
    assert begun.wait(10)
    for _ in range(5):
        aside.notify(list)
    aside.close()
    go.set()

    assert aside.counts.dropped == 3


def test_nothing_is_begun_for_nobody():
    before = threading.active_count()

    ObserverThread().close()

    assert threading.active_count() == before


def test_what_waits_is_told_before_the_program_ends():
    program = (
        "import time; from harnesses.features.loop.observers import ObserverThread; aside = ObserverThread()\n"
        "aside.notify(time.sleep, 0.2); aside.notify(print, 'told'); aside.close()"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout == "told\n"


def test_a_program_ends_although_an_observer_does_not():
    program = (
        "import threading; from harnesses.features.loop.observers import ObserverThread; aside = ObserverThread()\n"
        "aside.notify(threading.Event().wait); aside.close()"
    )

    # The observer waits for ever: any end is the program's own.
    subprocess.run([sys.executable, "-c", program], timeout=120, check=True)


class Hanging(NoHooks):
    """Hooks that never return."""

    def on_phase_start(self, phase, harness, run):
        threading.Event().wait()


class Failing(NoHooks):
    """Hooks that fail."""

    def on_phase_start(self, phase, harness, run):
        raise ValueError("odd")


async def test_hooks_that_hang_do_not_delay_a_run(autojump_clock):
    work = harness(hooks=Hanging())

    await work.run()

    assert passing(work.state) == "abc"


async def test_hooks_that_fail_do_not_break_a_run(autojump_clock):
    work = harness(hooks=Failing())

    await work.run()

    assert passing(work.state) == "abc"


async def test_an_observer_that_hangs_does_not_delay_a_turn(autojump_clock):
    work = harness(stream=True, observer=lambda assignment, event: threading.Event().wait())

    await work.run()

    assert passing(work.state) == "abc"
