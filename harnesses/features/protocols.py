"""What a feature harness asks others: is all well, which one next, does it pass.

An error raised by one of them is its own: it says nothing about the work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

from harnesses.features.feature import Feature, Verdict
from harnesses.features.manifest import InitPlan
from harnesses.features.selectors import FeatureSelector

__all__ = ["FeatureSelector", "HealthCheck", "OutcomeValidator"]

WorkT_contra = TypeVar("WorkT_contra", contravariant=True)


class HealthCheck(Protocol):
    """Looks whether the surroundings are fit to work in."""

    async def check(self, plan: InitPlan, directory: Path | None) -> Verdict:
        """Return what was seen; `passed` is whether to go on. `directory` is where the work is done, if there is a place."""
        ...


class OutcomeValidator(Protocol[WorkT_contra]):
    """Judges work. Never the agent that did it."""

    async def validate(self, feature: Feature, work: WorkT_contra) -> Verdict:
        """Return what was found. It must leave the work as it is."""
        ...
