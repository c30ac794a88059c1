"""Episodic memory: records of earlier attempts at tasks, recalled for similar tasks. History, never instructions.

    memory = EpisodicMemory("memory.db", project="shop")
    memory.write(episode)                                   stored only if a validator has approved it
    recall = memory.recall(Query("rounding of prices", stages=("07-code",)))
    await recall_into(harness, memory, query)               adds it to the context of the harness's agents
    memory.retract(episode_id, reason="wrong", by="ann")    also reaches everything derived from it

Opt-in; nothing here calls a model. Secrets are redacted before anything is written.
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
