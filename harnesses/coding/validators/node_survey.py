"""Surveys: what one run of the tests tells about all features at a commit that holds accepted work alone.

    suite run of the commit ───┐
    last confirmation of it ───┼─► outcomes by tree and confirmation ──► features, without a run of their own
    one session of all nodes ──┘

Invariants: only a pass is taken from a survey; a test that failed, did not run, or ran in a session that was cut off or
manipulated is run alone, unless the answer only decides whether an agent is asked. A commit that an agent has just made is
never surveyed: it is judged first. Each confirmation has a session of its own, in a new worktree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio
from attrs import define, field

from harnesses.coding.validators.pytest_process import Results
from harnesses.coding.validators.pytest_report import NodeReport, answering

_MOST_KNOWN = 12
Survey = Callable[[Sequence[str]], Awaitable[Results]]
"""Runs nodes in one session."""


@define
class _Session:
    lock: trio.Lock = field(factory=trio.Lock)
    nodes: Mapping[str, NodeReport] | None = None
    """Outcomes; None before the session."""


@define
class NodeSurveys:
    """The surveys of the last commits."""

    listed: tuple[str, ...] = ()
    """Nodes of all features."""
    pending: frozenset[str] = frozenset()
    """Nodes of those that do not pass yet."""
    _sessions: OrderedDict[tuple[str, int], _Session] = field(factory=OrderedDict[tuple[str, int], _Session])

    async def passing(
        self, tree: str, confirmation: int, nodes: Sequence[str], run: Survey, first: Mapping[str, NodeReport]
    ) -> int:
        """Return how many tests of these nodes passed in a survey; 0 unless each of the nodes ran and all their tests passed.

        Args:
            tree: of the commit.
            run: makes the survey, if there is none.
            first: outcomes of the first confirmation, if something else has run it.
        """
        if len(self.listed) < 2 or not set(nodes) <= set(self.listed):
            return 0
        session = self._session(tree, confirmation)
        async with session.lock:
            if session.nodes is None:
                results = await run(self._worth_asking(confirmation, nodes, first or self._outcomes(tree)))
                session.nodes = {} if results.bent or not results.whole else results.nodes
        return count_passing(session.nodes, nodes)

    def _worth_asking(self, confirmation: int, nodes: Sequence[str], first: Mapping[str, NodeReport]) -> tuple[str, ...]:
        """Return the nodes to run: all, or in a further confirmation those that passed in the first one."""
        if confirmation == 1 or not first:
            return self.listed
        return tuple(dict.fromkeys((*nodes, *self.passing_pending(first))))

    def passing_pending(self, outcomes: Mapping[str, NodeReport]) -> tuple[str, ...]:
        """Return the nodes of features that do not count as passing yet, but pass here."""
        return tuple(node for node in self.listed if node in self.pending and count_passing(outcomes, [node]))

    def keep(self, tree: str, confirmation: int, outcomes: Mapping[str, NodeReport]) -> None:
        """Take for a survey what a session at a commit with these files has told, unless there is one."""
        session = self._session(tree, confirmation)
        if session.nodes is None and not session.lock.locked():
            session.nodes = outcomes

    def _outcomes(self, tree: str) -> Mapping[str, NodeReport]:
        first = self._sessions.get((tree, 1))
        return (first.nodes if first is not None else None) or {}

    def _session(self, tree: str, confirmation: int) -> _Session:
        key = (tree, confirmation)
        if key not in self._sessions:
            while len(self._sessions) >= _MOST_KNOWN:
                self._sessions.popitem(last=False)
            self._sessions[key] = _Session()
        return self._sessions[key]


def count_passing(outcomes: Mapping[str, NodeReport], nodes: Sequence[str]) -> int:
    """Return how many tests of these nodes passed; 0 unless each of the nodes ran and all their tests passed."""
    count = 0
    for node in nodes:
        found = answering(outcomes, node)
        if not found or not all(one.passed for one in found):
            return 0
        count += len(found)
    return count
