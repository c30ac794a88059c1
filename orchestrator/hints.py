"""The commands that messages tell a person to give, each with the store where the plain command would open another."""

from __future__ import annotations

import os
from shlex import quote

DEFAULT_STORE = "run.db"


def store_option(store: object) -> str:
    """Return what a command needs to reach this store, with a blank before it; nothing where it would open it anyway."""
    implied = os.environ.get("ORCHESTRATOR_STORE") or DEFAULT_STORE
    path = str(store)
    return "" if path in (implied, "") else f" --store {quote(path)}"


def ways_to_start(store: object, name: str) -> str:
    """Return how a harness that has ended is brought back, whether its program still runs or not."""
    return f"`{command(store, 'start', name)}` while its program runs, else `{command(store, 'run', 'FILE')}`"


def command(store: object, *words: str) -> str:
    """Return `orchestrator WORDS…` for this store, as a shell takes it."""
    return f"orchestrator {' '.join(map(quote, words))}{store_option(store)}"
