"""A source of features: each failing test of a repository becomes a feature.

    all tests ──run──►  failing ones ──run again──►  those that fail again ──►  features

The tests run as for the validator: with the same plugin, in the same clean environment. A test that ends the process or
exceeds the time limit counts as failed; the others are then run without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, frozen

from harnesses.coding.candidate import Candidate, Change
from harnesses.coding.sources.failing_nodes import Failure, docstring_in, features_of, is_python, message_in, steady
from harnesses.coding.sources.problems import NothingToDo
from harnesses.coding.validators.judging_context import read_context
from harnesses.coding.validators.pytest_nodes import PytestNodes
from harnesses.coding.validators.pytest_process import MAX_SESSIONS, PytestRun, Results, has_begun, run_of, run_to_end
from harnesses.coding.validators.pytest_report import CUT_SHORT
from harnesses.coding.validators.suite_kept import SuiteKept
from harnesses.coding.validators.tests_kept import TestsKept
from harnesses.features.errors import InvalidRequest, NotReady
from harnesses.features.feature import Feature
from harnesses.features.feature_validators import OutcomeValidator

_TAIL = 1_500
_FAILS = frozenset({"failed", CUT_SHORT})
_STRICT = "[XPASS(strict)]"


class FailingTests:
    """The tests that fail at the commit at which the work starts.

    Args:
        python: an interpreter with the project's packages and pytest.
        paths: files, directories or node ids to run; empty uses the project's configuration.
        limit_s: maximum seconds for a session; at the limit the running test counts as failed, and the others continue.
        args: additional arguments for pytest.
        env: variables added to the clean environment.
    """

    def __init__(
        self,
        *,
        python: str = sys.executable,
        paths: Iterable[str] = (),
        limit_s: float = 600.0,
        args: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        if not limit_s > 0:
            raise InvalidRequest(f"FailingTests: limit_s: expected seconds above 0, was {limit_s!r}")
        self._how = PytestRun(python=python, limit_s=limit_s, env=dict(env or {}))
        self._paths = (paths,) if isinstance(paths, str) else tuple(paths)
        self._args = (args,) if isinstance(args, str) else tuple(args)
        self._suite: SuiteKept | None = None
        self._first: Results | None = None
        """The outcomes of the last load."""
        self.notes: tuple[str, ...] = ()
        """Notes on the last load for people: which failing tests did not become features, and why."""

    def __repr__(self) -> str:
        return f"FailingTests({', '.join(self._paths)})"

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return the validator for these features: the test passes, no test is weakened, and passing tests still pass."""
        how: dict[str, Any] = {"python": self._how.python, "limit_s": self._how.limit_s, "env": self._how.env}
        self._suite = SuiteKept(**how)
        return PytestNodes(**how) & TestsKept() & self._suite

    def listed_at(self, tree: str) -> None:
        """Let the validator know the outcomes of the last load, if all tests were run, so that it need not run them again.

        Args:
            tree: the files that were loaded.
        """
        if self._suite is not None and self._first is not None and not self._paths and not self._args:
            self._suite.know(tree, self._first)

    async def load(self, checkout: Path) -> tuple[Feature, ...]:
        """Run the tests and return a feature for each failing one, in pytest's order.

        Raises:
            NothingToDo: no test fails, or there are none.
            NotReady: pytest cannot be run, or ends before the first test.
        """
        run = await self._run_of(checkout)
        first = self._first = await self._results(checkout, run)
        failures, hopeless = await trio.to_thread.run_sync(_failures, first, checkout)
        again: dict[str, str | None] = {one.node: one.message for one in failures if one.node in first.sure}
        doubtful = [one for one in failures if one.node not in first.sure]
        again |= await self._run_again(checkout, run, doubtful) if doubtful else {}
        unsteady = [f"left out, because it fails only sometimes: {id}" for id, message in again.items() if message is None]
        self.notes = (*hopeless, *unsteady)
        found = steady(failures, again)
        if not found:
            passed = sum(node.outcome == "passed" for node in first.nodes.values())
            rest = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise NothingToDo(
                f"there is nothing to do: expected tests that fail, was {passed} that pass{rest}; "
                "add a test for the wanted behaviour, or give a feature list"
            )
        return features_of(found)

    async def _run_of(self, checkout: Path) -> PytestRun:
        """Return the options for pytest, the same as the validator's."""
        candidate = Candidate(commit="0" * 40, base="0" * 40, checkouts=_Directory(checkout))
        context = await read_context(candidate, named=[_within(checkout, _module(path)) for path in self._paths])
        run = await run_of(candidate, context, checkout, (), self._how)
        return evolve(run, nodes=self._paths, args=self._args)

    async def _run_again(self, checkout: Path, run: PytestRun, failures: Sequence[Failure]) -> dict[str, str | None]:
        """Run the failed tests again with another hash seed, and return their messages; None for those that pass."""
        run = evolve(run, seed=run.seed + 1)
        try:
            results = await self._results(checkout, evolve(run, nodes=tuple(one.node for one in failures)))
        except NotReady:
            # Unstable ids (built from addresses or sets) are not found again: pytest then runs nothing at all.
            modules = dict.fromkeys(_module(one.node) for one in failures)
            results = await self._results(checkout, evolve(run, nodes=tuple(modules)))
        failed, _ = await trio.to_thread.run_sync(_failures, results, checkout)
        messages = {one.node: one.message for one in failed}
        return {one.node: messages.get(one.node) for one in failures}

    async def _results(self, checkout: Path, run: PytestRun) -> Results:
        """Run tests to the end.

        Raises:
            NotReady: pytest ends before the first test.
        """
        results = await run_to_end(checkout, run, go_on=self._has_begun)
        if results.whole:
            return results
        raise InvalidRequest(
            f"more than {MAX_SESSIONS} tests end their process or exceed {self._how.limit_s:g} s, the last one "
            f"{list(results.nodes)[-1]}: expected tests that end; give `paths` without them"
        )

    def _has_begun(self, results: Results) -> bool:
        report = results.last
        if report.collected or report.broken:
            return True
        if has_begun(report):
            where = f"in {', '.join(self._paths)}" if self._paths else "where pytest looks"
            raise NothingToDo(f"there is nothing to do: expected tests {where}, was none; add some, or give `paths`")
        python = self._how.python
        if "No module named 'pytest'" in report.tail:
            raise NotReady(
                f"{python} has no pytest: expected it installed there; run {python} -m pip install pytest, "
                "or give the `python` that has the project's packages"
            )
        if report.code in (126, 127):
            raise NotReady(f"python {python!r} cannot be run: {report.tail.strip()[-200:]}; give another `python`")
        ended = f"was killed after {self._how.limit_s:g} s" if report.code is None else f"ended with code {report.code}"
        raise NotReady(
            f"pytest {ended} before the first test: expected it to find tests; fix this first:\n{report.tail.strip()[-_TAIL:]}"
        )


@frozen
class _Directory:
    """A worktree in the form that the validators read."""

    root: Path

    @asynccontextmanager
    async def at(self, commit: str) -> AsyncGenerator[Path]:
        yield self.root

    async def tree_of(self, commit: str) -> str:
        return commit

    async def files(self, commit: str) -> tuple[str, ...]:
        return await trio.to_thread.run_sync(self._files)

    async def read(self, commit: str, path: str) -> bytes | None:
        return await trio.to_thread.run_sync(_content, self.root / path)

    async def changes(self, base: str, commit: str) -> tuple[Change, ...]:
        return ()

    def _files(self) -> tuple[str, ...]:
        found: list[str] = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name != ".git"]
            found += [Path(folder, name).relative_to(self.root).as_posix() for name in names]
        return tuple(sorted(found))


def _failures(results: Results, checkout: Path) -> tuple[tuple[Failure, ...], tuple[str, ...]]:
    """Return the failures, and notes on those that only a change to the tests could fix."""
    root = os.path.realpath(checkout)
    sources = {
        path: (_content(checkout / path) or b"").decode(errors="replace")
        for path in {_module(id) for id in (*results.order, *results.broken)}
    }
    failures: list[Failure] = []
    notes: list[str] = []
    for id in results.order:
        node = results.nodes.get(id)
        if node is None or node.outcome not in _FAILS:
            continue
        if node.text.startswith(_STRICT):
            notes.append(f"left out, because it passes but is marked xfail: {id}")
            continue
        message, docstring = message_in(node.text, root), docstring_in(sources[_module(id)], id)
        failures.append(Failure(node=id, message=message, docstring=docstring))
    for id, text in results.broken.items():
        message = message_in(text, root, is_module=True)
        if message.startswith(("SyntaxError", "IndentationError", "TabError")) and not is_python(sources[_module(id)]):
            notes.append(f"left out, because it is not valid Python: {id}: {message}")
        else:
            failures.append(Failure(node=id, message=message, is_module=True))
    return tuple(failures), tuple(notes)


def _within(checkout: Path, path: str) -> str:
    """Return a file in a directory, or the file itself; the configuration is searched upwards from there."""
    return f"{path.rstrip('/')}/conftest.py" if (checkout / path).is_dir() else path


def _module(node: str) -> str:
    return node.partition("::")[0]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
