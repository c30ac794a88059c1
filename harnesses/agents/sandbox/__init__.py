"""Sandboxes for commands, tools and servers that agents start.

    prepare = partial(sandboxed, ["make", "check"], directory, Sandbox(network=["pypi.org:443"]))
    ran, ready = await run_sandboxed(prepare, limit_s=60, cwd=directory)

Sandbox         a value: the level that is demanded, what is visible and writable, the network, limits
Level           bubblewrap, landlock, none; the highest that holds on this machine is used
sandboxed       the command line, environment and proxy for one command
run_sandboxed   runs it to its end, and leaves no process behind
"""

from harnesses.agents.sandbox.sandbox_environment import environment_within, programs_below_tmp
from harnesses.agents.sandbox.sandbox_level import Level
from harnesses.agents.sandbox.sandbox_settings import Bubblewrap, Sandbox, as_sandbox
from harnesses.agents.sandbox.sandboxed_command import Sandboxed, sandboxed
from harnesses.agents.sandbox.sandboxed_run import run_sandboxed

__all__ = [
    "Bubblewrap",
    "Level",
    "Sandbox",
    "Sandboxed",
    "as_sandbox",
    "environment_within",
    "programs_below_tmp",
    "run_sandboxed",
    "sandboxed",
]
