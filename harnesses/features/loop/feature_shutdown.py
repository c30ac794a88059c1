"""Writes the hand-off files, and shuts an attempt down. The files are views for people and agents; the store has the record.

Invariants: a failure to write never stops the work, hides an error or delays a cancellation for long; a reader sees a complete
file, old or new, never a part; an older state never replaces a newer one; a directory belongs to one harness.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, cast

import trio
from attrs import define, field

from harnesses.control import Control, Ending
from harnesses.diagnostics.control_characters import inert
from harnesses.diagnostics.program_log import get_logger
from harnesses.errors import ScopeError
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature_record import FeatureState
from harnesses.features.handoff_text import Rows, as_json, as_markdown
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import ObserverThread, Phases
from harnesses.features.turn_results import describe_error
from harnesses.files.safe_files import draft_of

SELDOM_S = 1.0
"""Minimum seconds between two writes during a run."""
_JSON, _MARKDOWN = "HANDOFF.json", "HANDOFF.md"
_in_use: dict[Path, str] = {}
"""Directories in use, and the harness that writes to each."""


class HandoffFiles:
    """The hand-off files of a harness: a context manager for one attempt.

    Args:
        session: the harness's durable name.

    Raises:
        InvalidRequest: on entering; the directory belongs to another harness.
    """

    def __init__(self, directory: Path, session: str) -> None:
        self._directory = directory.absolute()
        self._session = session
        self._rows = Rows(), Rows()
        self._next_at = -inf
        self._shown = self._written = 0
        self._writing = Lock()
        self._last: tuple[FeatureState, str | None, str] | None = None

    def __enter__(self) -> HandoffFiles:
        other = _in_use.get(self._directory) or _session_in(self._directory / _JSON)
        if other is not None and other != inert(self._session):
            raise InvalidRequest(
                f"harness {self._session!r} cannot hand off in {str(self._directory)!r}: expected a directory of its own, "
                f"was that of {other!r}; name another one, or remove {_JSON}"
            )
        _in_use[self._directory] = inert(self._session)
        return self

    def __exit__(self, *_: object) -> None:
        _in_use.pop(self._directory, None)

    async def show(self, state: FeatureState, *, cut_off: str | None = None, ended: str = "", at_once: bool = False) -> None:
        """Write the current progress, unless that was done less than `SELDOM_S` ago.

        Args:
            at_once: write in any case.

        Raises:
            OSError: the files cannot be written.
        """
        if not at_once and trio.current_time() < self._next_at:
            return
        if (state, cut_off, ended) == self._last:
            return
        self._next_at = trio.current_time() + SELDOM_S
        self._shown += 1
        markdown, rows = self._rows
        texts = {
            _MARKDOWN: as_markdown(state, cut_off=cut_off, ended=ended, rows=markdown),
            _JSON: as_json(state, cut_off=cut_off, ended=ended, rows=rows),
        }
        await trio.to_thread.run_sync(self.write, self._shown, texts, abandon_on_cancel=True)
        self._last = state, cut_off, ended

    def write(self, number: int, texts: Mapping[str, str]) -> None:
        """Write the files, unless newer ones exist. An abandoned thread may come late."""
        with self._writing:
            if number > self._written:
                write_all(self._directory, texts)
                self._written = number


def write_all(directory: Path, texts: Mapping[str, str]) -> None:
    """Write files, by name, to `directory`, which is created if missing.

    Raises:
        OSError: they cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with draft_of(directory / name) as file:
            os.fchmod(file.fileno(), 0o644)  # readable for others whatever the umask
            file.write(text.encode(errors="backslashreplace"))


def _session_in(path: Path) -> str | None:
    """Return the name of the harness that a hand-off file belongs to; None if it has none."""
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    session: object = cast(dict[str, object], said).get("session") if isinstance(said, dict) else None
    return session if isinstance(session, str) else None


_LEAVING_S = 2.0
"""Maximum seconds for writing the hand-off files on cancellation."""


@define
class FeatureShutdown:
    """Writes the hand-off files after each step, and closes what an attempt has opened."""

    name: str
    workplace: Workplace
    phases: Phases
    observers: ObserverThread
    how: str = ""
    """How the attempt ended; empty if it ended normally."""
    _files: HandoffFiles | None = field(default=None, init=False)
    _directory: Path | None = field(default=None, init=False)
    _claims: ExitStack = field(factory=ExitStack, init=False)

    def claim(self, directory: Path | None) -> None:
        """Reserve the directory of the hand-off files.

        Raises:
            InvalidRequest: it belongs to another harness.
        """
        if directory is not None:
            self._files, self._directory = self._claims.enter_context(HandoffFiles(directory, self.name)), directory

    async def show(self, state: FeatureState, working: str | None, *, at_once: bool) -> None:
        """Write the hand-off files. A failure is logged and does not stop the work."""
        if self._files is None:
            return
        try:
            await self._files.show(state, cut_off=working, ended=self.how, at_once=at_once)
        except Exception:
            get_logger(__name__).warning(
                "harness %r could not write its hand-off to %s", self.name, self._directory, exc_info=True
            )

    async def close(self, state: FeatureState, working: str | None) -> None:
        """Close everything at the end of an attempt, however it ended.

        Args:
            working: id of the feature that was being worked.
        """
        self.phases.fail(self.how or "ended")
        with trio.move_on_after(_LEAVING_S, shield=True):
            await self.show(state, working, at_once=True)
        self._claims.close()
        self.observers.close()
        try:
            await self.workplace.close()
        except Exception:
            get_logger(__name__).warning("harness %r could not clean up", self.name, exc_info=True)


def how_ended(error: BaseException, control: Control) -> str:
    """Return a short text on how an error ended the attempt; empty if it ended normally."""
    if isinstance(error, Exception):
        return describe_error(error)
    if isinstance(error, GeneratorExit) and control.failure is None:
        return "stopped" if control.ending is Ending.STOPPED else ""
    why = control.failure or control.why_cancelled()
    if why is None:
        return "cancelled" if control.aborted else "stopped"
    # A cancellation from outside may arrive before its reason.
    return "cancelled" if isinstance(why, ScopeError) else describe_error(why)
