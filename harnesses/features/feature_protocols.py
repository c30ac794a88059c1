"""What a feature harness asks others: is all well, which one next, does it pass.

An error raised by one of them is its own: it says nothing about the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from harnesses.features.feature import Feature, Standing, Verdict
from harnesses.features.session_manifest import InitPlan

WorkT_contra = TypeVar("WorkT_contra", contravariant=True)


class HealthCheck(Protocol):
    """Looks whether the surroundings are fit to work in."""

    async def check(self, plan: InitPlan, directory: Path | None) -> Verdict:
        """Return what was seen; `passed` is whether to go on. `directory` is where the work is done, if there is a place."""
        ...


class FeatureSelector(Protocol):
    """Says which feature is next. Pure: the same list gives the same answer."""

    def select(self, features: Sequence[Feature], standings: Sequence[Standing]) -> Feature | None:
        """Return the next feature to work, one that is pending; None if none can be worked now.

        Args:
            features: the whole list, in order.
            standings: one for each.
        """
        ...


class OutcomeValidator(Protocol[WorkT_contra]):
    """Judges work. Never the agent that did it."""

    async def validate(self, feature: Feature, work: WorkT_contra) -> Verdict:
        """Return what was found. It must leave the work as it is."""
        ...
