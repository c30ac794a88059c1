"""Runs pytest on a worktree in separate processes, and trusts only the reports of its plugin.

Reports go into a file that the judge has open and that loses its name before any code of the worktree is loaded. Each line is
sealed with a key that only the plugin has. The exit code and the output are not evidence.

Tests are run to the end in as many sessions as needed:

    session 1: a passed, b failed, c ended the process
    session 2:                                          d passed, e exceeded the limit
    session 3:                                                                          f passed

Invariants: every reported outcome was observed; a test that was running when its session was cut off is marked as cut short;
and the report says whether every test was reached.
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
"""Its path is on the command line, which the judged code can read, so the name must not reveal that a test is run."""
_MOST_REPORT = 64 * 1024 * 1024


@frozen(kw_only=True)
class PytestRun:
    """What pytest should run, and its options."""

    nodes: tuple[str, ...] = ()
    """Node ids or paths; empty uses the configuration's."""
    args: tuple[str, ...] = ()
    """Additional arguments."""
    config: str | None = None
    """The configuration file, relative to the root; None uses an empty configuration."""
    settings: Mapping[str, object] = field(factory=dict[str, object])
    """Its pytest settings."""
    preload: tuple[str, ...] = ()
    """Modules of other packages to load first, before the worktree can shadow them."""
    own: tuple[str, ...] = ()
    """The repository's top-level modules at the base: an installed copy that a plugin has loaded is not what is tested."""
    watched: tuple[str, ...] = ()
    """Files of the worktree that must not inspect the stack or write elsewhere."""
    tests: tuple[str, ...] = ()
    """Judging files of the worktree, which the watched files must not write, nor read without being given their path."""
    test_names: tuple[str, ...] = ()
    """Names used in the tests; values that equal everything may belong to the tests."""
    may_look: tuple[str, ...] = ()
    """Watched files that already inspected the stack before."""
    bare: bool = False
    """Whether to disable pytest's typical effects on a process: capture, its log handler, faulthandler, its debugger."""
    trusted: bool = False
    """Whether nothing in the worktree is being judged, so that nothing needs to be watched."""
    python: str = sys.executable
    limit_s: float = 300.0
    env: Mapping[str, str] = field(factory=dict[str, str])
    """Variables added to the clean environment."""
    seed: int = 0
    """Python's hash seed."""


async def run_of(
    candidate: Candidate,
    context: JudgingContext,
    root: Path,
    nodes: Sequence[str],
    how: PytestRun,
    repeat: int = 0,
) -> PytestRun:
    """Return the options for running pytest on a worktree with the tests of the base.

    Args:
        how: interpreter, limit and environment to use.
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
        own=tuple(sorted(top_names(context.files) - _RUNNERS)),
        watched=context.product,
        tests=tuple(path for path in context.files if context.side.covers(path) and not is_left_behind(path)),
        test_names=tuple(sorted(used)),
        may_look=tuple(path for path, source in before.items() if looks_at_stack(source)),
        bare=candidate.confirmation % 2 == 0,
        trusted=not context.changes,
        seed=hash_seed(candidate.commit, candidate.confirmation) + 1_000 * repeat,
    )


async def run_pytest(root: Path, run: PytestRun) -> SessionReport:
    """Run pytest on a worktree and return its report."""
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
        # A module that cannot be collected must not prevent the others from running.
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
        # A plugin of the project that is named on the command line is loaded before it could be checked.
        "early_path": "-p" in str(run.settings.get("addopts", "")).replace("'", " ").replace('"', " ").split(),
        "preload": list(run.preload),
        "own": list(run.own),
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
"""Maximum sessions; each test that ends or outlasts the process costs one."""
NO_TESTS = 5
"""pytest's exit code if it found no tests."""
_WENT_THROUGH = (0, 1, NO_TESTS)
"""pytest's exit codes when it ran to the end: all passed, some failed, none found."""


@define
class Results:
    """Outcomes of tests over several sessions."""

    nodes: dict[str, NodeReport] = field(factory=dict[str, NodeReport])
    order: dict[str, None] = field(factory=dict[str, None])
    """Ids in the order in which they were found; modules that cannot be collected come last."""
    broken: dict[str, str] = field(factory=dict[str, str])
    """Modules that cannot be collected, with the reasons."""
    bent: dict[str, None] = field(factory=dict[str, None])
    """Manipulations that make a session's reports untrustworthy."""
    sure: set[str] = field(factory=set[str])
    """Tests that had the whole time limit for themselves, so that they need not be run again."""
    last: SessionReport = field(factory=SessionReport)
    whole: bool = False
    """Whether all tests were reached."""
    duration_s: float = 0.0

    def passed(self, id: str) -> bool:
        """Return whether a test ran and passed."""
        return id in self.nodes and self.nodes[id].passed

    def add(self, report: SessionReport, limit_s: float) -> tuple[str, ...]:
        """Add the report of a session, and return the tests that it did not reach."""
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
    """Run tests on a worktree until all have been reached.

    Args:
        go_on: called after each session; returns whether to continue. Its errors are raised.
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
    """Return whether a session reached its first test, or found that there is none."""
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
    """Return the modules that the modules of a worktree import, and the names that they use."""
    imported, used = set[str](), set[str]()
    for path in paths:
        try:
            source = (root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        imported |= imported_names(source)
        used |= used_names(source)
    return imported, used


_RUNNERS = frozenset({"pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", *sys.stdlib_module_names})
"""What pytest itself uses."""


def top_names(files: Iterable[str]) -> set[str]:
    """Return the names of the modules and packages in the root of a repository, and in its `src`."""
    parts = [PurePosixPath(path).parts for path in files if path.endswith(".py")]
    below: list[tuple[str, ...]] = [path[1:] if path[0] == "src" and len(path) > 1 else path for path in parts]
    return {path[0].partition(".")[0] for path in below if len(path) == 1 or path[1] == "__init__.py"}


def own_names(files: Iterable[str]) -> set[str]:
    """Return every name by which a module or package of a repository can be imported."""
    names: set[str] = set()
    for path in files:
        pure = PurePosixPath(path)
        if pure.suffix in (".py", ".pyx", ".so", ".pyd"):
            names.update((pure.name.partition(".")[0], *pure.parts[:-1]))
    return names
