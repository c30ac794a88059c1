"""Runs a command-line agent again after an outage or a limit of its provider, without spending a try.

    enter the gate ──► run ──► no failure of the provider ──► the turn's result
         ▲              └────► outage, rate or usage limit ──► close the gate: one agent probes, the others wait

Invariants: all agents of one account of a program share one gate, that of model calls. A run gives its place back once the
provider has begun to answer, because its turn may last for an hour. Waiting is not charged to the limit of the turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256

import trio
from attrs import define, field

from harnesses.agents.chat.wait_log import WaitLog
from harnesses.agents.command.agent_output import Reply
from harnesses.agents.command.program_failures import provider_failure
from harnesses.agents.errors import AgentUnavailable
from harnesses.agents.model.account_gate import AccountGate, Closure, GateClosed, Place, account_gate
from harnesses.agents.model.errors import (
    AuthenticationFailed,
    ContextTooLong,
    ProviderError,
    RequestRejected,
    UsageLimitReached,
)
from harnesses.agents.model.rate_limits import RateLimits
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.processes.bounded_command import Ran
from harnesses.timing.clock import now_s

Run = Callable[[Callable[[], None]], Awaitable[tuple[Ran, Reply]]]
"""Runs the command once; calls its argument when the provider has begun to answer."""


def gate_of(name: str, credentials: Sequence[str], environment: Mapping[str, str], policy: RetryPolicy) -> AccountGate:
    """Return the gate of an account: agents with one program, home and credentials share it.

    Args:
        name: of the dialect.
        credentials: prefixes of the variables that hold credentials.
    """
    told = [f"{key}={environment[key]}" for key in sorted(environment) if key == "HOME" or key.startswith(tuple(credentials))]
    account = sha256("\n".join(told).encode("utf-8", "backslashreplace")).hexdigest()
    return account_gate(name, account, "its provider", policy, RateLimits())


@define
class _Held:
    """The place of one run, given back once."""

    gate: AccountGate
    place: Place
    is_held: bool = True

    def answer(self) -> None:
        if self.is_held:
            self.is_held = False
            self.gate.answer(self.place, 0)

    def fail(self, error: ProviderError) -> None:
        if self.is_held:
            self.is_held = False
            self.gate.fail(self.place, error, closes=True)
        else:
            self.gate.close(error)

    def release(self) -> None:
        if self.is_held:
            self.is_held = False
            self.gate.release(self.place, is_sent=True)


@define
class ProviderWait:
    """The waits of one turn.

    Args:
        gate: of the account; None for a program that reaches no provider.
        owner: whose turn it is at the gate.
        max_wait_s: how long the turn waits for an outage or a rate limit in all, in seconds. A usage limit that names its end
            is waited for.
        log: writes a line.
    """

    gate: AccountGate | None
    name: str
    owner: str
    max_wait_s: float
    log: Callable[[str], None]
    _waited_s: float = 0.0
    _waits: WaitLog | None = None
    _kind: type[ProviderError] | None = None
    failed: ProviderError | None = field(default=None, init=False)
    """What failed at the provider in the last run; None if that is not why it failed."""
    has_answered: bool = field(default=False, init=False)
    """Whether the provider has begun to answer in any run."""

    async def run(self, run: Run) -> tuple[Ran, Reply]:
        """Run the command until its provider serves it, or has refused it for good.

        Raises:
            AgentUnavailable: an outage or a limit lasts for too long.
        """
        if (gate := self.gate) is None:
            return await run(lambda: None)
        while True:
            held = _Held(gate, await self._enter(gate))
            try:
                ran, reply = await run(held.answer)
            except BaseException:
                held.release()
                raise
            self.has_answered = self.has_answered or not held.is_held
            self.failed = provider_failure(self.name, ran, reply, now_s())
            if self.failed is None or not self.failed.retryable:
                held.answer()
                self._end(is_answered=True)
                return ran, reply
            if not held.is_held:
                self._end(is_answered=True)
            held.fail(self.failed)

    def refusal(self, where: str, session: str | None) -> AgentUnavailable | None:
        """Return why the provider will not serve the agent until a person has acted; None if it may.

        Args:
            where: the subject of the message.
            session: the conversation of the turn.
        """
        if isinstance(self.failed, AuthenticationFailed):
            why = f"{where} is not signed in: {self.failed}; sign in, or pass the key as `env`, and start again"
        elif isinstance(self.failed, RequestRejected) and not self.has_answered and type(self.failed) is not ContextTooLong:
            why = f"{where} asks for what its provider does not offer: {self.failed}; correct its model or arguments"
        else:
            return None
        return AgentUnavailable(why, session=session)

    async def _enter(self, gate: AccountGate) -> Place:
        since = trio.current_time()
        try:
            return await gate.enter(self.owner, 0, gives_up=self._gives_up, on_wait=self._tell)
        except GateClosed as error:
            self._end(is_answered=False)
            raise AgentUnavailable(
                f"its provider is not available: expected it within {self.max_wait_s:g} s, got: {error}; "
                "start again when it is back, or raise `max_wait_s`"
            ) from error
        finally:
            self._waited_s += trio.current_time() - since

    def _gives_up(self, closure: Closure) -> float:
        """Return until when to wait, on Trio's clock."""
        if isinstance(closure.error, UsageLimitReached) and closure.is_named:
            return closure.probe_at + self.max_wait_s
        return trio.current_time() + max(self.max_wait_s - self._waited_s, 0.0)

    def _tell(self, reason: str, seconds: float) -> None:
        closure = None if self.gate is None else self.gate.closure
        kind = None if closure is None else type(closure.error)
        if self._waits is None or kind is not self._kind:
            self._waits, self._kind = WaitLog(self.log, self.max_wait_s), kind
        self._waits.wait(reason, seconds)

    def _end(self, *, is_answered: bool) -> None:
        if self._waits is not None:
            self._waits.end(is_answered=is_answered)
        self._waits = None
