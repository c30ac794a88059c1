"""Following a run from outside: looking at its store now and then, until no program runs on it.

Only the store is read, so the run is not disturbed. SIGTERM ends the following with the exit code of that signal, Ctrl-C with
its.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from orchestrator.cli.exit_codes import EndedBySignal
from orchestrator.store.file.run_lock import running_on
from orchestrator.store.places.store_location import refresh


def looks(store: Path, period_s: float) -> Iterator[None]:
    """Yield every `period_s` seconds while a program runs on a store, and once more when it has ended."""
    end_on_sigterm()
    while running_on(store.resolve()):
        yield
        sys.stdout.flush()
        time.sleep(period_s)
        refresh(store)
    yield


def end_on_sigterm() -> None:
    """Have SIGTERM unwind the program, so that no half-written file is left behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise EndedBySignal(number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
