"""What test modules import from elsewhere: the standard library, and what is installed."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path, PurePosixPath


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


def imported_by(root: Path, paths: Iterable[str]) -> set[str]:
    """Return what the modules in a worktree import."""
    names: set[str] = set()
    for path in paths:
        try:
            names |= imported_names((root / path).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return names


def own_names(files: Iterable[str]) -> set[str]:
    """Return every name that a module or package in a repository may be imported by."""
    names: set[str] = set()
    for path in files:
        pure = PurePosixPath(path)
        if pure.suffix in (".py", ".pyx", ".so", ".pyd"):
            names.update((pure.name.partition(".")[0], *pure.parts[:-1]))
    return names
