"""Ends the program by force when it has not ended in time after a signal.

    signal ──► wakeup descriptor ──► watchdog's process ──► watchdog's thread ──► Trio's wakeup descriptor
                                          │ time is over          │ time is over
                                          ▼                       ▼
                                       SIGKILL               names what did not end, `os._exit`

Invariant: after a first SIGINT or SIGTERM the program is gone within `bound_s`, after a second one within `again_s`, with the
signal's exit code, whatever a harness does. A blocked loop runs no handler, so the thread takes the signals' numbers from
the descriptor that the interpreter writes them to. Where no thread runs, since C code holds the interpreter or the program is
stopped, the process ends it `OUTSIDE_S` later (`watchdog_process`; Linux). If that is killed, the thread continues alone.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from orchestrator.cli.exit_codes import of_signal
from orchestrator.cli.std_streams import say
from orchestrator.runtime.actor import Actor
from orchestrator.text.terminal_text import one_line

_HEEDED = (signal.SIGINT, signal.SIGTERM)
_CLOSE = b"\0"
"""No signal has that number."""
OUTSIDE_S = 0.5
"""How much longer the process waits than the thread, which can say more."""
_PROCESS = Path(__file__).with_name("watchdog_process.py")
_HAS_PROCESS = sys.platform == "linux" and hasattr(os, "pidfd_open")
_LOOKS, _BETWEEN_S = 5, 0.02
"""How often it is looked who blocks the loop: one look would blame whoever is having a step recorded just then."""
_LAST_WORDS_S = 1.0
"""For the message: whoever reads standard error may have stopped doing so."""


class Watchdog:
    """Watches from `open`, which must be called in the main thread within `trio.run`, to `close`.

    Args:
        bound_s: seconds from the first signal.
        again_s: seconds from the second one.
        unfinished: names what has not ended; called in the watchdog's thread.
        farewell: is written to standard error before the message, to give the terminal back.
        way_on: the command that goes on with what is recorded.
    """

    def __init__(
        self,
        *,
        bound_s: float,
        again_s: float = 5.0,
        unfinished: Callable[[], Sequence[str]],
        farewell: str = "",
        way_on: str = "orchestrator run FILE",
    ) -> None:
        self.first: int | None = None
        """The first signal that came, if one did."""
        self._bound_s = bound_s
        self._again_s = again_s
        self._unfinished = unfinished
        self._farewell = farewell
        self._way_on = way_on
        self._deadline: float | None = None
        self._passing_on = threading.Lock()
        self._trios = -1
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._heard: int | None = None
        """What the process has heard; None if there is none."""
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Take over the wakeup descriptor from Trio."""
        if _HAS_PROCESS:
            self._start_process()
        self._trios = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="orchestrator-watchdog", daemon=True).start()

    def close(self) -> None:
        """Give the wakeup descriptor back. After a signal the watch goes on: the interpreter's end may hang too."""
        with self._passing_on:
            signal.set_wakeup_fd(self._trios, warn_on_full_buffer=False)
            self._trios = -1
        os.write(self._writing, _CLOSE)

    def _start_process(self) -> None:
        self._heard, heard = os.pipe()
        os.set_blocking(heard, False)
        words = [sys.executable, "-I", "-S", "-B", str(_PROCESS), *map(str, (os.getpid(), self._reading, heard))]
        bounds = [str(self._bound_s + OUTSIDE_S), str(self._again_s + OUTSIDE_S), self._farewell, self._way_on]
        try:
            self._process = subprocess.Popen(
                [*words, *bounds],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(self._reading, heard),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            say(f"orchestrator: no watchdog process ({error}): a program that C code holds would not be ended by a signal")
            os.close(self._heard)
            self._heard = None
        finally:
            os.close(heard)

    def _next(self) -> bytes:
        """Return what the handler has written next; nothing if the time is over."""
        while True:
            source = self._reading if self._heard is None else self._heard
            poll = select.poll()
            poll.register(source, select.POLLIN)
            if not poll.poll(self._patience_ms()):
                return b""
            if numbers := os.read(source, 64):
                return numbers
            # The process was killed.
            os.close(source)
            self._heard = None

    def _watch(self) -> None:
        while True:
            if not (numbers := self._next()):
                self._end_by_force()
            self._pass_on(numbers)
            for number in numbers:
                if number in _HEEDED:
                    self._note(number)
            if _CLOSE in numbers and self.first is None:
                for descriptor in (self._reading, self._writing, self._heard):
                    if descriptor is not None:
                        os.close(descriptor)
                if self._process is not None:
                    self._process.wait()
                return

    def _patience_ms(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic()) * 1000

    def _note(self, number: int) -> None:
        now = time.monotonic()
        if self.first is None or self._deadline is None:
            self.first, self._deadline = number, now + self._bound_s
            # From another thread: whoever holds the terminal must not hold the watchdog.
            text = f"orchestrator: the program ends within {self._bound_s + OUTSIDE_S:g} s, by force if need be"
            threading.Thread(target=say, args=(text,), daemon=True).start()
        else:
            self._deadline = min(self._deadline, now + self._again_s)

    def _pass_on(self, numbers: bytes) -> None:
        with self._passing_on, suppress(OSError):
            if self._trios != -1:
                os.write(self._trios, numbers)

    def _end_by_force(self) -> None:
        """Say who would not end, and end the program. What is recorded is safe, as after `kill -9`."""
        assert self.first is not None
        text = f"{self._farewell}orchestrator: {self._message()}\n"
        words = threading.Thread(target=_write, args=(text,), daemon=True)
        words.start()
        words.join(_LAST_WORDS_S)
        os._exit(of_signal(self.first))

    def _message(self) -> str:
        return f"{self._who()} would not end: ended by force; what is recorded is safe, to go on: `{self._way_on}`"

    def _who(self) -> str:
        held = _holder()
        if held is not None and all(_holds_still(held) for _ in range(_LOOKS)):
            return held
        # The dictionary behind it may change while another thread goes through it.
        with suppress(RuntimeError):
            names = self._unfinished()
            if names:
                return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return "the program"


def _holds_still(held: str) -> bool:
    """Return whether who blocked the loop does so a moment later, wherever in its code."""
    time.sleep(_BETWEEN_S)
    now = _holder()
    return now is not None and now.rpartition(" at ")[0] == held.rpartition(" at ")[0]


def _holder() -> str | None:
    """Return who blocks the loop and where; None if it waits as it should."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)  # pyright: ignore[reportPrivateUsage]
    if frame is None or "trio" in str(frame.f_globals.get("__name__")).split("."):
        return None
    place = f"{one_line(frame.f_code.co_filename)}:{frame.f_lineno}"
    while frame is not None:
        if isinstance(actor := frame.f_locals.get("self"), Actor):
            return f"harness {actor.name!r}, which blocks the loop at {place},"
        frame = frame.f_back
    return f"the program, blocked at {place},"


def _write(text: str) -> None:
    with suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))
