"""Commands quoted in messages, with `--store` where the plain command would open another store."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from shlex import quote

DEFAULT_STORE = "run.db"
_COMMAND = re.compile(r"`orchestrator (?P<verb>[a-z][a-z-]*)(?P<rest>(?: [^`]*)?)`")
_STORELESS = frozenset({"analyze", "contract", "copy", "guard", "memory", "sql"})
"""Verbs that open no store, or take its path as an argument."""


_SHOWN: dict[str, str] = {}


def show_as(path: object, shown: str) -> None:
    """Have commands name something else than a path from now on, such as the address of the store that it is a copy of."""
    _SHOWN[str(path)] = shown


_FLEETS: dict[str, str] = {}


def show_fleets(place: object, fleets: Sequence[str]) -> None:
    """Have commands that run the harnesses of a store be those of its nodes from now on."""
    _FLEETS[str(place)] = fleets[0] if len(fleets) == 1 else "NAME"


def store_option(store: object) -> str:
    """Return the `--store` option that a command needs for this store, with a leading blank; empty if not needed."""
    implied = os.environ.get("ORCHESTRATOR_STORE") or DEFAULT_STORE
    path = _SHOWN.get(str(store), str(store))
    if path in (implied, ""):
        return ""
    return _option(path, implied, "" if os.path.isabs(path) and os.path.isabs(implied) else os.getcwd())


@lru_cache(maxsize=64)
def _option(path: str, implied: str, folder: str) -> str:
    """Return the option for a path that the plain command may not imply, in a folder."""
    is_implied = os.path.normpath(os.path.join(folder, path)) == os.path.normpath(os.path.join(folder, implied))
    return "" if is_implied else f" --store {quote(path)}"


def for_store(text: str, store: object) -> str:
    """Return a message with `--store` added to each command between backticks that needs it for this store.

    For messages from code that does not know the store's path.
    """
    option = store_option(store)

    def completed(found: re.Match[str]) -> str:
        options, dashes, words = found["rest"].partition(" -- ")
        is_complete = found["verb"] in _STORELESS or " --store " in options or {"--help", "-h"}.intersection(options.split())
        return found[0] if is_complete else f"`orchestrator {found['verb']}{options}{option}{dashes}{words}`"

    return _COMMAND.sub(completed, text) if option else text


def ways_to_start(store: object, name: str) -> str:
    """Return how to start a harness that has ended, whether its program is still running or not."""
    return f"`{command(store, 'start', name)}` while its program runs, else `{run_command(store)}`"


def way_to_resume(name: str, store: object = "") -> str:
    """Return how to resume a paused harness."""
    return f"`{command(store, 'resume', name)}` lets it go on"


def run_command(store: object) -> str:
    """Return the command that runs the harnesses of a store: as a node where it has a fleet."""
    fleet = _FLEETS.get(str(store))
    return command(store, "run", "FILE") if fleet is None else command(store, "node", "FILE", "--fleet", fleet)


def command(store: object, *words: str) -> str:
    """Return `orchestrator WORDS…` for this store, quoted for a shell."""
    return f"orchestrator {' '.join(map(quote, words))}{store_option(store)}"
