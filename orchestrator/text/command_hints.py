"""The commands that messages tell a person to give, each with the store where the plain command would open another."""

from __future__ import annotations

import os
import re
from shlex import quote

DEFAULT_STORE = "run.db"
_COMMAND = re.compile(r"`orchestrator (?P<verb>[a-z-]+)(?P<rest>(?: [^`]*)?)`")
_STORELESS = frozenset({"analyze", "contract", "guard", "memory", "sql"})
"""Verbs that open no store, or name it in another way."""


def store_option(store: object) -> str:
    """Return what a command needs to reach this store, with a blank before it; nothing where it would open it anyway."""
    implied = os.environ.get("ORCHESTRATOR_STORE") or DEFAULT_STORE
    path = str(store)
    return "" if path in (implied, "") or os.path.abspath(path) == os.path.abspath(implied) else f" --store {quote(path)}"


def for_store(text: str, store: object) -> str:
    """Return a message with what a command needs to reach this store in each command that stands in it between backticks.

    For messages of parts that do not know where their store is.
    """
    option = store_option(store)

    def completed(found: re.Match[str]) -> str:
        is_complete = found["verb"] in _STORELESS or " --store " in found["rest"]
        return found[0] if is_complete else f"`orchestrator {found['verb']}{found['rest']}{option}`"

    return _COMMAND.sub(completed, text) if option else text


def ways_to_start(store: object, name: str) -> str:
    """Return how a harness that has ended is brought back, whether its program still runs or not."""
    return f"`{command(store, 'start', name)}` while its program runs, else `{command(store, 'run', 'FILE')}`"


def way_to_resume(name: str, store: object = "") -> str:
    """Return how a harness that is held goes on."""
    return f"`{command(store, 'resume', name)}` lets it go on"


def command(store: object, *words: str) -> str:
    """Return `orchestrator WORDS…` for this store, as a shell takes it."""
    return f"orchestrator {' '.join(map(quote, words))}{store_option(store)}"
