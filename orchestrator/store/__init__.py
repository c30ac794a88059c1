"""The store: an ordered, durable record of everything that happened, and the authority over it."""

from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from orchestrator.store.store_capabilities import Counted, InFile, Keyed, Watched
from orchestrator.store.store_protocol import Store

__all__ = ["Counted", "InFile", "Keyed", "MemoryStore", "SqliteReader", "SqliteStore", "Store", "Watched"]
