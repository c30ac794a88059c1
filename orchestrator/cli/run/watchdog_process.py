"""Ends a program that has not ended in time after a signal, from outside. Linux; a process of its own, run by its path.

    program's C signal handler ──signals──► this process ──heard──► watchdog's thread, for Trio
                                                │ time is over
                                                ▼
                                             SIGKILL

Invariant: after a first SIGINT or SIGTERM the program is gone in time even if none of its threads can run: C code holds the
interpreter, or the program is stopped. The interpreter's handler writes to the pipe without holding the interpreter; a signal
that is blocked, or waits for a stopped program, is seen in /proc within a second.

It sees the program by a pidfd, so that it ends with it and never kills another process that has got its id. It heeds no
signal, has a session of its own, and none of the program's files but the pipes and standard error.
"""

from __future__ import annotations

import os
import select
import sys
import time

_signal = sys.modules["_signal"]  # the part in Python makes enumerations first, which takes 5 ms
_SIGINT, _SIGTERM, _SIGKILL = 2, 15, 9
_LOOK_S = 1.0
"""How often /proc is looked at."""


def main(arguments: list[str]) -> None:
    """Watch until the program has ended.

    Args:
        arguments: process id of the program; descriptors of the pipes, to read from and to write to; seconds from the first
            signal and from the second one; what to write to standard error first when the program is ended; the command that
            goes on with what is recorded.
    """
    program, signals, heard = (int(word) for word in arguments[:3])
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        alive = os.pidfd_open(program)
    except OSError:
        return
    if os.getppid() != program:
        return
    first, deadline = _watch(program, alive, signals, heard, float(arguments[3]), float(arguments[4]))
    if first and deadline:
        try:
            _say(arguments[5], first, arguments[6])
        finally:
            _signal.pidfd_send_signal(alive, _SIGKILL)


def _watch(program: int, alive: int, signals: int, heard: int, bound_s: float, again_s: float) -> tuple[int, bool]:
    """Return the first signal that came, 0 if none did, and whether the time after it is over."""
    poll = select.poll()
    poll.register(alive, select.POLLIN)
    poll.register(signals, select.POLLIN)
    first, deadline, waits = 0, 0.0, b""
    while True:
        now = time.monotonic()
        if first and now >= deadline:
            return first, True
        ready = dict(poll.poll(1000 * (min(_LOOK_S, deadline - now) if first else _LOOK_S)))
        if alive in ready:
            return first, False
        numbers = b""
        if signals in ready:
            numbers = os.read(signals, 512)
            try:  # noqa: SIM105  (the module would have to be imported)
                os.write(heard, numbers)
            except OSError:
                pass  # its thread has ended, or does not read: it is of no importance here
            if 0 in numbers and not first:
                return first, False
            # What was seen to wait has been delivered: that is no second signal.
            numbers, waits = numbers.replace(waits, b"", 1) if waits else numbers, b""
        elif not first:
            numbers = waits = _pending(program)[:1]
        for number in numbers:
            if number in (_SIGINT, _SIGTERM):
                now = time.monotonic()
                deadline = min(deadline, now + again_s) if first else now + bound_s
                first = first or number


def _pending(program: int) -> bytes:
    """Return which of the signals wait to be delivered to the program as a whole."""
    try:
        with open(f"/proc/{program}/status", "rb") as status:
            words = next((line.split() for line in status if line.startswith(b"ShdPnd:")), [b"", b"0"])
    except OSError:
        return b""
    mask = int(words[1], 16)
    return bytes(number for number in (_SIGINT, _SIGTERM) if mask >> (number - 1) & 1)


def _say(farewell: str, first: int, way_on: str) -> None:
    """Say why, if standard error takes it at once."""
    writer = os.fork()
    if writer == 0:
        # Whoever reads standard error may have stopped doing so.
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGALRM})
        _signal.alarm(1)
        after = "after SIGINT" if first == _SIGINT else "after SIGTERM"
        text = (
            f"{farewell}orchestrator: the program lets none of its threads run, {after}: ended by force, from outside; "
            f"what is recorded is safe, to go on: `{way_on}`\n"
        )
        os.write(2, text.encode(errors="replace"))
        os._exit(0)
    try:  # noqa: SIM105
        os.waitpid(writer, 0)
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
