"""What a run owns in a store."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from orchestrator.store.store_protocol import EffectRow


@define
class Holdings:
    """What this run owns, as of its last commit. A commit works on a copy, which is kept if the commit succeeds."""

    ownership: int = -1
    """`meta.ownership` when it was last read; while it is unchanged, no harness has changed owner."""
    epochs: dict[int, int] = field(factory=dict[int, int])
    """Epochs of this run's harnesses, by their numbers."""
    heads: dict[int, int] = field(factory=dict[int, int])
    """The last step of each."""

    def copy(self) -> Holdings:
        return Holdings(self.ownership, dict(self.epochs), dict(self.heads))

    def has_effect(self, row: EffectRow, before: Mapping[int, int], after: Mapping[int, int]) -> bool:
        """Return whether a row belongs to a harness of this run, and to a step of its commit or to the one after the last.

        Args:
            before: the last step of each harness before the steps of the commit.
            after: the last step of each harness that has a step in it, after them.
        """
        harness = row[0]
        head = before.get(harness)
        return head is not None and self.epochs.get(harness) == row[1] and head < row[3] <= after.get(harness, head) + 1
