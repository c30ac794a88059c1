"""Finds the data that tests read from outside their own directories, such as `cases.json` in the root. No I/O.

Invariant: a file beside modules of the program's own package is the program's, whatever tests say of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

_SUFFIXES = frozenset(
    {".bin", ".csv", ".dat", ".html", ".json", ".jsonl", ".ndjson", ".npy", ".npz", ".out", ".parquet", ".pickle", ".pkl"}
) | frozenset({".sql", ".svg", ".tsv", ".txt", ".xml", ".yaml", ".yml"})


def suspects(changed: Iterable[str], files: Iterable[str]) -> tuple[str, ...]:
    """Return which of the changed files may be data of tests: they are data, and not in a package of the program.

    Args:
        changed: paths of the base that a commit changes or removes.
        files: all paths at the base.
    """
    packages = {str(PurePosixPath(file).parent) for file in files if file.endswith(".py")} - {"."}
    return tuple(
        path for path in changed if PurePosixPath(path).suffix in _SUFFIXES and str(PurePosixPath(path).parent) not in packages
    )


def named_in(paths: Iterable[str], sources: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that the sources of tests name: the file, or a directory that it is in."""
    return tuple(path for path in paths if any(_words(path).search(source) for source in sources))


def _words(path: str) -> re.Pattern[str]:
    name, *directories = reversed(PurePosixPath(path).parts)
    either = "|".join([rf"(?<![\w.-]){re.escape(name)}(?![\w-])", *(rf"['\"/]{re.escape(one)}['\"/]" for one in directories)])
    return re.compile(either)
