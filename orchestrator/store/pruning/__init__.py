"""Pruning: removing old records so that the rest can still be proven."""

from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune, survey

__all__ = ["Rule", "prune", "survey"]
