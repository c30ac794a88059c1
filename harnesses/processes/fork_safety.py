"""What a forked process must not share with its parent: descriptors of files that the parent has locked, and its work.

A lock of `flock` belongs to whoever has the descriptor. A forked process, such as a worker of `multiprocessing`, inherits it,
and would hold the lock for as long as it lives, also when its parent has been killed. `O_CLOEXEC` takes effect when another
program is executed, which such a process never does. What is registered here is closed in every process that Python forks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NoReturn

_EX_SOFTWARE = 70
_unshared: set[int] = set()


def keep_from_forks(descriptor: int) -> None:
    """Have a descriptor closed in forked processes. Let go of it with `close_unshared`."""
    _unshared.add(descriptor)


def close_unshared(descriptor: int) -> None:
    """Close a descriptor; in a forked process, where it was closed and its number may be another's by now, do nothing."""
    if descriptor in _unshared:
        _unshared.discard(descriptor)
        os.close(descriptor)


def keep_for_ever(thing: object) -> None:
    """Keep an object from ever being finalized, at the interpreter's end too: it would do so in another's name."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def end_fork(what: str) -> NoReturn:
    """End this process, which was forked off a running program and goes on with that program's code.

    It shares the descriptors of the program's loop: to unwind, and so to deregister them, would stop the program itself.
    """
    with suppress(OSError):
        os.write(2, f"process {os.getpid()} was forked off a running program and is ended: {what}\n".encode())
    os._exit(_EX_SOFTWARE)


def _close_all() -> None:
    for descriptor in _unshared:
        with suppress(OSError):
            os.close(descriptor)
    _unshared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
