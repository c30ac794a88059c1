"""The environment with other systems, in the user's cache, and the size of a program."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path


def environment(name: str, packages: Sequence[str]) -> str:
    """Return the interpreter of an environment with these packages; make it if it is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "durable-harnesses" / name
    python = cache / "bin" / "python"
    if not python.exists():
        venv.create(cache, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=sys.stderr)
    return str(python)


def lines_of_code(path: Path) -> int:
    """Return the lines of a program without blank lines, comments and docstrings."""
    tree = ast.parse(path.read_text())
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    prose = {line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(1 for number, line in lines if line.strip() and not line.strip().startswith("#") and number not in prose)
