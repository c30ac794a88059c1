"""Finds the interpreter that a program needs and that is not there: the system then says that the program is not found."""

from __future__ import annotations

import os
import shutil

_MOST_BYTES = 256
"""Bytes of a first line that the kernel reads."""


def missing_interpreter(program: str) -> str:
    """Return the interpreter in the first line of a program, if it does not exist; empty if it does, or none is named.

    Args:
        program: a path, or a name that is looked for on PATH.
    """
    path = program if os.sep in program else shutil.which(program)
    try:
        with open(path or "", "rb") as file:
            first = file.read(_MOST_BYTES).partition(b"\n")[0]
    except OSError:
        return ""
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and not os.path.exists(words[0]) else ""
