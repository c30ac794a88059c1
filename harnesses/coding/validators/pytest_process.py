"""Runs pytest on a worktree, in a process of its own, and believes nothing but what its plugin has reported.

The report goes into a file that the judge has open and that loses its name before any code of the worktree is loaded. Its
lines are sealed with a key that only the plugin was given. The exit code and the output say nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import trio
from attrs import evolve, field, frozen

from harnesses.coding.validators.environment import Environment, fresh_environment
from harnesses.coding.validators.pytest_report import SessionReport, read_report
from harnesses.processes.bounded_command import run_bounded

_PLUGIN = Path(__file__).with_name("in_process") / "pytest_plugin.py"
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
