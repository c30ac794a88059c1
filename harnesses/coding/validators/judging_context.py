"""Determines which files of a repository judge, and what a validator must know of the base and of a commit.

    judging files   test modules and everything in their directories, data elsewhere that they name, conftest.py, pytest's own
                    configuration, golden files, and what Python and pytest load automatically (sitecustomize.py, *.pth,
                    *.egg-info, compiled modules)
    judged files    everything else

Invariant: only the *base* decides which of the two a path is. A directory that an agent names `tests` does not become one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, cast

from attrs import field, frozen

from harnesses.coding.candidate import Candidate, Change
from harnesses.coding.validators.data_of_tests import named_in, suspects

PYTHON_FILES = ("test_*.py", "*_test.py")
"""pytest's default patterns of test modules."""

_TEST_FILES = ("test_*", "*_test.*", "*.test.*", "*.spec.*", "*_spec.*")
TEST_DIRECTORIES = frozenset({"test", "tests", "spec", "specs", "__tests__", "e2e"})
_NO_TESTS = re.compile(r"(?<![a-z])(?:at|con|fas|grea|la|pro)test(?![a-z])")
"""Words that end like a test and are none."""
_GOLDEN_DIRECTORIES = frozenset({"golden", "goldens", "snapshots", "__snapshots__", "expected", "cassettes"})
_GOLDEN_FILES = ("golden.*", "golden_*", "*_golden.*", "*.golden", "expected.*", "*_expected.*", "*.expected", "*.snap")
_LOADED_BY_NAME = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
)
_LEFT_BEHIND = ("*.egg-info", "*.dist-info", "__pycache__")
"""Directories that tools create and also read."""
_TOOLS = frozenset({"_pytest", "iniconfig", "pluggy", "pytest", "sitecustomize", "unittest", "usercustomize"})
"""Top-level module names that would shadow the judging tools."""


_FOREIGN = frozenset({".js", ".jsx", ".mjs", ".ts", ".tsx", ".go", ".rs", ".rb", ".java", ".kt", ".cs", ".php", ".ex", ".exs"})
COMPILED = (".so", ".pyd", ".dll", ".dylib")
_CODE = (".py", ".pyi", *COMPILED)


@frozen
class JudgingFiles:
    """The judging files of a repository at one commit."""

    __test__ = False

    directories: frozenset[str] = frozenset()
    """Directories of tests, without a final `/`."""
    patterns: tuple[str, ...] = PYTHON_FILES
    """File name patterns of test modules."""
    named: frozenset[str] = frozenset()
    """Files that are named explicitly."""

    def covers(self, path: str) -> bool:
        """Return whether a file is a judging file."""
        return (
            path in self.named
            or self.is_test_module(path)
            or self.holds(path)
            or loads_by_itself(path)
            or is_left_behind(path)
            or _is_foreign_test(path)
            or is_golden(path)
        )

    def is_test_module(self, path: str) -> bool:
        """Return whether pytest would collect tests from a file."""
        name = PurePosixPath(path).name
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def holds(self, path: str) -> bool:
        """Return whether a path is in a directory of tests, or is one."""
        return path in self.directories or any(str(parent) in self.directories for parent in PurePosixPath(path).parents)


def find_judging_files(
    files: Iterable[str], *, patterns: tuple[str, ...] = PYTHON_FILES, named: Iterable[str] = ()
) -> JudgingFiles:
    """Return the judging files of a repository with these files.

    Args:
        patterns: file name patterns of its test modules.
        named: files that judge because they are named explicitly.
    """
    directories: set[str] = set()
    for path in files:
        name = PurePosixPath(path).name
        if name == "conftest.py" or any(fnmatchcase(name, pattern) for pattern in (*patterns, *_TEST_FILES)):
            around = PurePosixPath(path).parents
            directories.update(str(one) for one in around if one.name in TEST_DIRECTORIES)
            if "test" in _NO_TESTS.sub("", around[0].name.lower()):
                # Such as `_tests` and `testing`. Above its tests, `testing` may be a package of the program.
                directories.add(str(around[0]))
    return JudgingFiles(frozenset(directories), patterns, frozenset(named))


def loads_by_itself(path: str) -> bool:
    """Return whether Python or pytest would load a file automatically, or instead of one of their own."""
    parts = list(PurePosixPath(path).parts)
    top = parts[1] if parts[0] == "src" and len(parts) > 1 else parts[0]
    is_tool = top.partition(".")[0] in _TOOLS and (path.endswith(_CODE) or not PurePosixPath(path).suffix)
    return is_tool or any(fnmatchcase(parts[-1], pattern) for pattern in _LOADED_BY_NAME)


def is_left_behind(path: str) -> bool:
    """Return whether tools generate a file: compiled modules, and metadata of installed packages."""
    parts = PurePosixPath(path).parts
    return path.endswith(".pyc") or any(fnmatchcase(part, pattern) for part in parts for pattern in _LEFT_BEHIND)


def _is_foreign_test(path: str) -> bool:
    """Return whether a file is named like a test module of another language."""
    pure = PurePosixPath(path)
    return pure.suffix in _FOREIGN and any(fnmatchcase(pure.name, pattern) for pattern in _TEST_FILES)


def is_golden(path: str) -> bool:
    """Return whether a file, by its name, contains expected output."""
    pure = PurePosixPath(path)
    if pure.suffix == ".py":
        return False
    return bool(_GOLDEN_DIRECTORIES.intersection(pure.parts[:-1])) or any(
        fnmatchcase(pure.name, pattern) for pattern in _GOLDEN_FILES
    )


OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Configuration files of pytest alone."""
SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")
"""Configuration files shared with other tools."""
NAMES = OWN + SHARED
"""All configuration files that pytest looks for in a directory; the first with a pytest section is used."""

_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest", "pytest.ini": "pytest", ".pytest.ini": "pytest"}
_UNREADABLE = {"": "unreadable"}


def pytest_part(path: str, content: bytes | None) -> dict[str, Any] | None:
    """Return the pytest settings in a file; None if it has none. An unreadable file is not equal to any readable one."""
    name = PurePosixPath(path).name
    if content is None or name not in NAMES:
        return None
    try:
        text = content.decode()
        part = _from_toml(name, text) if name.endswith(".toml") else _from_ini(name, text)
    except (tomllib.TOMLDecodeError, ConfigError, UnicodeDecodeError):
        return _UNREADABLE
    return {} if part is None and name in OWN else part


def _from_toml(name: str, text: str) -> dict[str, Any] | None:
    whole = tomllib.loads(text)
    if name != "pyproject.toml":
        return whole
    part = cast("dict[str, Any] | None", whole.get("tool", {}).get("pytest"))
    if not hasattr(part, "items") or part is None:
        return None
    # `[tool.pytest]` is read by pytest 9; earlier versions used its subtable.
    return {**{key: value for key, value in part.items() if key != "ini_options"}, **part.get("ini_options", {})}


def _from_ini(name: str, text: str) -> dict[str, Any] | None:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    section = _SECTIONS[name]
    return dict(parser.items(section)) if parser.has_section(section) else None


def changed_keys(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Return the settings that differ. Declaring a marker does not count."""
    old, new = before or {}, after or {}
    differing = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return [key for key in differing if not (key == "markers" and set(lines(old.get(key))) <= set(lines(new.get(key))))]


def lines(value: object) -> list[str]:
    """Return a list setting as lines, whichever way it is written."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    return [str(item) for item in value] if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def words(value: object) -> list[str]:
    """Return a list setting as words, whichever way it is written."""
    return [word for line in lines(value) for word in line.split()]


@frozen(kw_only=True)
class JudgingContext:
    """Facts about the base and a commit."""

    files: tuple[str, ...]
    """All paths at the base."""
    side: JudgingFiles
    """The judging files among them."""
    config: str | None
    """Path of the configuration file at the base that pytest would use."""
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    """Its pytest settings."""
    changes: tuple[Change, ...] = ()
    """The commit's changes."""
    reconfigured: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Shared configuration files whose pytest settings the commit changes, each with the changed settings."""

    def judges(self, path: str) -> bool:
        """Return whether a path must be as at the base when the commit is judged."""
        return self.side.covers(path) or any(path == changed for changed, _ in self.reconfigured)

    @property
    def product(self) -> tuple[str, ...]:
        """Return the files that the commit adds or changes and that do not judge; any of them may contain code."""
        return tuple(change.path for change in self.changes if change.status != "D" and not self.side.covers(change.path))


async def read_context(candidate: Candidate, *, named: Iterable[str] = ()) -> JudgingContext:
    """Return the facts about the base and a commit.

    Args:
        named: files that judge because they are named explicitly.
    """
    base, commit = candidate.base, candidate.commit
    files = await candidate.checkouts.files(base)
    changes = await candidate.checkouts.changes(base, commit) if commit != base else ()
    config, settings = await _configuration(candidate, files, named)
    patterns = tuple(words(settings.get("python_files"))) or PYTHON_FILES
    side = find_judging_files(files, patterns=patterns, named=named)
    if data := await _data_of_tests(candidate, files, changes, side):
        side = find_judging_files(files, patterns=patterns, named=(*named, *data))
    return JudgingContext(
        files=files,
        side=side,
        config=config,
        settings=settings,
        changes=changes,
        reconfigured=await _reconfigured(candidate, changes),
    )


async def _data_of_tests(
    candidate: Candidate, files: Sequence[str], changes: Iterable[Change], side: JudgingFiles
) -> tuple[str, ...]:
    """Return the data of tests that a commit changes, outside the tests' directories."""
    changed = [change.path for change in changes if change.status != "A" and not side.covers(change.path)]
    if not (suspected := suspects(changed, (file for file in files if not side.covers(file)))):
        return ()
    tests = [file for file in files if file.endswith(".py") and side.covers(file)]
    contents = [await candidate.checkouts.read(candidate.base, file) for file in tests]
    return named_in(suspected, [content.decode(errors="replace") for content in contents if content is not None])


async def _configuration(
    candidate: Candidate, files: Iterable[str], named: Iterable[str]
) -> tuple[str | None, dict[str, Any]]:
    """Return the configuration file that pytest would use at the base, and its settings; searched upwards from the tests."""
    there = set(files)
    for directory in _upward(named):
        for name in NAMES:
            path = str(PurePosixPath(directory) / name)
            if path in there:
                part = pytest_part(path, await candidate.checkouts.read(candidate.base, path))
                if part is not None:
                    return path, part
    return None, {}


def _upward(named: Iterable[str]) -> list[str]:
    """Return the common directory of the files, and its parents."""
    parents = [[str(parent) for parent in PurePosixPath(path).parents] for path in named]
    if not parents:
        return ["."]
    return [directory for directory in parents[0] if all(directory in others for others in parents)]


async def _reconfigured(candidate: Candidate, changes: Iterable[Change]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: list[tuple[str, tuple[str, ...]]] = []
    for change in changes:
        if PurePosixPath(change.path).name in SHARED:
            before = pytest_part(change.path, await candidate.checkouts.read(candidate.base, change.path))
            after = pytest_part(change.path, await candidate.checkouts.read(candidate.commit, change.path))
            keys = changed_keys(before, after)
            if keys or (before is None) != (after is None):
                found.append((change.path, tuple(keys)))
    return tuple(found)
