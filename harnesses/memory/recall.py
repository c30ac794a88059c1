"""Memory into a harness: what its agents are told as `relevant_knowledge`.

    async def execute(self):
        await recall_into(self, memory, Query("price rounding", harness=self.name))

The law: what was retracted is gone from what a harness knows at its next recall, whatever that is about, and at a restart,
which begins with no knowledge; `refresh` has it gone at once. A memory that fails fills in nothing, and stops nobody.
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
    """What was filled in, and from where."""

    memory: EpisodicMemory
    recall: Recall


_FILLED: WeakKeyDictionary[BaseHarness[Any, Any, Any], dict[str, _Filled]] = WeakKeyDictionary()


async def recall_into(
    harness: BaseHarness[Any, Any, Any], memory: EpisodicMemory, query: Query, *, key: str = "episodes"
) -> Recall:
    """Have the agents of a harness told what is remembered, and return that. Works in a thread.

    Args:
        key: under which of the names in `relevant_knowledge`; the others stay, without what was retracted since.
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
    """Take what was retracted out of what a harness knows; return the ids of that."""
    filled = _FILLED.get(harness, {})
    gone: list[str] = []
    for key, one in tuple(filled.items()):
        try:
            left = await aside(one.memory.still, one.recall)
        except MemoryUnusable as error:
            # Nobody can say what was retracted: then nothing is told.
            harness.log(f"memory: {error}")
            left = Recall()
        gone += [id for id in one.recall.ids if id not in left.ids]
        filled[key] = _Filled(one.memory, left)
    if gone:
        _tell(harness, filled)
    return tuple(dict.fromkeys(gone))


def _tell(harness: BaseHarness[Any, Any, Any], filled: dict[str, _Filled]) -> None:
    """Set what a harness knows: what others have told it stays."""
    known = {key: value for key, value in harness.load_context().relevant_knowledge.items() if key not in filled}
    harness.know({**known, **{key: one.recall.text for key, one in filled.items() if one.recall.text}})
