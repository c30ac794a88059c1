"""Runs a command under judgement: in a sandbox without network where there is one, in a bounded tree of processes anyhow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import trio

from harnesses.agents.sandbox import Bubblewrap, programs_below_tmp
from harnesses.coding.validators.surroundings import Surroundings
from harnesses.process import Ran, run_bounded


async def run_judged(
    argv: Sequence[str], around: Surroundings, *, root: Path, cwd: Path, limit_s: float, network: bool = False
) -> Ran:
    """Run a command that may write to a worktree and to its own surroundings, and nowhere else.

    Args:
        root: the worktree.
        network: whether it shares the machine's network; where bubblewrap does not work, it does.
    """
    sandbox = Bubblewrap(network=network)
    if not await trio.to_thread.run_sync(sandbox.works):
        return await run_bounded(argv, limit_s=limit_s, cwd=cwd, env=around.env)
    programs = (*programs_below_tmp(around.env.get("PATH", "")), *programs_below_tmp(os.path.dirname(argv[0])))
    writable = (str(root), str(around.private.parent))
    # The sandbox names its own /tmp, in which the worktree may lie; what is judged finds an empty folder.
    command = ["env", f"TMPDIR={around.env.get('TMPDIR', '/tmp')}", *argv]
    return await run_bounded(
        sandbox.wrap(command, cwd, writable=writable, readable=programs),
        limit_s=limit_s,
        cwd=cwd,
        env=around.env,
        may_gain_privileges=sandbox.needs_privileges(),
        scoped_sockets=True,
    )
