"""Compiles patterns with RE2, whose automata take time in proportion to the text; the extra `redaction` installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def compile_re2(pattern: str, **options: Any) -> Any:
    """Return a compiled pattern over bytes, without groups; None if the extra is not installed.

    Args:
        options: options of RE2, such as `longest_match`.
    """
    try:
        re2: Any = import_module("re2")
    except ImportError:
        return None
    chosen = re2.Options()
    for name, value in {"never_capture": True, "log_errors": False, **options}.items():
        setattr(chosen, name, value)
    return re2.compile(pattern.encode(), chosen)
