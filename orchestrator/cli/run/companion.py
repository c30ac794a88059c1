"""Processes beside a run: the page and the one that tells people. They see the run from outside, and outlive its end."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from orchestrator.cli.verb_options import Count

Until = Annotated[Count | None, Parameter(show=False)]
"""The process whose end is the end of the run; only companions are given it."""
_STDERR = 2


def start_companion(*words: str) -> subprocess.Popen[bytes]:
    """Start a verb as a process beside this one; what it prints goes to standard error. Ctrl-C does not reach it."""
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrator", *words, "--until", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        start_new_session=True,
    )


def end_of(process: int | None) -> Callable[[], bool]:
    """Return what tells whether a process has ended; without one, nothing ever has."""
    if process is None:
        return lambda: False
    try:
        pidfd = os.pidfd_open(process)
    except ProcessLookupError:
        return lambda: True
    except (OSError, AttributeError):
        return lambda: os.getppid() != process
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return lambda: bool(poll.poll(0))
