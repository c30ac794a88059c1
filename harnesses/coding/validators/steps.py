"""Steps of a feature that stand for tests. Pure."""

from __future__ import annotations

STEP = "pytest "
"""What such a step may begin with; the node id follows, to the letter."""


def node_in(step: str) -> str:
    """Return the node id that a step stands for: `pytest <node id>`, or just the node id."""
    return step.removeprefix(STEP)
