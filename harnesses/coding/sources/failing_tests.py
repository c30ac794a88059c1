"""Features out of the tests of a repository: each one that fails is something to be done.

    all tests ──run──►  those that fail ──run again──►  those that fail again ──►  features

They are run as the validator runs them: by the same plugin, in the same clean environment. A test that ends the process, or
does not end within the limit, fails; the others are run without it.
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
    """The tests that fail at the commit that the work begins from.

    Args:
        python: the interpreter that has the project's packages, and pytest.
        paths: files, directories or node ids to look at; none stands for what the project's configuration says.
        limit_s: seconds for a session; when it is over, the test that is running has failed, and the others go on.
        args: more arguments for pytest.
        env: additions to the clean environment.
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
        self.notes: tuple[str, ...] = ()
        """What a person should know of the last load: which failing tests are no features, and why."""

    def __repr__(self) -> str:
        return f"FailingTests({', '.join(self._paths)})"

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return what proves such a feature: its test passes, no test was weakened, and what passed passes still."""
        how: dict[str, Any] = {"python": self._how.python, "limit_s": self._how.limit_s, "env": self._how.env}
        return PytestNodes(**how) & TestsKept() & SuiteKept(**how)

    async def load(self, checkout: Path) -> tuple[Feature, ...]:
        """Run the tests and return a feature for each that fails, in the order in which pytest finds them.

        Raises:
            NothingToDo: no test fails, or there is none.
            NotReady: pytest cannot be run, or does not come to the first test.
        """
        run = await self._run_of(checkout)
        first = await self._results(checkout, run)
        failures, hopeless = await trio.to_thread.run_sync(_failures, first, checkout)
        again: dict[str, str | None] = {one.node: one.message for one in failures if one.node in first.sure}
        doubtful = [one for one in failures if one.node not in first.sure]
        again |= await self._run_again(checkout, run, doubtful) if doubtful else {}
        unsteady = [f"left out, for it fails once and passes once: {id}" for id, message in again.items() if message is None]
        self.notes = (*hopeless, *unsteady)
        found = steady(failures, again)
        if not found:
            passed = sum(node.outcome == "passed" for node in first.nodes.values())
            rest = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise NothingToDo(
                f"there is nothing to do: expected tests that fail, was {passed} that pass{rest}; "
                "add a test for what is wanted, or give a feature list"
            )
        return features_of(found)

    async def _run_of(self, checkout: Path) -> PytestRun:
        """Return how pytest is run here: as the validator would run it."""
        candidate = Candidate(commit="0" * 40, base="0" * 40, checkouts=_Directory(checkout))
        context = await read_context(candidate, named=[_within(checkout, _module(path)) for path in self._paths])
        run = await run_of(candidate, context, checkout, (), self._how)
        return evolve(run, nodes=self._paths, args=self._args)

    async def _run_again(self, checkout: Path, run: PytestRun, failures: Sequence[Failure]) -> dict[str, str | None]:
        """Run what has failed once more, with other hashes, and return the messages; None for what passes."""
        run = evolve(run, seed=run.seed + 1)
        try:
            results = await self._results(checkout, evolve(run, nodes=tuple(one.node for one in failures)))
        except NotReady:
            # Ids that are others each time, made of addresses or of sets, are not found: pytest then runs nothing at all.
            modules = dict.fromkeys(_module(one.node) for one in failures)
            results = await self._results(checkout, evolve(run, nodes=tuple(modules)))
        failed, _ = await trio.to_thread.run_sync(_failures, results, checkout)
        messages = {one.node: one.message for one in failed}
        return {one.node: messages.get(one.node) for one in failures}

    async def _results(self, checkout: Path, run: PytestRun) -> Results:
        """Run tests to the end.

        Raises:
            NotReady: pytest does not come to the first test.
        """
        results = await run_to_end(checkout, run, go_on=self._has_begun)
        if results.whole:
            return results
        raise InvalidRequest(
            f"more than {MAX_SESSIONS} tests end their process or outlast {self._how.limit_s:g} s, the last one "
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
            f"pytest {ended} before the first test: expected it to find tests; mend this first:\n"
            f"{report.tail.strip()[-_TAIL:]}"
        )


@frozen
class _Directory:
    """A worktree as what the validators look at."""

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
    """Return what fails, and notes on what fails and could be mended by a change to the tests alone."""
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
            notes.append(f"left out, for it passes and is marked to fail: {id}")
            continue
        message, docstring = message_in(node.text, root), docstring_in(sources[_module(id)], id)
        failures.append(Failure(node=id, message=message, docstring=docstring))
    for id, text in results.broken.items():
        message = message_in(text, root, is_module=True)
        if message.startswith(("SyntaxError", "IndentationError", "TabError")) and not is_python(sources[_module(id)]):
            notes.append(f"left out, for it is no Python: {id}: {message}")
        else:
            failures.append(Failure(node=id, message=message, is_module=True))
    return tuple(failures), tuple(notes)


def _within(checkout: Path, path: str) -> str:
    """Return a file in a directory, or the file itself: the configuration is looked for from there upward."""
    return f"{path.rstrip('/')}/conftest.py" if (checkout / path).is_dir() else path


def _module(node: str) -> str:
    return node.partition("::")[0]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
