"""Sandboxes for commands, tools and servers that agents start.

    async with sandboxed(["make", "check"], directory, Sandbox(network=["pypi.org:443"])) as ready:
        ran = await run_bounded(ready.command, limit_s=60, cwd=directory, env=ready.environment, **ready.rights)

Sandbox     a value: the level that is demanded, what is visible and writable, the network, limits
Level       bubblewrap, landlock, none; the highest that holds on this machine is used
sandboxed   the command line, environment and proxy for one command
"""

from harnesses.agents.sandbox.sandbox_environment import environment_within, programs_below_tmp
from harnesses.agents.sandbox.sandbox_level import Level
from harnesses.agents.sandbox.sandbox_settings import Bubblewrap, Sandbox
from harnesses.agents.sandbox.sandboxed_command import Sandboxed, sandboxed

__all__ = [
    "Bubblewrap",
    "Level",
    "Sandbox",
    "Sandboxed",
    "environment_within",
    "programs_below_tmp",
    "sandboxed",
]
