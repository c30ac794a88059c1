"""What a run owns in a store."""

from __future__ import annotations

from attrs import define, field


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
