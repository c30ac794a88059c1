"""Which files of a repository judge, and which are judged. Pure.

    judges        test modules and whatever lies in their directories, conftest.py, pytest's own configuration, golden files,
                  and what Python and pytest load by themselves (sitecustomize.py, *.pth, *.egg-info, compiled modules)
    are judged    everything else

The law: which of the two a path is, the *base* decides. A directory that an agent names `tests` is not one for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from attrs import frozen

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
            directories.update(_directories_of_tests(path))
    return JudgingFiles(frozenset(directories), patterns, frozenset(named))


def _directories_of_tests(path: str) -> Iterable[str]:
    return (str(parent) for parent in PurePosixPath(path).parents if parent.name in TEST_DIRECTORIES)


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
