"""Adds recalled episodes to the `relevant_knowledge` of a harness's agents.

    async def execute(self):
        await recall_into(self, memory, Query("price rounding", harness=self.name))

Invariant: retracted episodes are removed from a harness's knowledge at its next recall, whatever the query, and at a restart,
which begins without knowledge; `refresh` removes them at once. A failing memory adds nothing and stops no harness.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from attrs import frozen

from harnesses.base import BaseHarness
from harnesses.memory.episodic_memory import EpisodicMemory
from harnesses.memory.memory_model import MemoryUnusable, Query, Recall
from harnesses.processes.threads import aside


@frozen
class _Filled:
    """Added knowledge, and the memory it came from."""

    memory: EpisodicMemory
    recall: Recall


_FILLED: WeakKeyDictionary[BaseHarness[Any, Any, Any], dict[str, _Filled]] = WeakKeyDictionary()


async def recall_into(
    harness: BaseHarness[Any, Any, Any], memory: EpisodicMemory, query: Query, *, key: str = "episodes"
) -> Recall:
    """Recall episodes for a query, add them to the harness's knowledge, and return them. Works in a thread.

    Args:
        key: name of the entry in `relevant_knowledge`; the other entries stay, without what was retracted since.
    """
    await refresh(harness)
    try:
        recall = await aside(memory.recall, query)
    except MemoryUnusable as error:
        harness.log(f"memory: {error}")
        recall = Recall()
    filled = _FILLED.setdefault(harness, {})
    filled[key] = _Filled(memory, recall)
    _tell(harness, filled)
    return recall


async def refresh(harness: BaseHarness[Any, Any, Any]) -> tuple[str, ...]:
    """Remove what was retracted from the harness's knowledge; return the removed ids."""
    filled = _FILLED.get(harness, {})
    gone: list[str] = []
    for key, one in tuple(filled.items()):
        try:
            left = await aside(one.memory.still, one.recall)
        except MemoryUnusable as error:
            # Retractions cannot be read: remove the whole entry.
            harness.log(f"memory: {error}")
            left = Recall()
        gone += [id for id in one.recall.ids if id not in left.ids]
        filled[key] = _Filled(one.memory, left)
    if gone:
        _tell(harness, filled)
    return tuple(dict.fromkeys(gone))


def _tell(harness: BaseHarness[Any, Any, Any], filled: dict[str, _Filled]) -> None:
    """Set the knowledge of a harness; entries from other sources stay."""
    known = {key: value for key, value in harness.load_context().relevant_knowledge.items() if key not in filled}
    harness.know({**known, **{key: one.recall.text for key, one in filled.items() if one.recall.text}})
