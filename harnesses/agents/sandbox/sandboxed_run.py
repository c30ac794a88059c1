"""Runs a command in a sandbox to its end, once more if the sandbox itself could not be set up.

Bubblewrap masks each Unix socket that is there when its command line is made, and fails if one is gone when it starts. Then
the command has not run, and the next command line has no such mask.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from harnesses.agents.sandbox.sandboxed_command import Sandboxed
from harnesses.processes.bounded_command import Ran, run_bounded

_TRIES = 5
_NO_PLACE = re.compile(r"bwrap: Can't (?:mkdir parents for|create file at) (?P<path>/[^\n]*?): Read-only file system\s*\Z")


async def run_sandboxed(
    prepare: Callable[[], AbstractAsyncContextManager[Sandboxed]],
    *,
    limit_s: float,
    cwd: Path | str,
    tail_bytes: int = 4_000,
    input: bytes | None = None,
    on_line: Callable[[str], object] | None = None,
    on_error_line: Callable[[str], object] | None = None,
) -> tuple[Ran, Sandboxed]:
    """Run a command as `run_bounded` does; return how it ended, and the sandbox that it ran in.

    Args:
        prepare: `sandboxed` with its arguments.
    """
    tried = 0
    while True:
        tried += 1
        async with prepare() as ready:
            ran = await run_bounded(
                ready.command,
                limit_s=limit_s,
                cwd=cwd,
                env=ready.environment,
                tail_bytes=tail_bytes,
                input=input,
                on_line=on_line,
                on_error_line=on_error_line,
                **ready.rights,
            )
        if tried == _TRIES or not _is_mask_without_place(ran):
            return ran, ready


def _is_mask_without_place(ran: Ran) -> bool:
    found = _NO_PLACE.match(ran.tail) if ran.code == 1 else None
    return found is not None and not os.path.lexists(found["path"])
