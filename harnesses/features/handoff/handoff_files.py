"""Writes the hand-off where people and agents find it. The files are views: the record is in the store.

The laws: a reader sees a whole file, the old one or the new one, never a part; an older state never replaces a newer one;
and a directory is that of one harness.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from tempfile import mkstemp
from threading import Lock
from typing import Any, cast

import trio

from harnesses.diagnostics.control_characters import inert
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature_record import FeatureState
from harnesses.features.handoff.handoff_text import Rows, as_json, as_markdown

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
        _replace(directory / name, text)


def _replace(path: Path, text: str) -> None:
    descriptor, draft = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        # Not the 0600 of a temporary file: others are to read it.
        Path(draft).chmod(0o644)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _session_in(path: Path) -> str | None:
    """Return the name of the harness that a file is the hand-off of, if it says so."""
    try:
        said: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    session: object = cast(dict[str, object], said).get("session") if isinstance(said, dict) else None
    return session if isinstance(session, str) else None
