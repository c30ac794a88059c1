"""Measures how long a coding harness takes beside its agent: h11 from PyPI, with two planted mistakes and a scripted agent.

`python -m tests.harnesses.coding.pace [FOLDER]`, where FOLDER holds h11's unpacked source distribution; else it is fetched.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from harnesses.coding import CodingHarness, FailingTests
from harnesses.features import FailFast, RunPolicy
from harnesses.features.feature_record import Assignment
from harnesses.features.health_checks import NoHealthCheck
from orchestrator.testing import run_to_end
from tests.harnesses.coding.coding_parts import agent
from tests.harnesses.coding.git_repositories import make_repository

MISTAKES = (
    ("h11/_headers.py", "    out: List[bytes] = []\n", "    raise NotImplementedError\n    out: List[bytes] = []\n"),
    (
        "h11/_receivebuffer.py",
        "        if self._data[:1] ==",
        "        raise NotImplementedError\n        if self._data[:1] ==",
    ),
)
"""Files, and what is right and wrong in them."""


def planted(source: Path) -> dict[str, str]:
    """Return the files of h11 with its mistakes."""
    files = {str(path.relative_to(source)): path.read_text() for path in sorted(source.glob("h11/**/*")) if path.is_file()}
    files["pytest.ini"] = "[pytest]\ntestpaths = h11/tests\n"
    for path, right, wrong in MISTAKES:
        assert right in files[path], (path, right)
        files[path] = files[path].replace(right, wrong, 1)
    return files


def correct(asked: Assignment, tree: Path) -> None:
    """Correct the first mistake file that is still there."""
    for path in dict.fromkeys(path for path, _, _ in MISTAKES):
        source = (tree / path).read_text()
        corrected = source
        for at, right, wrong in MISTAKES:
            corrected = corrected.replace(wrong, right) if at == path else corrected
        if corrected != source:
            turns.append(asked.feature.id)
            (tree / path).write_text(corrected)
            return


turns = list[str]()


async def measure(source: Path, folder: Path) -> None:
    """Run the harness once, and print what it took."""
    user, env = make_repository(folder / "user.git", planted(source), bare=True), {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    suite = _seconds(lambda: subprocess.run([sys.executable, "-m", "pytest", "-q", source], capture_output=True, check=False))
    lenient = FailFast(on_validation_failure=False)
    policy = RunPolicy(mode="unlimited_batch", max_turns_per_feature=2, max_retries_per_feature=1, fail_fast=lenient)
    harness = CodingHarness(
        user, agent(correct), FailingTests(env=env), policy=policy, workspace=folder / "space", health_check=NoHealthCheck()
    )
    began, before = time.monotonic(), _used()
    end = await run_to_end(harness)
    wall, cpu = time.monotonic() - began, _used() - before
    passed = sum(one.passes for one in harness.state.features)
    steps = len(end.steps)
    print(f"{end.outcome.kind}: {passed} of {len(harness.state.features)} features, {len(turns)} agent turns, {steps} steps")
    print(
        f"one run of the suite: {suite[0]:.1f} s ({suite[1]:.1f} s of processors); "
        f"in all: {wall:.1f} s ({cpu:.1f} s of processors)"
    )


def _seconds(run: Callable[[], object]) -> tuple[float, float]:
    began, before = time.monotonic(), _used()
    run()
    return time.monotonic() - began, _used() - before


def _used() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def main() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        if sys.argv[1:]:
            source = Path(sys.argv[1])
        else:
            fetch = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--no-binary",
                ":all:",
                "h11==0.16.0",
                "-d",
                name,
            ]
            subprocess.run(fetch, check=True, timeout=120)
            with tarfile.open(next(folder.glob("h11*.tar.gz"))) as packed:
                packed.extractall(folder, filter="data")
            source = next(path for path in folder.glob("h11*") if path.is_dir())
        trio.run(measure, source, folder)


if __name__ == "__main__":
    main()
