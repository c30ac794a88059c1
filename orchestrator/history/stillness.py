"""Nothing is run: neither a program is started nor a connection opened by whoever is asked within `still()`.

How it is known: Python itself reports both, before it does them, to audit hooks (PEP 578), and a hook that raises prevents it.
It sees what goes through Python; what a library in C does by itself is not seen, nor is a process that `multiprocessing`
spawns (forks, and a fork server, are). The hook stays for good, since there is no
way to take one away, and does nothing but where the context says so: other tasks and threads go on as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from orchestrator.errors import UsageError

_RUNS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "pty.spawn",
        "socket.connect",
        "socket.sendto",
        "subprocess.Popen",
    }
)
_wanted: ContextVar[list[str] | None] = ContextVar("wanted", default=None)
"""What those who are asked have wanted to run; None where running is nobody's business."""


@contextmanager
def still(who: str) -> Generator[None]:
    """Refuse to run anything, for this task, until it is left.

    Raises:
        UsageError: somebody wanted to, also if they have caught what they got for it.
    """
    _watch()
    wanted: list[str] = []
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)
        if wanted:
            raise UsageError(_refusal(who, wanted[0])) from None


def _refusal(who: str, what: str) -> str:
    return (
        f"{who} wanted to run something: {what}; expected a judge that only looks, for nothing is run when steps are re-judged"
    )


@cache
def _watch() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in _RUNS:
        wanted = _wanted.get()
        if wanted is not None:
            wanted.append(f"{event} {args[:2]!r:.200}")
            raise UsageError(f"nothing is run when steps are re-judged: {event} was refused")
