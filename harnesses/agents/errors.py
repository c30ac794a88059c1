"""What can go wrong when a program is the agent.

HarnessError
└── AgentFailed         it did not come to an end as it should: an exit code, an error it reported
    ├── AgentMissing    it can not be run: not installed, or not there
    └── AgentTimedOut   it took longer than its limit, and was killed
"""

from __future__ import annotations

from harnesses.errors import HarnessError


class AgentFailed(HarnessError):
    """The program did not come to an end as it should."""


class AgentMissing(AgentFailed):
    """The program can not be run: it, or what it needs, is not installed."""


class AgentTimedOut(AgentFailed):
    """The program took longer than its limit. It was killed, and all that it had started."""
