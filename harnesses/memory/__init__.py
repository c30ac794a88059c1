"""Episodic memory: what was done before, for whoever does the like again. History, never instructions.

    memory = EpisodicMemory("memory.db", project="shop")
    memory.write(episode)                                   only what a validator has approved
    recall = memory.recall(Query("rounding of prices", stages=("07-code",)))
    await recall_into(harness, memory, query)               into what its agents are told
    memory.retract(episode_id, reason="wrong", by="ann")    reaches everything that used it

Opt-in; nothing here calls a model. Secrets are taken out before anything is written.
"""

from harnesses.memory.embedding import Embedder, bundled_embedder
from harnesses.memory.episodes import Episode, Fact, StageNote, attempt_id, episode_of
from harnesses.memory.episodic_memory import EpisodicMemory
from harnesses.memory.memory_health import (
    Contents,
    Diagnostics,
    Problem,
    Retraction,
    diagnose,
    known_memories,
    memory_path,
    memory_root,
    read_contents,
)
from harnesses.memory.memory_model import (
    Affected,
    MemorySettings,
    MemoryUnusable,
    Query,
    Recall,
    Recalled,
    Retrieval,
    Skipped,
    WritePolicy,
    Written,
    read_settings,
)
from harnesses.memory.recall import recall_into, refresh

__all__ = [
    "Affected",
    "Contents",
    "Diagnostics",
    "Embedder",
    "Episode",
    "EpisodicMemory",
    "Fact",
    "MemorySettings",
    "MemoryUnusable",
    "Problem",
    "Query",
    "Recall",
    "Recalled",
    "Retraction",
    "Retrieval",
    "Skipped",
    "StageNote",
    "WritePolicy",
    "Written",
    "attempt_id",
    "bundled_embedder",
    "diagnose",
    "episode_of",
    "known_memories",
    "memory_path",
    "memory_root",
    "read_contents",
    "read_settings",
    "recall_into",
    "refresh",
]
