"""The store: an ordered, durable record of everything that happened, and the authority over it."""

from typing import TYPE_CHECKING

from harnesses.lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from orchestrator.store.in_memory.memory_store import MemoryStore
    from orchestrator.store.postgres.postgres_store import PostgresStore
    from orchestrator.store.sqlite.sqlite_reader import SqliteReader
    from orchestrator.store.sqlite.sqlite_store import SqliteStore
    from orchestrator.store.store_capabilities import Counted, InFile, Keyed, Watched
    from orchestrator.store.store_protocol import Store
else:
    __getattr__, __dir__ = _lazy(
        __name__,
        {
            "orchestrator.store.in_memory.memory_store": "MemoryStore",
            "orchestrator.store.postgres.postgres_store": "PostgresStore",
            "orchestrator.store.sqlite.sqlite_reader": "SqliteReader",
            "orchestrator.store.sqlite.sqlite_store": "SqliteStore",
            "orchestrator.store.store_capabilities": "Counted InFile Keyed Watched",
            "orchestrator.store.store_protocol": "Store",
        },
    )

__all__ = ["Counted", "InFile", "Keyed", "MemoryStore", "PostgresStore", "SqliteReader", "SqliteStore", "Store", "Watched"]
