"""Pruning: removal of old records such that the rest can still be verified."""

from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune, survey

__all__ = ["Rule", "prune", "survey"]
