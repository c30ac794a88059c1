"""The authority: what happened, in order, on disk."""

from orchestrator.store.capabilities import Counted, InFile, Keyed, Watched
from orchestrator.store.memory import MemoryStore
from orchestrator.store.protocol import Store
from orchestrator.store.sqlite import SqliteStore
from orchestrator.store.sqlite_reader import SqliteReader

__all__ = ["Counted", "InFile", "Keyed", "MemoryStore", "SqliteReader", "SqliteStore", "Store", "Watched"]
