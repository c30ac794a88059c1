"""Where a feature list comes from: the port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from harnesses.coding.candidate import Candidate
from harnesses.features.feature import Feature
from harnesses.features.feature_protocols import OutcomeValidator


class FeatureSource(Protocol):
    """Finds out what there is to do in a repository."""

    async def load(self, checkout: Path) -> Sequence[Feature]:
        """Return the features, none of which passes.

        Args:
            checkout: a worktree of the commit that the work begins from, for this call alone. What is run in it may leave
                files there; nobody should judge anything in it afterwards.

        Raises:
            NothingToDo: nothing is open, or there is nothing at all.
            InvalidRequest: what is read is not as expected.
            NotReady: something that is needed to find out is missing.
        """
        ...

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return what proves these features; None if the source cannot know, so that one has to be chosen."""
        ...
