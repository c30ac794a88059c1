"""A validator that every test which passed at the base also passes at the commit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from math import inf

import trio
from attrs import evolve, frozen

from harnesses.coding.candidate import Candidate, Checkouts
from harnesses.coding.validators.candidate_validator import CandidateValidator, list_findings
from harnesses.coding.validators.environment import drop_compiled, lay_over
from harnesses.coding.validators.judging_context import read_context
from harnesses.coding.validators.pytest_process import MAX_SESSIONS, PytestRun, Results, run_of, run_to_end
from harnesses.coding.validators.pytest_report import CUT_SHORT, NodeReport
from harnesses.data.newest import keep_newest
from harnesses.features.errors import InvalidRequest, NotReady
from harnesses.features.feature import Feature

_TEXT = 1_000
_ASKED_AGAIN = 2
_MOST_ASKED_AGAIN = 200
_MOST_KNOWN = 8
_SHORT_S = 5.0
"""Seconds of a suite that costs about as much as the start of pytest, so that a run of it replaces one of a few tests."""


@frozen
class SuiteRun:
    """A run of the suite on a commit that is judged."""

    results: Results
    laid: tuple[str, ...]
    """Files that were restored to the base for it."""
    seed: int
    """Python's hash seed."""


class SuiteKept(CandidateValidator):
    """Runs the whole suite of the base on the commit; every test that passed at the base must pass.

    Results are cached by the contents of the worktree: the base is run once, and when a commit has passed, its run serves as
    the base's run for the next one, unless tests were changed. So each acceptance costs one run. The suite is run only at the
    first confirmation, and not at all if nothing differs from the base.

    A test that ends the process, or does not end, does not prevent the others from running: they get another session. A test
    that fails at the commit is run at the base again, twice: if it sometimes fails there, it was unsteady before, and is
    ignored.

    Args:
        python: an interpreter with the project's packages and pytest.
        limit_s: maximum seconds for one session of the suite.
        env: variables added to the clean environment.
    """

    side_by_side = True
    runs_everything = True
    """Always true, so that it is asked last."""

    def __init__(self, *, python: str = sys.executable, limit_s: float = 900.0, env: Mapping[str, str] | None = None) -> None:
        if not limit_s > 0:
            raise InvalidRequest(f"SuiteKept: limit_s: expected seconds above 0, was {limit_s!r}")
        self._how = PytestRun(python=python, limit_s=limit_s, env=dict(env or {}))
        self._known: dict[str, Results] = {}
        """Results of the last runs, by tree."""
        self._judged: dict[tuple[str, str], SuiteRun] = {}
        """Runs on commits that are being judged, by commit and base."""
        self._running = trio.Lock()

    def __repr__(self) -> str:
        return "SuiteKept()"

    def is_like(self, how: PytestRun) -> bool:
        """Return whether it runs tests with this interpreter and environment."""
        return (self._how.python, self._how.env) == (how.python, how.env)

    @property
    def proves(self) -> bool:
        """Always false: it runs only tests that passed before, which proves nothing new."""
        return False

    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Run the suite, and compare.

        Raises:
            NotReady: the suite does not run to its end at the base.
        """
        tree_of = candidate.checkouts.tree_of
        tree = await tree_of(candidate.commit)
        if tree == await tree_of(candidate.base):
            return True, "no file differs from the base, so the tests that passed there pass"
        if candidate.confirmation > 1:
            return True, "the suite is run only at the first confirmation"
        kept = await self._kept(candidate)
        run = self._judged.pop((candidate.commit, candidate.base), None)
        if not kept:
            if run is not None and not run.laid:
                self.know(tree, run.results)
            return True, "no test passed at the base, so there is none to compare"
        run = run or await self._run_commit(candidate, kept)
        after = run.results
        if after.bent:
            return False, list_findings(list(after.bent))
        broken = [id for id in kept if not after.passed(id)]
        unsteady = await self._unsteady(candidate, [id for id in broken if after.whole or id in after.nodes])
        broken = [id for id in broken if id not in unsteady]
        noted = f"; unsteady at the base, so ignored: {', '.join(sorted(unsteady))}" if unsteady else ""
        if broken:
            return False, list_findings(_findings(after, broken, self._how.limit_s)) + noted
        if not run.laid:
            self._remember(tree, after)
        return True, f"{len(kept)} tests passed at the base and still pass, in {after.duration_s:.1f} s{noted}"

    async def judge_if_short(self, candidate: Candidate, limit_s: float) -> SuiteRun | None:
        """Run the suite on a commit, and keep the run for `find`; None if the suite is long, or was not run at the base.

        Args:
            limit_s: maximum seconds, if it is less than the suite's own; a run that was cut off is not kept.
        """
        before = self._known.get(await candidate.checkouts.tree_of(candidate.base))
        if before is None or not before.whole or before.bent or before.duration_s > _SHORT_S:
            return None
        run = await self._run_commit(candidate, tuple(filter(before.passed, before.nodes)), limit_s)
        if run.results.whole:
            keep_newest(self._judged, (candidate.commit, candidate.base), run, _MOST_KNOWN)
        return run

    async def known(self, checkouts: Checkouts, commit: str) -> Mapping[str, NodeReport]:
        """Return the outcomes of a whole run of the suite on the files of a commit; empty if there was none."""
        found = self._known.get(await checkouts.tree_of(commit))
        return {} if found is None or found.bent or not found.whole else found.nodes

    def know(self, tree: str, results: Results) -> None:
        """Take a run of the suite on files that are not judged, which somebody else has made with the same interpreter."""
        if results.whole and not results.bent:
            self._remember(tree, results)

    async def _run_commit(self, candidate: Candidate, kept: Sequence[str], limit_s: float = inf) -> SuiteRun:
        return await self._run(candidate, go_on=lambda results: not _cut(results, kept), limit_s=limit_s)

    async def _kept(self, candidate: Candidate) -> tuple[str, ...]:
        """Return the tests that pass at the base."""
        async with self._running:
            tree = await candidate.checkouts.tree_of(candidate.base)
            if tree not in self._known:
                found = (await self._run(evolve(candidate, commit=candidate.base, confirmation=1))).results
                if not found.whole:
                    raise NotReady(
                        f"the suite cannot be run at the base {candidate.base}: expected it to end within at most "
                        f"{MAX_SESSIONS} sessions, reached {len(found.nodes)} tests; {_end(found, self._how.limit_s)}"
                    )
                self._remember(tree, found)
            return tuple(filter(self._known[tree].passed, self._known[tree].nodes))

    async def outcomes(self, candidate: Candidate) -> Mapping[str, NodeReport]:
        """Return the outcomes of a whole run of the suite on a commit that holds accepted work alone; it is run once.

        Raises:
            NotReady: the suite does not run to its end there.
        """
        await self._kept(candidate)
        return await self.known(candidate.checkouts, candidate.base)

    def _remember(self, tree: str, results: Results) -> None:
        keep_newest(self._known, tree, results, _MOST_KNOWN)

    async def _unsteady(self, candidate: Candidate, broken: Sequence[str]) -> set[str]:
        """Return those of the tests that do not always pass at the base."""
        if not 0 < len(broken) <= _MOST_ASKED_AGAIN:
            return set()
        at_base = evolve(candidate, commit=candidate.base)
        found: set[str] = set()
        for repeat in range(1, _ASKED_AGAIN + 1):
            again = (await self._run(at_base, broken, repeat)).results
            if not again.order:
                # Unstable ids (built from addresses) are not found again: pytest then runs nothing at all.
                again = (await self._run(at_base, sorted({id.partition("::")[0] for id in broken}), repeat)).results
            found |= {id for id in broken if (again.whole or id in again.nodes) and not again.passed(id)}
        return found

    async def _run(
        self,
        candidate: Candidate,
        nodes: Sequence[str] = (),
        repeat: int = 0,
        *,
        go_on: Callable[[Results], bool] = lambda _: True,
        limit_s: float = inf,
    ) -> SuiteRun:
        """Return the outcomes of tests at a commit, with the tests of the base."""
        context = await read_context(candidate)
        async with candidate.checkouts.at(candidate.commit) as root:
            laid = await lay_over(root, candidate, context.changes, context.judges)
            await drop_compiled(root, context.files)
            how = evolve(self._how, limit_s=min(limit_s, self._how.limit_s))
            run = await run_of(candidate, context, root, nodes, how, repeat)
            return SuiteRun(await run_to_end(root, run, go_on=go_on), laid, run.seed)


def _cut(results: Results, kept: Sequence[str]) -> bool:
    """Return whether one of these tests ended the process, or did not end."""
    return any(results.nodes[id].outcome == CUT_SHORT for id in kept if id in results.nodes)


def _findings(after: Results, broken: Sequence[str], limit_s: float) -> list[str]:
    """Return a finding for each test that no longer passes; those that ran come first."""
    ran = [id for id in broken if id in after.nodes]
    findings = [f"{id}: passed at the base, now {after.nodes[id].outcome}\n{after.nodes[id].text[-_TEXT:]}" for id in ran]
    if after.whole or not ran:
        gone = [id for id in broken if id not in after.nodes]
        findings += [f"{id}: passed at the base, now did not run: it was not collected{_why(after, id)}" for id in gone]
    return findings if after.whole else [*findings, _end(after, limit_s)]


def _why(results: Results, id: str) -> str:
    text = results.broken.get(id.partition("::")[0], "")
    return f" ({text[-_TEXT:]})" if text else ""


def _end(results: Results, limit_s: float) -> str:
    last = results.last
    ended = f"was killed after {limit_s:g} s" if last.code is None else f"ended with code {last.code}"
    return f"the run {ended} before the last test was reported; its output ended with:\n{last.tail[-_TEXT:]}"
