"""Every test that passed at the base passes at the commit."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import trio
from attrs import evolve

from harnesses.coding.candidate import Candidate
from harnesses.coding.validators.base import CandidateValidator, told
from harnesses.coding.validators.ground import survey
from harnesses.coding.validators.overlay import drop_compiled, lay_over
from harnesses.coding.validators.pytest_nodes import run_of
from harnesses.coding.validators.pytest_process import run_pytest
from harnesses.coding.validators.pytest_report import SessionReport
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature

_TEXT = 1_000
_ASKED_AGAIN = 2
_MOST_ASKED_AGAIN = 200
_MOST_BASES = 8


class SuiteKept(CandidateValidator):
    """Runs the whole suite of the base on the commit, and holds every test that passed at the base to it.

    The base is run once, and remembered. A test that fails at the commit is run at the base again, twice: if it fails
    there now and then, it was unsteady before, and is not held against the commit.

    Args:
        python: the interpreter that has the project's packages, and pytest.
        limit_s: seconds for one run of the suite.
        env: additions to the clean environment.
    """

    runs_everything = True
    """It is asked last."""

    def __init__(self, *, python: str = sys.executable, limit_s: float = 900.0, env: Mapping[str, str] | None = None) -> None:
        if not limit_s > 0:
            raise InvalidRequest(f"SuiteKept: limit_s: expected seconds above 0, was {limit_s!r}")
        self._python, self._limit_s, self._env = python, limit_s, dict(env or {})
        self._at_base: dict[str, SessionReport] = {}
        self._running = trio.Lock()

    def __repr__(self) -> str:
        return "SuiteKept()"

    @property
    def proves(self) -> bool:
        """It runs tests, but only those that passed before: it does not prove anything new."""
        return False

    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Run the suite, and compare."""
        before = await self._base(candidate)
        kept = [id for id, node in before.nodes.items() if node.passed]
        if not kept:
            return True, "no test passed at the base, so there is none to keep"
        after = await self._run(candidate)
        if after.bent:
            return False, told(after.bent)
        broken = [id for id in kept if id not in after.nodes or not after.nodes[id].passed]
        unsteady = await self._unsteady(candidate, broken)
        broken = [id for id in broken if id not in unsteady]
        noted = f"; unsteady at the base, so not held against it: {', '.join(sorted(unsteady))}" if unsteady else ""
        if not broken:
            return True, f"{len(kept)} tests passed at the base and pass still, in {after.duration_s:.1f} s{noted}"
        findings = [f"{id}: passed at the base, {_became(after, id)}" for id in broken]
        return False, told([*findings, *_end(after, self._limit_s)]) + noted

    async def _base(self, candidate: Candidate) -> SessionReport:
        async with self._running:
            found = self._at_base.get(candidate.base)
            if found is None:
                found = await self._run(evolve(candidate, commit=candidate.base, confirmation=1))
                while len(self._at_base) >= _MOST_BASES:
                    del self._at_base[next(iter(self._at_base))]
                self._at_base[candidate.base] = found
            return found

    async def _unsteady(self, candidate: Candidate, broken: list[str]) -> set[str]:
        """Return the tests among these that do not always pass at the base."""
        if not 0 < len(broken) <= _MOST_ASKED_AGAIN:
            return set()
        at_base = evolve(candidate, commit=candidate.base)
        found: set[str] = set()
        for repeat in range(1, _ASKED_AGAIN + 1):
            again = await self._run(at_base, tuple(broken), repeat)
            found |= {id for id in broken if id in again.nodes and not again.nodes[id].passed}
        return found

    async def _run(self, candidate: Candidate, nodes: tuple[str, ...] = (), repeat: int = 0) -> SessionReport:
        ground = await survey(candidate)
        async with candidate.checkouts.at(candidate.commit) as root:
            await lay_over(root, candidate, ground.changes, ground.judges)
            await drop_compiled(root, ground.files)
            run = await run_of(
                candidate,
                ground,
                root,
                nodes,
                python=self._python,
                limit_s=self._limit_s,
                env=self._env,
                repeat=repeat,
            )
            return await run_pytest(root, run)


def _became(report: SessionReport, id: str) -> str:
    node = report.nodes.get(id)
    return (
        f"and did not run: it was not collected{_why(report)}"
        if node is None
        else f"and {node.outcome} now\n{node.text[-_TEXT:]}"
    )


def _why(report: SessionReport) -> str:
    return f" ({report.broken[0][-_TEXT:]})" if report.broken else ""


def _end(report: SessionReport, limit_s: float) -> list[str]:
    if report.ended:
        return []
    ended = f"was killed after {limit_s:g} s" if report.code is None else f"ended with code {report.code}"
    return [f"the run {ended} before the last test was reported; its output ended with:\n{report.tail[-_TEXT:]}"]
