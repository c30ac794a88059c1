"""Writes the hand-off where people and agents find it. The files are views: the record is in the store.

The law: a reader sees a whole file, the old one or the new one, never a part.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import mkstemp

import trio


async def write_files(directory: Path, texts: Mapping[str, str]) -> None:
    """Write files, by name, in `directory`, which is made if need be.

    Cancelled, it leaves the writing to its thread and goes on.

    Raises:
        OSError: it can not be done.
    """
    await trio.to_thread.run_sync(_write_all, directory, dict(texts), abandon_on_cancel=True)


def _write_all(directory: Path, texts: Mapping[str, str]) -> None:
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
