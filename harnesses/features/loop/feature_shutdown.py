"""The end of an attempt, and the hand-off files, written where people and agents find them. They are views: the record is in
the store.

The laws: what is shown of the work cannot stop it, and neither hides an error nor outlasts a cancellation by long; a reader
sees a whole file, the old one or the new one, never a part; an older state never replaces a newer one; and a directory is that
of one harness.
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
"""In the middle of a run files are written once in so many seconds."""
_JSON, _MARKDOWN = "HANDOFF.json", "HANDOFF.md"
_in_use: dict[Path, str] = {}
"""Directories, and who writes to each."""


class HandoffFiles:
    """The hand-off files of a harness, for as long as one attempt lasts: enter it for that time.

    Args:
        session: the harness's durable name.

    Raises:
        InvalidRequest: on entering; the directory is that of another harness.
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
        """Write where the work stands, unless that was done a moment ago.

        Args:
            at_once: also if it was.

        Raises:
            OSError: it cannot be done.
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
        """Write texts, unless later ones are there. A thread that was left to itself may come late."""
        with self._writing:
            if number > self._written:
                write_all(self._directory, texts)
                self._written = number


def write_all(directory: Path, texts: Mapping[str, str]) -> None:
    """Write files, by name, in `directory`, which is made if need be.

    Raises:
        OSError: it cannot be done.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with draft_of(directory / name) as file:
            os.fchmod(file.fileno(), 0o644)  # whatever the umask: others are to read it
            file.write(text.encode(errors="backslashreplace"))


def _session_in(path: Path) -> str | None:
    """Return the name of the harness that a file is the hand-off of, if it says so."""
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    session: object = cast(dict[str, object], said).get("session") if isinstance(said, dict) else None
    return session if isinstance(session, str) else None


_LEAVING_S = 2.0
"""For the hand-off files when the harness is cancelled."""


@define
class FeatureShutdown:
    """Shows where the work stands after each step, and closes what an attempt has opened."""

    name: str
    workplace: Workplace
    phases: Phases
    observers: ObserverThread
    how: str = ""
    """How the attempt ends, if something has ended it."""
    _files: HandoffFiles | None = field(default=None, init=False)
    _directory: Path | None = field(default=None, init=False)
    _claims: ExitStack = field(factory=ExitStack, init=False)

    def claim(self, directory: Path | None) -> None:
        """Take the directory of the hand-off files.

        Raises:
            InvalidRequest: it is that of another harness.
        """
        if directory is not None:
            self._files, self._directory = self._claims.enter_context(HandoffFiles(directory, self.name)), directory

    async def show(self, state: FeatureState, working: str | None, *, at_once: bool) -> None:
        """Write the hand-off files. They are views: that they cannot be written is no reason to stop."""
        if self._files is None:
            return
        try:
            await self._files.show(state, cut_off=working, ended=self.how, at_once=at_once)
        except Exception:
            get_logger(__name__).warning(
                "harness %r could not write its hand-off to %s", self.name, self._directory, exc_info=True
            )

    async def close(self, state: FeatureState, working: str | None) -> None:
        """Do what is to be done at the end, however it came.

        Args:
            working: the feature that was being worked.
        """
        self.phases.fail(self.how or "ended")
        with trio.move_on_after(_LEAVING_S, shield=True):
            await self.show(state, working, at_once=True)
        self._claims.close()
        self.observers.close()
        try:
            await self.workplace.close()
        except Exception:
            get_logger(__name__).warning("harness %r could not tidy up", self.name, exc_info=True)


def how_ended(error: BaseException, control: Control) -> str:
    """Return how an attempt ends that an error has ended, in a few words; an empty text if it came to its end."""
    if isinstance(error, Exception):
        return describe_error(error)
    if isinstance(error, GeneratorExit) and control.failure is None:
        return "stopped" if control.ending is Ending.STOPPED else ""
    why = control.failure or control.why_cancelled()
    if why is None:
        return "cancelled" if control.aborted else "stopped"
    # Who cancels it from outside may not have said so yet.
    return "cancelled" if isinstance(why, ScopeError) else describe_error(why)
