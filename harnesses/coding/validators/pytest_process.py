"""Runs pytest on a worktree, in processes of its own, and believes nothing but what its plugin has reported.

The report goes into a file that the judge has open and that loses its name before any code of the worktree is loaded. Its
lines are sealed with a key that only the plugin was given. The exit code and the output say nothing.

Tests are run to the end in as many sessions as it takes:

    session 1: a passed, b failed, c ended the process
    session 2:                                          d passed, e did not end in time
    session 3:                                                                          f passed

The law: what is said of a test was seen; a test that was running when its session was cut off was cut short; and whether all
were come to is said as well.
"""

from __future__ import annotations

import ast
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

import trio
from attrs import define, evolve, field, frozen

from harnesses.coding.candidate import Candidate
from harnesses.coding.validators.cheating_signs import looks_at_stack
from harnesses.coding.validators.environment import Environment, fresh_environment, hash_seed
from harnesses.coding.validators.judging_context import JudgingContext, is_left_behind
from harnesses.coding.validators.pytest_report import CUT_SHORT, NodeReport, SessionReport, read_report
from harnesses.processes.bounded_command import run_bounded

_PLUGIN = Path(__file__).with_name("in_process") / "judge_plugin.py"
"""Its name is on the command line, which what is judged can read: it must not tell that a test is run."""
_MOST_REPORT = 64 * 1024 * 1024


@frozen(kw_only=True)
class PytestRun:
    """What pytest is to run, and how."""

    nodes: tuple[str, ...] = ()
    """Node ids or paths; none stands for all that the configuration says."""
    args: tuple[str, ...] = ()
    """More arguments."""
    config: str | None = None
    """The configuration file, from the root; None is an empty configuration."""
    settings: Mapping[str, object] = field(factory=dict[str, object])
    """What it says."""
    preload: tuple[str, ...] = ()
    """Modules of others that are loaded before the worktree can give modules of these names."""
    watched: tuple[str, ...] = ()
    """Files of the worktree that must not look at the stack, and must not write elsewhere."""
    tests: tuple[str, ...] = ()
    """Files of the worktree that judge; the watched ones must not read them of their own accord, nor write them."""
    test_names: tuple[str, ...] = ()
    """Names that tests use: what is equal to everything may be theirs."""
    may_look: tuple[str, ...] = ()
    """Those among them that did look at the stack before."""
    bare: bool = False
    """Whether to leave out what only pytest does to a process: capture, its log handler, faulthandler, its debugger."""
    trusted: bool = False
    """Whether nothing in the worktree is to be judged, so that nothing has to be watched."""
    python: str = sys.executable
    limit_s: float = 300.0
    env: Mapping[str, str] = field(factory=dict[str, str])
    """Additions to the clean environment."""
    seed: int = 0
    """Of Python's hashes."""


async def run_of(
    candidate: Candidate,
    context: JudgingContext,
    root: Path,
    nodes: Sequence[str],
    how: PytestRun,
    repeat: int = 0,
) -> PytestRun:
    """Return what pytest is to run on a worktree that has the tests of the base.

    Args:
        how: with which interpreter, limit and environment.
    """
    asked = {node.partition("::")[0] for node in nodes}
    modules = [
        path
        for path in context.files
        if path.endswith(".py") and context.side.covers(path) and (path in asked or not asked or path.endswith("conftest.py"))
    ]
    names, used = await trio.to_thread.run_sync(names_of, root, modules)
    product = [path for path in context.product if path.endswith(".py")]
    before = {path: (await candidate.checkouts.read(candidate.base, path) or b"").decode(errors="replace") for path in product}
    return evolve(
        how,
        nodes=tuple(nodes),
        config=context.config,
        settings=context.settings,
        preload=tuple(sorted(names - own_names(context.files))),
        watched=context.product,
        tests=tuple(path for path in context.files if context.side.covers(path) and not is_left_behind(path)),
        test_names=tuple(sorted(used)),
        may_look=tuple(path for path, source in before.items() if looks_at_stack(source)),
        bare=candidate.confirmation % 2 == 0,
        trusted=not context.changes,
        seed=hash_seed(candidate.commit, candidate.confirmation) + 1_000 * repeat,
    )


async def run_pytest(root: Path, run: PytestRun) -> SessionReport:
    """Run pytest on a worktree and return what became of it."""
    root = Path(await trio.to_thread.run_sync(os.path.realpath, root))
    async with fresh_environment(run.env, seed=run.seed) as around:
        key, canary = secrets.token_hex(32), f"judge-{secrets.token_hex(8)}"
        report = around.private / "report"
        with report.open("w+b", buffering=0) as held:
            settings = _settings(root, run, around, report, key, canary)
            ran = await run_bounded(
                [run.python, "-s", "-B", str(_PLUGIN), str(settings)], limit_s=run.limit_s, cwd=root, env=around.env
            )
            held.seek(0)
            lines = held.read(_MOST_REPORT)
    found = await trio.to_thread.run_sync(read_report, lines, key, canary)
    tail = ran.tail.replace(f"{root}/", "")
    return evolve(found, tail=tail, code=ran.code, duration_s=ran.duration_s, ended=found.ended and ran.code is not None)


def _settings(root: Path, run: PytestRun, around: Environment, report: Path, key: str, canary: str) -> Path:
    config = root / run.config if run.config else around.private / "pytest.ini"
    if run.config is None:
        config.write_text("[pytest]\n")
    arguments = [
        *("-c", str(config), f"--rootdir={root}", f"--confcutdir={root}"),
        # One module that cannot be collected must not keep the others from being run.
        *("--continue-on-collection-errors", "--maxfail=0", "-p", "no:stepwise", "--color=no"),
        *(["-s"] if run.bare else []),
        *run.args,
        *run.nodes,
    ]
    settings = {
        "report": str(report),
        "key": key,
        "canary": canary,
        "root": str(root),
        "path": [str(place) for place in (root, root / "src") if place == root or place.is_dir()],
        # A plugin of the project's own, named on the command line, is loaded before anything can be asked.
        "early_path": "-p" in str(run.settings.get("addopts", "")).replace("'", " ").replace('"', " ").split(),
        "preload": list(run.preload),
        "watched": list(run.watched),
        "tests": list(run.tests),
        "test_names": list(run.test_names),
        "may_look": list(run.may_look),
        "bare": run.bare,
        "trusted": run.trusted,
        "arguments": arguments,
    }
    path = around.private / "settings.json"
    path.write_text(json.dumps(settings))
    with suppress(OSError):
        path.chmod(0o600)
    return path


MAX_SESSIONS = 50
"""Tests that may end or outlast the process: each costs a session of its own."""
NO_TESTS = 5
"""What pytest ends with when it has found none."""
_WENT_THROUGH = (0, 1, NO_TESTS)
"""What it ends with when nothing made it stop: all passed, some failed, there were none."""


@define
class Results:
    """What became of tests, over several sessions."""

    nodes: dict[str, NodeReport] = field(factory=dict[str, NodeReport])
    order: dict[str, None] = field(factory=dict[str, None])
    """Ids in the order in which they were found: modules that cannot be collected come last."""
    broken: dict[str, str] = field(factory=dict[str, str])
    """What cannot be collected, with the reason."""
    bent: dict[str, None] = field(factory=dict[str, None])
    """What makes the word of a session worth nothing."""
    sure: set[str] = field(factory=set[str])
    """Tests that had the whole limit for themselves, so that they need not be run again."""
    last: SessionReport = field(factory=SessionReport)
    whole: bool = False
    """Whether all tests were come to."""
    duration_s: float = 0.0

    def passed(self, id: str) -> bool:
        """Return whether a test ran and passed."""
        return id in self.nodes and self.nodes[id].passed

    def add(self, report: SessionReport, limit_s: float) -> tuple[str, ...]:
        """Take in what a session has reported, and return the tests that it has not come to."""
        self.nodes.update(report.nodes)
        self.broken.update(report.broken)
        self.order.update(dict.fromkeys(report.collected))
        self.bent.update(dict.fromkeys(report.bent))
        self.last, self.duration_s = report, self.duration_s + report.duration_s
        if report.ended and report.code in _WENT_THROUGH:
            return ()
        running = next((id for id in report.collected if id not in report.nodes), None)
        cut = [id for id, node in report.nodes.items() if node.outcome == CUT_SHORT] or ([running] if running else [])
        why = f"it did not end within {limit_s:g} s" if report.code is None else "the process ended while it ran"
        if report.code is None and cut == list(report.collected[:1]):
            self.sure.update(cut)
        for id in cut:
            self.nodes[id] = NodeReport(id=id, passed=False, outcome=CUT_SHORT, text=why)
        return tuple(id for id in report.collected if id not in self.nodes)


async def run_to_end(root: Path, run: PytestRun, *, go_on: Callable[[Results], bool] = lambda _: True) -> Results:
    """Run tests on a worktree until all have been come to.

    Args:
        go_on: asked after each session; its error is raised.
    """
    results, left = Results(), run.nodes
    for _ in range(MAX_SESSIONS):
        report = await run_pytest(root, evolve(run, nodes=left))
        left = results.add(report, run.limit_s)
        if not go_on(results):
            break
        if not left:
            results.whole = has_begun(report)
            break
    return results


def has_begun(report: SessionReport) -> bool:
    """Return whether a session came to its first test, or found that there is none."""
    return bool(report.collected or report.broken) or (report.ended and report.code in (0, NO_TESTS))


def imported_names(source: str) -> set[str]:
    """Return the top-level modules that a module imports; none if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    nodes = list(ast.walk(tree))
    plain = {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {
        node.module.partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }


def used_names(source: str) -> set[str]:
    """Return the names and attributes that a module uses; none if it does not parse."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return set()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def names_of(root: Path, paths: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return what the modules in a worktree import, and the names that they use."""
    imported, used = set[str](), set[str]()
    for path in paths:
        try:
            source = (root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        imported |= imported_names(source)
        used |= used_names(source)
    return imported, used


def own_names(files: Iterable[str]) -> set[str]:
    """Return every name that a module or package in a repository may be imported by."""
    names: set[str] = set()
    for path in files:
        pure = PurePosixPath(path)
        if pure.suffix in (".py", ".pyx", ".so", ".pyd"):
            names.update((pure.name.partition(".")[0], *pure.parts[:-1]))
    return names
