"""On what terms a harness is run, and the words in which they are given. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from attrs import field, frozen

from orchestrator.errors import UsageError
from orchestrator.restart import Backoff, Restart, Strategy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@frozen
class Terms:
    """On what terms a harness is run."""

    restart: Restart = Restart.TRANSIENT
    backoff: Backoff = field(factory=Backoff)
    grace_s: float = 5.0
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    take_over: bool = False


def check_name(name: object) -> None:
    """Refuse what is not a durable name.

    Raises:
        UsageError: it is not text that a file or a command could take.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"name {name!r}: expected letters, digits, '.', '_' and '-', beginning with a letter or digit")


@lru_cache(maxsize=128)
def terms_of(*args: Any) -> Terms:
    """Return the terms; thousands of harnesses share the same ones."""
    return Terms(*args)


def restart_of(word: Restart | str) -> Restart:
    try:
        return Restart(word)
    except ValueError:
        raise UsageError(f"restart: expected permanent, transient or temporary, was {word!r}") from None


def strategy_of(word: Strategy | str) -> Strategy:
    try:
        return Strategy(word)
    except ValueError:
        raise UsageError(f"strategy: expected one_for_one, one_for_all or rest_for_one, was {word!r}") from None
