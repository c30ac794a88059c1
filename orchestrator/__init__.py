"""Run many harnesses side by side under one Trio nursery without losing a step."""

from typing import TYPE_CHECKING

from harnesses.lazy_exports import lazy as _lazy

if TYPE_CHECKING:
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
    from orchestrator.nodes.fleet_members import Member
    from orchestrator.nodes.run_node import run_node
    from orchestrator.nodes.run_on_ray import run_on_ray
    from orchestrator.orchestrator import Orchestrator
    from orchestrator.outcome import Outcome, OutcomeKind
    from orchestrator.recording.budget_account import Pool
    from orchestrator.records import HarnessRecord, Record, StepRecord
    from orchestrator.restart import Backoff, Intensity, Restart, Strategy
    from orchestrator.runtime.supervisor import Supervisor
    from orchestrator.store import MemoryStore, PostgresStore, SqliteStore, Store
    from orchestrator.workers.run_workers import run_workers
else:
    __getattr__, __dir__ = _lazy(
        __name__,
        {
            "orchestrator.errors": (
                "AlreadyRunning GaveUp HarnessFailed OrchestratorError OwnedElsewhere OwnershipLost StoreBusy "
                "StoreCorrupt StoreError StoreLost StoreUnusable UnknownHarness UsageError"
            ),
            "orchestrator.handle": "Handle",
            "orchestrator.lifecycle": "Status",
            "orchestrator.nodes.fleet_members": "Member",
            "orchestrator.nodes.run_node": "run_node",
            "orchestrator.nodes.run_on_ray": "run_on_ray",
            "orchestrator.orchestrator": "Orchestrator",
            "orchestrator.outcome": "Outcome OutcomeKind",
            "orchestrator.recording.budget_account": "Pool",
            "orchestrator.records": "HarnessRecord Record StepRecord",
            "orchestrator.restart": "Backoff Intensity Restart Strategy",
            "orchestrator.runtime.supervisor": "Supervisor",
            "orchestrator.store": "MemoryStore PostgresStore SqliteStore Store",
            "orchestrator.workers.run_workers": "run_workers",
        },
    )

__all__ = [
    "AlreadyRunning",
    "Backoff",
    "GaveUp",
    "Handle",
    "HarnessFailed",
    "HarnessRecord",
    "Intensity",
    "Member",
    "MemoryStore",
    "Orchestrator",
    "OrchestratorError",
    "Outcome",
    "OutcomeKind",
    "OwnedElsewhere",
    "OwnershipLost",
    "Pool",
    "PostgresStore",
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
    "run_node",
    "run_on_ray",
    "run_workers",
]
