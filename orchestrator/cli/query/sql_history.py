"""What was typed at a prompt, kept for the next time: in the user's own folder for such things, without secrets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from harnesses.redaction.redactor import redact_text

_LENGTH = 1000


class History:
    """A context manager: reads what was kept, and keeps what was added.

    Args:
        wanted: whether there is a terminal; without one nothing is read or kept.
        names: what the tab key completes.
    """

    def __init__(self, wanted: bool, names: Sequence[str]) -> None:
        self._readline = _readline() if wanted else None
        self._names = sorted(names)
        self._path = place()

    def __enter__(self) -> History:
        if self._readline is not None:
            self._readline.set_auto_history(False)
            self._readline.set_completer(self._completed)
            self._readline.set_completer_delims(" \t\n,;()")
            self._readline.parse_and_bind("tab: complete")
            with suppress(OSError):
                self._readline.read_history_file(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._readline is None:
            return
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made before it is written, so that nobody else can read it at any moment.
            os.close(os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._readline.set_history_length(_LENGTH)
            self._readline.write_history_file(self._path)

    def add(self, text: str) -> None:
        """Keep what was typed, on one line."""
        if self._readline is not None:
            self._readline.add_history(redact_text(" ".join(text.split())))

    def _completed(self, text: str, state: int) -> str | None:
        return next(iter([name for name in self._names if name.startswith(text)][state : state + 1]), None)


def place() -> Path:
    """Return where it is kept."""
    root = os.environ.get("XDG_STATE_HOME", "")
    # A relative path is to be ignored. Source: XDG Base Directory Specification.
    folder = Path(root) if root.startswith("/") else Path.home() / ".local" / "state"
    return folder / "harness-orchestrator" / "sql_history"


def _readline() -> ModuleType | None:
    try:
        import readline
    except ImportError:
        return None
    return readline
