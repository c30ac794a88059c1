"""What a judged command finds around it: nothing of this program's environment, and a home that nobody has used before."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import trio
from attrs import frozen

_PLACES = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


@frozen
class Surroundings:
    """A fresh place for one run."""

    private: Path
    """For what the judge itself has to keep; the judged command is not told of it."""
    env: Mapping[str, str]
    """The whole environment of the command."""


@asynccontextmanager
async def fresh_surroundings(additions: Mapping[str, str], *, seed: int) -> AsyncGenerator[Surroundings, None]:
    """Make a home and a directory for temporary files, and remove them afterwards.

    Args:
        additions: to the environment; they win.
        seed: of Python's hashes: what depends on the order of a set differs from one to the next.
    """
    directory = Path(await trio.to_thread.run_sync(partial(mkdtemp, prefix="judged-")))
    try:
        for name in ("home", "tmp", "private"):
            (directory / name).mkdir()
        yield Surroundings(directory / "private", {**_clean(directory, seed), **additions})
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, directory, ignore_errors=True))


def _clean(directory: Path, seed: int) -> dict[str, str]:
    # The interpreter's own directory, so that `python` is the one that has the project's packages.
    places = [os.path.dirname(sys.executable), *_PLACES]
    return {
        "PATH": os.pathsep.join(dict.fromkeys(place for place in places if os.path.isabs(place))),
        "HOME": str(directory / "home"),
        "TMPDIR": str(directory / "tmp"),
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": str(seed),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }


def hash_seed(commit: str, confirmation: int) -> int:
    """Return a seed that differs from one confirmation, and from one commit, to the next, and can be used again."""
    return (int(commit[:8] or "0", 16) if all(c in "0123456789abcdef" for c in commit[:8]) else 0) % 100_000 + confirmation
