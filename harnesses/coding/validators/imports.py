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
