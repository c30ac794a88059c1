"""Orders on record with who gave them, where the order itself leaves no name."""

from __future__ import annotations

from harnesses.timing.clock import now_us
from orchestrator.codec import encode
from orchestrator.operating.store_writing import commit
from orchestrator.records import ORDERED
from orchestrator.store.store_protocol import Remark

_BUSY_S = 2.0
"""Seconds that recording waits for a locked store: short, because the order is carried out already."""


def record_order(store: str, name: str, order: str, *, by: str) -> int:
    """Put on record who has given an order to a harness; return the `seq` of the record.

    Raises:
        OrchestratorError: the store cannot be written, or knows no such harness.
    """
    seq: int = commit(store, Remark(name, ORDERED, encode({"order": order, "by": by}), now_us()), busy_s=_BUSY_S)
    return seq
