"""What an agent has done in one attempt, counted by us, and held against its limits.

    with tallying(guardrails) as tally:          one tally for all that is asked within
        answer = await self.run_agent(agent, …)
    checks += telemetry_checks(contract, guardrails, tally)

The laws: what is counted is what we have seen; the call that would be one too many is not made if it is made through us, and
ends the agent that makes it if we are only told; and what an agent reports of itself counts too, where it is more.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from harnesses.agents.errors import AgentFailed
from harnesses.governance.contracts.contract import BuilderContract, Check, failed, passed
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.governor import Finding

_current: ContextVar[Tally | None] = ContextVar("harnesses.governance.limits.agent_counts", default=None)


class AgentStopped(AgentFailed):
    """An agent was about to go beyond its tool calls or messages. It was stopped, with all that it had started.

    Args:
        finding: to be attached to the step, as `guardrail`.
    """

    def __init__(self, message: str, *, finding: Finding, session: str | None = None) -> None:
        super().__init__(message, session=session)
        self.finding = finding


class Tally:
    """Counts for one attempt."""

    def __init__(self, guardrails: Guardrails) -> None:
        self._guardrails = guardrails
        self.tool_calls = 0
        self.messages = 0
        self.is_counting = False
        """Whether there was anything that could be counted: of programs that write text for people nothing is known."""
        self.stopped: AgentStopped | None = None
        """Why the agent was stopped, if it was, whatever became of the error."""

    def tool_call(self, name: str = "") -> None:
        """Count a tool call, before it is made if it can be.

        Raises:
            AgentStopped: it is one too many.
        """
        self.tool_calls = self._count("max_tool_calls_per_task", "tool calls", self.tool_calls, name)

    def message(self) -> None:
        """Count a message of the agent.

        Raises:
            AgentStopped: it is one too many.
        """
        self.messages = self._count("max_messages_per_task", "messages", self.messages, "")

    def _count(self, limit_name: str, what: str, count: int, name: str) -> int:
        self.is_counting = True
        most: int = getattr(self._guardrails, limit_name)
        if count < most and self.stopped is None:
            return count + 1
        if self.stopped is None:
            which = f" ({name!r:.60})" if name else ""
            reason = f"the agent was about to go beyond its {most} {what}{which}, and was stopped"
            finding = Finding(limit_name=limit_name, current_value=str(count + 1), limit_value=str(most), reason=reason)
            place = "(`guardrails` of the run file, or `Guardrails(…)`)"
            told = f"expected at most {most} {what}, was one more{which}; give it a smaller task"
            text = f"guardrail {limit_name} = {most} {place}: {told}"
            self.stopped = AgentStopped(text, finding=finding)
        raise self.stopped


@contextmanager
def tallying(guardrails: Guardrails) -> Generator[Tally, None, None]:
    """Have all that agents do within counted together; within another tally, that one goes on."""
    tally = _current.get()
    if tally is not None:
        yield tally
        return
    tally = Tally(guardrails)
    token = _current.set(tally)
    try:
        yield tally
    finally:
        _current.reset(token)


def current_tally() -> Tally | None:
    """Return the tally of what is under way; None if nobody counts."""
    return _current.get()


def telemetry_checks(contract: BuilderContract, guardrails: Guardrails, tally: Tally | None = None) -> tuple[Check, ...]:
    """Return whether what was counted, and what the agent reports in `execution`, is within the limits."""
    counted = tally if tally is not None and tally.is_counting else None
    return (
        _check(contract, "tool_calls", "max_tool_calls_per_task", guardrails, None if counted is None else counted.tool_calls),
        _check(contract, "messages", "max_messages_per_task", guardrails, None if counted is None else counted.messages),
    )


def _check(contract: BuilderContract, name: str, limit_name: str, guardrails: Guardrails, counted: int | None) -> Check:
    said = (contract.execution or {}).get(name)
    reported = said if isinstance(said, int) and not isinstance(said, bool) else None
    told = f"counted {_or(counted)}, reported {_or(reported)}"
    most: int = getattr(guardrails, limit_name)
    if max(counted or 0, reported or 0) > most:
        return failed(limit_name, f"expected at most {most}, {told}; give it a smaller task")
    return passed(limit_name, f"{told}, of at most {most}")


def _or(count: int | None) -> str:
    return "none" if count is None else str(count)
