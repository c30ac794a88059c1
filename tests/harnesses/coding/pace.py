"""Measures a coding harness beside its agent, on libraries from PyPI with planted mistakes that a scripted agent corrects.

`python -m tests.harnesses.coding.pace [FOLDER] [--only h11]`, where FOLDER holds the unpacked source distributions; else they
are fetched. tomli's has no tests: those of the standard library's `tomllib`, which are the same, are used.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import trio
from attrs import field, frozen

from harnesses.coding import CodingHarness, FailingTests
from harnesses.features import FailFast, RunPolicy
from harnesses.features.feature_record import Assignment
from harnesses.features.health_checks import NoHealthCheck
from orchestrator.testing import run_to_end
from tests.harnesses.coding.coding_parts import agent
from tests.harnesses.coding.git_repositories import git

_ENV = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@frozen
class Library:
    """A library, and where its mistakes are planted."""

    name: str
    version: str
    tests: str
    """Where its tests are."""
    kept: tuple[str, ...]
    """What of its source distribution is in the repository."""
    mistakes: tuple[tuple[str, str, str], ...]
    """Files, and what is right and wrong in them."""
    turns: list[str] = field(factory=list[str])
    """Features for which the agent was asked."""

    def plant(self, source: Path, work: Path) -> None:
        """Copy the library to `work` with its mistakes."""
        for name in self.kept:
            (shutil.copytree if (source / name).is_dir() else shutil.copy)(source / name, work / name)
        if self.name == "tomli":
            _copy_tests_of_tomllib(work / "tests")
        (work / "pytest.ini").write_text(f"[pytest]\ntestpaths = {self.tests}\npythonpath = . src\n")
        for path, right, wrong in self.mistakes:
            text = (work / path).read_text()
            assert right in text, (path, right)
            (work / path).write_text(text.replace(right, wrong, 1))

    def correct(self, asked: Assignment, tree: Path) -> None:
        """Correct the first file that still has a mistake; one more with each try."""
        self.turns.append(asked.feature.id)
        left = asked.turn
        for file in dict.fromkeys(path for path, _, _ in self.mistakes):
            source = corrected = (tree / file).read_text()
            for path, right, wrong in self.mistakes:
                corrected = corrected.replace(wrong, right, 1) if path == file else corrected
            if corrected != source and left:
                left -= 1
                (tree / file).write_text(corrected)


def _raises(right: str) -> tuple[str, str]:
    """Return a line, and the line behind one that fails."""
    indent = right[: len(right) - len(right.lstrip())]
    return right, f"{indent}raise NotImplementedError\n{right}"


LIBRARIES = (
    Library(
        "outcome",
        "1.3.0.post0",
        "tests/test_sync.py",
        ("src", "tests"),
        (
            ("src/outcome/_impl.py", "        return self.value\n", "        return None\n"),
            ("src/outcome/_impl.py", "gen.throw(self.error)", "gen.send(self.error)"),
            ("src/outcome/_util.py", *_raises("    tb = exc.__traceback__\n")),
        ),
    ),
    Library(
        "h11",
        "0.16.0",
        "h11/tests",
        ("h11",),
        (
            ("h11/_headers.py", *_raises("    out: List[bytes] = []\n")),
            ("h11/_receivebuffer.py", *_raises("        if self._data[:1] ==")),
        ),
    ),
    Library(
        "tomli",
        "2.2.1",
        "tests",
        ("src",),
        (
            ("src/tomli/_re.py", "timedelta(", "timedelta(hours=1) + timedelta("),
            ("src/tomli/_parser.py", 'TOMLDecodeError("Unclosed array", src, pos)', 'KeyError("Unclosed array")'),
            ("src/tomli/_parser.py", 'raise TOMLDecodeError("Invalid value", src, pos)', "return pos + 1, None"),
        ),
    ),
)


def _copy_tests_of_tomllib(place: Path) -> None:
    found = find_spec("test.test_tomllib")
    assert found is not None, "this Python has no tests of its standard library"
    shutil.copytree(Path(found.origin or "").parent, place, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "__init__.py").write_text("import tomli as tomllib\n")
    # The only one that is about the name of the module.
    errors = (place / "test_error.py").read_text()
    (place / "test_error.py").write_text(errors.replace("def test_module_name", "def about_module_name"))


async def measure(library: Library, source: Path, folder: Path) -> bool:
    """Run the harness once, and print what it took; return whether everything passes."""
    work, user = folder / "work", folder / "user.git"
    work.mkdir()
    library.plant(source, work)
    git(work, "init", "--quiet", "--initial-branch=main")
    git(work, "add", "--all", "--force")
    git(work, "commit", "--quiet", "--message=Begin")
    git(work, "clone", "--quiet", "--bare", work, user)
    suite = _seconds(
        lambda: subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=work, capture_output=True, check=False)
    )
    lenient = FailFast(on_validation_failure=False)
    policy = RunPolicy(mode="unlimited_batch", max_turns_per_feature=2, max_retries_per_feature=1, fail_fast=lenient)
    place, health = folder / "space", NoHealthCheck()
    sources = FailingTests(env=_ENV)
    harness = CodingHarness(user, agent(library.correct), sources, policy=policy, workspace=place, health_check=health)
    began, before = time.monotonic(), _used()
    end = await run_to_end(harness)
    wall, cpu = time.monotonic() - began, _used() - before
    passed, steps = sum(one.passes for one in harness.state.features), len(end.steps)
    tries = sum(one.tries for one in harness.state.standings)
    print(
        f"{library.name} {library.version}: {end.outcome.kind}, {passed} of {len(harness.state.features)} features, "
        f"{len(library.turns)} agent turns, {tries} tries, {steps} steps"
    )
    print(f"  one run of the suite {suite[0]:.1f} s ({suite[1]:.1f} s of processors); in all {wall:.1f} s ({cpu:.1f} s)")
    for line in git(user, "log", "--first-parent", "--reverse", "--format=%h %s", "main").splitlines()[1:]:
        print(f"  {line}", flush=True)
    same = all((work / path).read_text() != git(user, "show", f"main:{path}") for path, _, _ in library.mistakes)
    return end.outcome.kind == "completed" and same


def _seconds(run: Callable[[], object]) -> tuple[float, float]:
    began, before = time.monotonic(), _used()
    run()
    return time.monotonic() - began, _used() - before


def _used() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def fetch(library: Library, folder: Path) -> None:
    """Unpack a library's source distribution into a folder."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder)]
    subprocess.run([*pip, f"{library.name}=={library.version}"], check=True, timeout=120)
    with tarfile.open(folder / f"{library.name}-{library.version}.tar.gz") as packed:
        packed.extractall(folder, filter="data")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harnesses.coding.pace", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="the name of one library")
    asked, well = parser.parse_args(words), True
    for library in LIBRARIES:
        if asked.only in ("", library.name):
            with TemporaryDirectory() as name:
                folder = Path(name)
                if asked.folder is None:
                    fetch(library, folder)
                source = (asked.folder or folder) / f"{library.name}-{library.version}"
                well = trio.run(measure, library, source, folder) and well
    if not well:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
