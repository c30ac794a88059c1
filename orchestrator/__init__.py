"""Run many harnesses side by side under one Trio nursery without losing a step."""

from orchestrator.errors import (
    AlreadyRunning,
    GaveUp,
    HarnessFailed,
    OrchestratorError,
    OwnedElsewhere,
    OwnershipLost,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreLost,
    StoreUnusable,
    UnknownHarness,
    UsageError,
)
from orchestrator.handle import Handle
from orchestrator.lifecycle import Status
from orchestrator.orchestrator import Orchestrator
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.recording.budget_account import Pool
from orchestrator.records import HarnessRecord, Record, StepRecord
from orchestrator.restart import Backoff, Intensity, Restart, Strategy
from orchestrator.runtime.supervisor import Supervisor
from orchestrator.store import MemoryStore, SqliteStore, Store

__all__ = [
    "AlreadyRunning",
    "Backoff",
    "GaveUp",
    "Handle",
    "HarnessFailed",
    "HarnessRecord",
    "Intensity",
    "MemoryStore",
    "Orchestrator",
    "OrchestratorError",
    "Outcome",
    "OutcomeKind",
    "OwnedElsewhere",
    "OwnershipLost",
    "Pool",
    "Record",
    "Restart",
    "SqliteStore",
    "Status",
    "StepRecord",
    "Store",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreLost",
    "StoreUnusable",
    "Strategy",
    "Supervisor",
    "UnknownHarness",
    "UsageError",
]
