"""Orders and questions to harnesses that run, as values: for stores through which they are given."""

from __future__ import annotations

from attrs import frozen

from harnesses.errors import OrchestratorError


class OrderNotTaken(OrchestratorError):
    """No program has taken an order in time, so that it is withdrawn; or the one that took it does not answer."""


@frozen
class GivenOrder:
    """An order as it is given."""

    harness: str
    verb: str
    options: str
    """As in a path of the control API: empty, or from the question mark on."""
    body: str
    """JSON, or empty."""
    by: str
    """Who gives it."""


@frozen
class TakenOrder:
    """An order that a run has to carry out."""

    id: str
    harness: str
    verb: str
    options: str
    body: str


@frozen
class Answer:
    """What a run has said to an order."""

    status: int
    """As in HTTP."""
    text: str
    """JSON."""
    run: str
    """The run that has said it."""
