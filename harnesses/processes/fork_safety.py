"""Fork safety: forked processes must not share the parent's file locks or continue its work.

A `flock` lock belongs to the open descriptor. A forked process, such as a `multiprocessing` worker, inherits the descriptor
and would hold the lock for as long as it lives, even after its parent was killed. `O_CLOEXEC` does not help, since such a
process never executes another program. Descriptors registered here are closed in every process that Python forks.
"""

from __future__ import annotations

import os
import select
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NoReturn

_EX_SOFTWARE = 70
_unshared: set[int] = set()
_loops: set[int] = set()
"""Descriptors of the event loops that run in this process."""


def keep_from_forks(descriptor: int) -> None:
    """Register a descriptor to be closed in forked processes. Close it with `close_unshared`."""
    _unshared.add(descriptor)


def close_unshared(descriptor: int) -> None:
    """Close a descriptor. In a forked process do nothing: it was closed there, and its number may have been reused."""
    if descriptor in _unshared:
        _unshared.discard(descriptor)
        os.close(descriptor)


def keep_for_ever(thing: object) -> None:
    """Keep an object from ever being finalized, even at exit: its finalizer in a forked process would act for the parent."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@contextmanager
def loop_kept_from_forks() -> Generator[None]:
    """Keep forked processes from this thread's event loop.

    They inherit the descriptor that Trio waits on. One whose loop goes on, if only for a pass, takes events
    of this program from it, which then waits for them for ever.
    """
    import trio._core._run  # Here, since commands that only read a store do without Trio.

    context = getattr(trio._core._run, "GLOBAL_RUN_CONTEXT", None)
    loop = getattr(getattr(getattr(context, "runner", None), "io_manager", None), "_epoll", None)
    if loop is None:  # Another system, whose descriptor is not inherited, or another version of Trio.
        yield
        return
    descriptor = loop.fileno()
    _loops.add(descriptor)
    try:
        yield
    finally:
        _loops.discard(descriptor)


def end_fork(what: str) -> NoReturn:
    """End this process, a fork of a running program that has returned into that program's code.

    It shares the descriptors of the program's event loop: unwinding would deregister them and stop the program itself.
    """
    with suppress(OSError):
        os.write(2, f"process {os.getpid()} was forked off a running program and is ended: {what}\n".encode())
    os._exit(_EX_SOFTWARE)


def _close_all() -> None:
    for descriptor in _unshared:
        with suppress(OSError):
            os.close(descriptor)
    _unshared.clear()
    for descriptor in _loops:
        with suppress(OSError), select.epoll() as own:
            os.dup2(own.fileno(), descriptor, inheritable=False)
    _loops.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
