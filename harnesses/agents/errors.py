"""What can go wrong when a program is the agent.

HarnessError
└── AgentFailed         it did not come to an end as it should: an exit code, an error it reported
    ├── AgentMissing    it cannot be run: not installed, or not there; the harness is blocked
    └── AgentTimedOut   it took longer than its limit, and was killed

What was said in a turn that failed is not lost: the error has the conversation as `session`, and a feature harness has the
next try at that feature resume it. An error of an agent of your own may do the same.
"""

from __future__ import annotations

from harnesses.errors import HarnessError, NotReady


class AgentFailed(HarnessError):
    """The program did not come to an end as it should.

    Args:
        session: what the program knows the conversation by, so that the next try can go on with it; None if that is not known.
    """

    def __init__(self, message: str, *, session: str | None = None) -> None:
        super().__init__(message)
        self.session = session


class AgentMissing(AgentFailed, NotReady):
    """The program cannot be run: it, or what it needs, is not installed. No try is made until a person has seen to it."""


class AgentTimedOut(AgentFailed):
    """The program took longer than its limit. It was killed, and all that it had started."""
