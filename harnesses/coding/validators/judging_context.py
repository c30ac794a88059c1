"""Which files of a repository judge, and what a validator knows of the base and of a commit before it looks at anything.

    judges        test modules and whatever lies in their directories, conftest.py, pytest's own configuration, golden files,
                  and what Python and pytest load by themselves (sitecustomize.py, *.pth, *.egg-info, compiled modules)
    are judged    everything else

The law: which of the two a path is, the *base* decides. A directory that an agent names `tests` is not one for that.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, cast

from attrs import field, frozen

from harnesses.coding.candidate import Candidate, Change

PYTHON_FILES = ("test_*.py", "*_test.py")
"""What pytest takes for test modules unless it is told otherwise."""

_TEST_FILES = ("test_*", "*_test.*", "*.test.*", "*.spec.*", "*_spec.*")
TEST_DIRECTORIES = frozenset({"test", "tests", "spec", "specs", "__tests__", "e2e"})
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
"""Directories that tools leave behind, and look into."""
_TOOLS = frozenset({"_pytest", "iniconfig", "pluggy", "pytest", "sitecustomize", "unittest", "usercustomize"})
"""Top-level modules that would be taken for the tools that judge."""


_FOREIGN = frozenset({".js", ".jsx", ".mjs", ".ts", ".tsx", ".go", ".rs", ".rb", ".java", ".kt", ".cs", ".php", ".ex", ".exs"})
COMPILED = (".so", ".pyd", ".dll", ".dylib")
_CODE = (".py", ".pyi", *COMPILED)


@frozen
class JudgingFiles:
    """What judges in one repository, as of one commit."""

    __test__ = False

    directories: frozenset[str] = frozenset()
    """The directories of tests, without a `/` at the end."""
    patterns: tuple[str, ...] = PYTHON_FILES
    """What test modules are called."""
    named: frozenset[str] = frozenset()
    """Files that are asked for by name."""

    def covers(self, path: str) -> bool:
        """Return whether a file judges."""
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
        """Return whether pytest would look for tests in a file."""
        name = PurePosixPath(path).name
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def holds(self, path: str) -> bool:
        """Return whether a path lies in a directory of tests, or is one."""
        return path in self.directories or any(str(parent) in self.directories for parent in PurePosixPath(path).parents)


def find_judging_files(
    files: Iterable[str], *, patterns: tuple[str, ...] = PYTHON_FILES, named: Iterable[str] = ()
) -> JudgingFiles:
    """Return what judges in a repository that has these files.

    Args:
        patterns: what test modules are called there.
        named: files that judge for being asked for by name.
    """
    directories: set[str] = set()
    for path in files:
        name = PurePosixPath(path).name
        if name == "conftest.py" or any(fnmatchcase(name, pattern) for pattern in (*patterns, *_TEST_FILES)):
            directories.update(str(one) for one in PurePosixPath(path).parents if one.name in TEST_DIRECTORIES)
    return JudgingFiles(frozenset(directories), patterns, frozenset(named))


def loads_by_itself(path: str) -> bool:
    """Return whether Python or pytest would load a file without being asked to, or for one of their own."""
    parts = list(PurePosixPath(path).parts)
    top = parts[1] if parts[0] == "src" and len(parts) > 1 else parts[0]
    is_tool = top.partition(".")[0] in _TOOLS and (path.endswith(_CODE) or not PurePosixPath(path).suffix)
    return is_tool or any(fnmatchcase(parts[-1], pattern) for pattern in _LOADED_BY_NAME)


def is_left_behind(path: str) -> bool:
    """Return whether a file is what tools make of others: compiled modules, and notes on what is installed."""
    parts = PurePosixPath(path).parts
    return path.endswith(".pyc") or any(fnmatchcase(part, pattern) for part in parts for pattern in _LEFT_BEHIND)


def _is_foreign_test(path: str) -> bool:
    """Return whether a file is called what test modules of other languages are called."""
    pure = PurePosixPath(path)
    return pure.suffix in _FOREIGN and any(fnmatchcase(pure.name, pattern) for pattern in _TEST_FILES)


def is_golden(path: str) -> bool:
    """Return whether a file holds, by its name, what is expected of a program."""
    pure = PurePosixPath(path)
    if pure.suffix == ".py":
        return False
    return bool(_GOLDEN_DIRECTORIES.intersection(pure.parts[:-1])) or any(
        fnmatchcase(pure.name, pattern) for pattern in _GOLDEN_FILES
    )


OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Files that are pytest's alone."""
SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")
"""Files that hold the configuration of other tools too."""
NAMES = OWN + SHARED
"""All that pytest looks for in a directory, the first that has something for it is used."""

_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest", "pytest.ini": "pytest", ".pytest.ini": "pytest"}
_UNREADABLE = {"": "unreadable"}


def pytest_part(path: str, content: bytes | None) -> dict[str, Any] | None:
    """Return what a file says to pytest, None if it says nothing. What cannot be read is not equal to what can."""
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
    # `[tool.pytest]` is of pytest 9; before, all was below it.
    return {**{key: value for key, value in part.items() if key != "ini_options"}, **part.get("ini_options", {})}


def _from_ini(name: str, text: str) -> dict[str, Any] | None:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    section = _SECTIONS[name]
    return dict(parser.items(section)) if parser.has_section(section) else None


def changed_keys(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Return the settings that differ. A marker that is only declared is none."""
    old, new = before or {}, after or {}
    differing = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return [key for key in differing if not (key == "markers" and set(lines(old.get(key))) <= set(lines(new.get(key))))]


def lines(value: object) -> list[str]:
    """Return a setting that is a list, however it is written."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    return [str(item) for item in value] if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def words(value: object) -> list[str]:
    """Return a setting that is a list of words, however it is written."""
    return [word for line in lines(value) for word in line.split()]


@frozen(kw_only=True)
class JudgingContext:
    """What there is to know."""

    files: tuple[str, ...]
    """All paths at the base."""
    side: JudgingFiles
    """Which of them judge."""
    config: str | None
    """The file at the base that configures pytest."""
    settings: Mapping[str, Any] = field(factory=dict[str, Any])
    """What it says."""
    changes: tuple[Change, ...] = ()
    """What the commit changes."""
    reconfigured: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Files shared with other tools in which the commit changes what they say to pytest, with the settings."""

    def judges(self, path: str) -> bool:
        """Return whether a path is to be as it is at the base when the commit is judged."""
        return self.side.covers(path) or any(path == changed for changed, _ in self.reconfigured)

    @property
    def product(self) -> tuple[str, ...]:
        """Return the files that the commit adds or changes and that do not judge: any may hold code."""
        return tuple(change.path for change in self.changes if change.status != "D" and not self.side.covers(change.path))


async def read_context(candidate: Candidate, *, named: Iterable[str] = ()) -> JudgingContext:
    """Look at the base, and at what a commit changes.

    Args:
        named: files that judge because they are asked for.
    """
    base, commit = candidate.base, candidate.commit
    files = await candidate.checkouts.files(base)
    changes = await candidate.checkouts.changes(base, commit) if commit != base else ()
    config, settings = await _configuration(candidate, files, named)
    patterns = tuple(words(settings.get("python_files"))) or PYTHON_FILES
    side = find_judging_files(files, patterns=patterns, named=named)
    return JudgingContext(
        files=files,
        side=side,
        config=config,
        settings=settings,
        changes=changes,
        reconfigured=await _reconfigured(candidate, changes),
    )


async def _configuration(
    candidate: Candidate, files: Iterable[str], named: Iterable[str]
) -> tuple[str | None, dict[str, Any]]:
    """Return the file that pytest would take at the base, and what it says; looked for from the tests upward."""
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
    """Return the directory that holds all files, and those above it."""
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
