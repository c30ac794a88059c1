"""Validates that the tests of a feature, as they are at the base, pass at the commit, and fail there when inverted.

See `inverted_tests` for what inverting shows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TypeAlias

import trio
from attrs import evolve

from harnesses.coding.candidate import Candidate
from harnesses.coding.validators.candidate_validator import CandidateValidator, list_findings
from harnesses.coding.validators.environment import drop_compiled, lay_over
from harnesses.coding.validators.inverted_tests import turn_round
from harnesses.coding.validators.judging_context import JudgingContext, read_context
from harnesses.coding.validators.node_survey import NodeSurveys, count_passing
from harnesses.coding.validators.pytest_process import PytestRun, Results, run_of, run_pytest, run_to_end
from harnesses.coding.validators.pytest_report import CUT_SHORT, NodeReport, SessionReport, answering, node_in
from harnesses.coding.validators.suite_kept import SuiteKept
from harnesses.coding.validators.tests_kept import TestsKept
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature

_TEXT = 1_500
_ASKED_TWICE = 2
_ALONE = 2
"""Confirmations after the first, up to this one, run the tests of the feature alone."""
_Told: TypeAlias = tuple[SessionReport, int, tuple[str, ...]]
"""Outcomes of tests, Python's hash seed, and the files that were restored to the base for them."""
_BOTH = "passes, and also passes when inverted: its result does not come from the program's behaviour"


class PytestNodes(CandidateValidator):
    """Runs pytest nodes in a new worktree of the commit, in which all judging files are as at the base.

    A feature is proven if each of its nodes was collected and passed in setup, call and teardown, neither skipped nor expected
    to fail, in a session that ran to its end. The base decides what a test is: a test that the commit changes is run
    unchanged, and a commit that `TestsKept` refuses is refused, because once merged it would judge the next feature.

    The first confirmation takes the outcomes from the run of the whole suite, where `SuiteKept` makes one and it is short. The
    third one also runs the tests of other features that pass by now, which need no third run of their own after the merge.

    At the first confirmation the tests are also run inverted (`turn_round`); a test that passes both ways is refused. At every
    second one, pytest's typical effects on a process are disabled: capture, its log handler, faulthandler, its debugger.

    No run can tell whether code computes an answer or contains the expected answers: that takes more demanding tests, or a
    reader. Code under test runs in the process of its tests; it is watched there, not isolated. Processes that it starts are
    not watched.

    Args:
        nodes: node ids; by default the steps of the feature, each a node id or `pytest <node id>`.
        python: an interpreter with the project's packages and pytest.
        limit_s: maximum seconds for the whole session.
        env: variables added to the clean environment.
        side_by_side: whether confirmations may run at the same time; False for tests that use something of which the machine
            has one, such as a fixed port.
    """

    def __init__(
        self,
        nodes: Iterable[str] | None = None,
        *,
        python: str = sys.executable,
        limit_s: float = 300.0,
        env: Mapping[str, str] | None = None,
        side_by_side: bool = True,
    ) -> None:
        if not limit_s > 0:
            raise InvalidRequest(f"PytestNodes: limit_s: expected seconds above 0, was {limit_s!r}")
        self.nodes = None if nodes is None else tuple([nodes] if isinstance(nodes, str) else nodes)
        if self.nodes == ():
            raise InvalidRequest("PytestNodes: nodes: expected one or more, was none; leave it out for the feature's steps")
        self._how = PytestRun(python=python, limit_s=limit_s, env=dict(env or {}))
        self._guard: TestsKept | None = TestsKept()
        self._surveys = NodeSurveys()
        self._suite: SuiteKept | None = None
        self.side_by_side = side_by_side

    def beside(self, others: Sequence[object]) -> PytestNodes:
        """Return a copy without its guard if a `TestsKept` is among the others, which then decides about changed tests.

        The copy uses the runs of a `SuiteKept` with the same interpreter and environment that is among the others.
        """
        suite = next((one for one in others if isinstance(one, SuiteKept) and one.is_like(self._how)), None)
        is_guarded = any(isinstance(one, TestsKept) for one in others)
        if suite is None and not is_guarded:
            return self
        other = copy(self)
        other._guard = None if is_guarded else self._guard
        other._suite, other._surveys = suite, NodeSurveys()
        return other

    def expect(self, features: Sequence[Feature]) -> None:
        """Have one run of the tests tell about all of these features, where they are judged at a commit of accepted work."""
        if self.nodes is None:
            self._surveys.listed = tuple(dict.fromkeys(node_in(step) for one in features for step in one.steps))
            self._surveys.pending = frozenset(node_in(step) for one in features if not one.passes for step in one.steps)

    def __repr__(self) -> str:
        return f"PytestNodes({', '.join(self.nodes or ())})"

    @property
    def proves(self) -> bool:
        """Always true: it runs the tests."""
        return True

    async def find(self, feature: Feature, candidate: Candidate) -> tuple[bool, str]:
        """Run the nodes and return their outcomes."""
        nodes = self.nodes if self.nodes is not None else tuple(node_in(step) for step in feature.steps)
        if not nodes:
            raise InvalidRequest(f"feature {feature.id!r} has no tests: expected pytest node ids as its steps, was none")
        if candidate.commit == candidate.base:
            if count := await self._passing_in_survey(candidate, nodes):
                return True, f"`pytest {' '.join(nodes)}`: {count} passed in a run of all features at this commit"
            if candidate.before_work and (failed := await self._failing_in_suite(candidate, nodes)):
                return False, f"`pytest {' '.join(nodes)}` in a run of all tests at this commit\n{list_findings(failed)}"
        if self._guard is not None:
            kept, why = await self._guard.find(feature, candidate)
            if not kept:
                return False, why
        context = await read_context(candidate, named=_modules(nodes))
        told = await self._told_by_suite(candidate, context, nodes) or await self._told_with_pending(candidate, context, nodes)
        report, seed, laid = told or await self._run(candidate, context, nodes)
        findings = node_findings(report, nodes, self._how.limit_s)
        additions = "".join(f", {key}={value}" for key, value in sorted(self._how.env.items()))
        said = [f"`pytest {' '.join(nodes)}` with PYTHONHASHSEED={seed}{additions}"]
        if laid:
            said.append(f"restored to the base before the run: {', '.join(laid[:10])}")
        if findings:
            tail = [] if report.ended and report.nodes else [f"its output ended with:\n{report.tail[-_TEXT:]}"]
            return False, "\n".join([*said, list_findings(findings), *tail])
        passed = [found.id for node in nodes for found in answering(report.nodes, node)]
        if context.changes and candidate.confirmation == 1:
            both = await self._passing_both(candidate, context, passed)
            if both:
                return False, "\n".join([*said, list_findings([f"{id}: {_BOTH}" for id in both])])
        return True, "\n".join([*said, f"{len(passed)} passed in {report.duration_s:.1f} s"])

    async def _run(
        self, candidate: Candidate, context: JudgingContext, nodes: Sequence[str], *, turned: Mapping[str, str] | None = None
    ) -> _Told:
        """Return the outcomes of nodes.

        Args:
            turned: source of test modules that replace those of the base.
        """
        async with candidate.checkouts.at(candidate.commit) as root:
            laid = await lay_over(root, candidate, context.changes, context.judges)
            await drop_compiled(root, context.files)
            for path, source in (turned or {}).items():
                await trio.Path(root / path).write_text(source, encoding="utf-8")
            run = await run_of(candidate, context, root, nodes, self._how)
            return await run_pytest(root, run), run.seed, laid

    async def _told_by_suite(self, candidate: Candidate, context: JudgingContext, nodes: Sequence[str]) -> _Told | None:
        """Return the outcomes of nodes from a run of the whole suite, which is needed anyway; None if they are run alone.

        The suite must treat the nodes' files as a run of their own does: as files that judge, with the same configuration.
        """
        if self._suite is None or candidate.confirmation != 1 or candidate.commit == candidate.base:
            return None
        plain = await read_context(candidate)
        if plain.config != context.config or not all(plain.side.covers(node.partition("::")[0]) for node in nodes):
            return None
        run = await self._suite.judge_if_short(candidate, self._how.limit_s)
        if run is None or not run.results.whole or not _answers(run.results.last, nodes):
            return None
        return evolve(run.results.last, broken=(), bent=tuple(run.results.bent)), run.seed, run.laid

    async def _told_with_pending(self, candidate: Candidate, context: JudgingContext, nodes: Sequence[str]) -> _Told | None:
        """Return the outcomes of nodes from a session with those of the other features that pass now; None without these.

        Its other outcomes are kept: once the commit is merged, these features are asked about.
        """
        if self._suite is None or candidate.confirmation <= _ALONE or candidate.commit == candidate.base:
            return None
        passing = self._surveys.passing_pending(await self._suite.known(candidate.checkouts, candidate.commit))
        asked = tuple(dict.fromkeys((*nodes, *passing)))
        wider = await read_context(candidate, named=_modules(asked))
        if asked == tuple(nodes) or wider.config != context.config:
            return None
        told = report, _, laid = await self._run(candidate, wider, asked)
        if not report.ended or report.broken or not _answers(report, nodes):
            return None
        if not laid and not report.bent:
            tree = await candidate.checkouts.tree_of(candidate.commit)
            self._surveys.keep(tree, candidate.confirmation, report.nodes)
        return told

    async def _failing_in_suite(self, candidate: Candidate, nodes: Sequence[str]) -> list[str]:
        """Return how tests of the nodes failed in the run of the suite at this commit; empty if one did not run there."""
        if self._suite is None:
            return []
        known = await self._suite.known(candidate.checkouts, candidate.commit)
        found = [answering(known, node) for node in nodes]
        return [_failure(each) for of_node in found for each in of_node if not each.passed] if all(found) else []

    async def _passing_in_survey(self, candidate: Candidate, nodes: Sequence[str]) -> int:
        """Return how many tests of the nodes passed in a run for all features at this commit; 0 if they have to run alone."""
        tree, first = await candidate.checkouts.tree_of(candidate.commit), dict[str, NodeReport]()
        if self._suite is not None and len(self._surveys.listed) > 1:
            first = dict(await self._suite.outcomes(candidate))
            if candidate.confirmation == 1 and any(answering(first, node) for node in nodes):
                return count_passing(first, nodes)

        async def run(asked: Sequence[str]) -> Results:
            context = await read_context(candidate, named=_modules(asked))
            async with candidate.checkouts.at(candidate.commit) as root:
                await drop_compiled(root, context.files)
                return await run_to_end(root, await run_of(candidate, context, root, asked, self._how), go_on=_is_uncut)

        return await self._surveys.passing(tree, candidate.confirmation, nodes, run, first)

    async def _passing_both(self, candidate: Candidate, context: JudgingContext, passed: Sequence[str]) -> list[str]:
        """Return the tests that also pass inverted; run twice, because a test may be unsteady."""
        turned, names = dict[str, str](), dict[str, set[str]]()
        for id in passed:
            path, _, name = id.partition("[")[0].partition("::")
            names.setdefault(path, set()).add(name)
        left: list[str] = []
        for path in sorted(names):
            source = await candidate.checkouts.read(candidate.base, path)
            turned[path], found = turn_round((source or b"").decode(errors="replace"), names[path])
            left += sorted(f"{path}::{name}" for name in found)
        for _ in range(_ASKED_TWICE):
            if left:
                report, _, _ = await self._run(candidate, context, left, turned=turned)
                left = [node for node in left if any(found.passed for found in answering(report.nodes, node))]
        return left


def _modules(nodes: Iterable[str]) -> list[str]:
    """Return the files of nodes."""
    return sorted({node.partition("::")[0] for node in nodes})


def _answers(report: SessionReport, nodes: Sequence[str]) -> bool:
    """Return whether a session of more tests than these nodes has run all of theirs."""
    has_all = not report.broken or all("::" in node for node in nodes)
    return has_all and all(answering(report.nodes, node) for node in nodes)


def _failure(node: NodeReport) -> str:
    return f"{node.id}: {node.outcome}\n{node.text[-_TEXT:]}".rstrip()


def _is_uncut(results: Results) -> bool:
    return all(node.outcome != CUT_SHORT for node in results.nodes.values())


def node_findings(report: SessionReport, nodes: Iterable[str], limit_s: float) -> list[str]:
    """Return why nodes are not proven; empty if they are."""
    findings = list(report.bent)
    findings += [f"could not be collected: {id}: {why}" for id, why in report.broken]
    for node in nodes:
        found = answering(report.nodes, node)
        if not found and not report.broken:
            findings.append(f"{node}: did not run")
        findings += [_failure(each) for each in found if not each.passed]
    if not report.ended:
        ended = f"killed after {limit_s:g} s" if report.code is None else f"the process ended with code {report.code}"
        findings.append(f"{ended} before the last test was reported: the program must not end the process that runs its tests")
    return findings
