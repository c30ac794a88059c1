"""Errors of agents that run a program.

HarnessError
└── AgentFailed           the program ended abnormally: a non-zero exit code, or an error that it reported
    ├── AgentMissing      the program is not installed or was not found; the harness is blocked
    ├── AgentUnavailable  its provider refuses the key or the request, or has an outage for too long; the harness is blocked
    └── AgentTimedOut     the program exceeded its time limit and was killed

The conversation of a failed turn is kept: the error carries its id as `session`, and a feature harness resumes it in the next
attempt at that feature. Errors of your own agents may do the same.
"""

from __future__ import annotations

from harnesses.errors import HarnessError, NotReady


class AgentFailed(HarnessError):
    """The program ended abnormally.

    Args:
        session: the conversation id, so that the next attempt can resume it; None if it is not known.
    """

    def __init__(self, message: str, *, session: str | None = None) -> None:
        super().__init__(message)
        self.session = session


class AgentMissing(AgentFailed, NotReady):
    """The program, or something it needs, is not installed. No further attempt is made until an operator fixes this."""


class AgentUnavailable(AgentFailed, NotReady):
    """The provider of the program's model does not serve it. No try is spent, and none is made until it is started again."""


class AgentTimedOut(AgentFailed):
    """The program exceeded its time limit. It was killed together with all processes it had started."""
