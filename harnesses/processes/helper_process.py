"""The command of a helper process: this interpreter, isolated from its surroundings, which calls one function of ours."""

from __future__ import annotations

import json
import sys

_BOOT = """
import json, sys
from importlib import import_module
sys.path[:] = json.loads(sys.argv[2])
module, _, name = sys.argv[1].partition(":")
getattr(import_module(module), name)(*sys.argv[3:])
"""


def helper_command(function: str, *words: str) -> list[str]:
    """Return the command of a process that imports what this one can, calls a function and ends.

    Args:
        function: `module:name`; it is not imported here.
        words: its arguments. They can be seen in the list of processes: pass what is secret or long through standard input.
    """
    return [sys.executable, "-I", "-c", _BOOT, function, json.dumps(sys.path), *words]
