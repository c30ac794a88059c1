"""The ready-made harnesses that a run file can describe without any Python: a word each, and the keys of its table. Pure.

    [[harness]]
    name = "eurusd"
    trading = { feed = { … }, strategy = "cross" }

is the same as `harness = "trading"` with these keys as `arguments`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from harnesses.errors import near
from orchestrator.errors import UsageError

READY_MADE = {
    "trading": "harnesses.run_file_harnesses.trading_table:read_harness",
    "features": "harnesses.run_file_harnesses.features_table:read_harness",
    "coding": "harnesses.run_file_harnesses.coding_table:read_harness",
    "pipeline": "harnesses.run_file_harnesses.pipeline_table:read_harness",
}
"""Where the function is that makes a harness of such a table, by the word for it."""


def take_word(data: dict[str, Any], where: str) -> None:
    """Put a table under a word where a harness that somebody has written would be named.

    Raises:
        UsageError: there are two, or it is no table.
    """
    given = [key for key in ("harness", *READY_MADE) if key in data]
    if len(given) > 1:
        raise UsageError(
            f"{where}: expected one of harness, {', '.join(READY_MADE)}, got {' and '.join(given)}; write a table for each"
        )
    if not given or given == ["harness"]:
        return
    word = given[0]
    table = data.pop(word)
    if not isinstance(table, Mapping):
        raise UsageError(f"{where}: {word}: expected a table, got {table!r:.100}; write one")
    if "arguments" in data:
        raise UsageError(f"{where}: arguments: expected none beside {word}; write them into the table `{word}`")
    data.update(harness=word, arguments=dict(cast(Mapping[str, object], table)))


def way_out(key: str, known: list[str]) -> str:
    """Return what to do about a key that is not known."""
    return near(key, known) or "; correct or remove it"
