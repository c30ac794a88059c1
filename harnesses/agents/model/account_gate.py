"""`AccountGate`: lets the program's requests to one model of one account through, one gate for all harnesses of a Trio run.

    open     requests go as the rate limits allow, in turn by harness
    closed   after a rate limit, a used-up quota or an outage: until `probe_at` nothing goes, then one request, the probe
    ramping  after a probe that was answered: the number of requests in progress doubles from 2, until none waits

Invariants: while the gate is closed, at most one request let through since is in progress. A harness with many waiting
requests delays another one by at most one request. A wait that is cancelled leaves nothing behind.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import chain
from math import inf
from random import Random
from typing import TypeAlias

import trio
from attrs import define, field, frozen

from harnesses.agents.model.errors import ProviderError, UsageLimitReached
from harnesses.agents.model.rate_limits import RateLimits, TokenBucket
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.timing.clock import WallClock

OnWait: TypeAlias = Callable[[str, float], None]
"""Called with the reason of a wait and how long it is expected to take, in seconds."""
SHOWN_S = 1.0
"""Shorter waits for the limiter are not reported, in seconds."""


@frozen
class Closure:
    """Why a gate is closed."""

    error: ProviderError
    """The first error, or that of the last probe."""
    since: float
    """Seconds on Trio's clock."""
    probe_at: float
    """When the next request may go."""
    is_named: bool
    """Whether the provider has named `probe_at`."""
    failed: int
    """Requests in a row that have failed."""


class GateClosed(Exception):
    """The gate stays closed for longer than the caller waits."""

    def __init__(self, closure: Closure) -> None:
        super().__init__(str(closure.error))
        self.closure = closure


@define(eq=False)
class Place:
    """A request that was let through; it must be returned to the gate once, by `answer`, `fail` or `release`."""

    tokens: int
    """Estimated tokens, taken from the limit."""
    is_probe: bool
    era: int
    """How often the gate had been opened."""


@define(eq=False)
class _Waiter:
    owner: str
    tokens: int
    wake: trio.Event = field(factory=trio.Event)
    place: Place | None = None


class _Line:
    """Waiting requests, taken in turn by owner."""

    def __init__(self) -> None:
        self._by_owner: OrderedDict[str, deque[_Waiter]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_owner)

    def add(self, waiter: _Waiter) -> None:
        self._by_owner.setdefault(waiter.owner, deque()).append(waiter)

    def first(self) -> _Waiter:
        return next(iter(self._by_owner.values()))[0]

    def take(self) -> _Waiter:
        owner, waiters = next(iter(self._by_owner.items()))
        waiter = waiters.popleft()
        if waiters:
            self._by_owner.move_to_end(owner)
        else:
            del self._by_owner[owner]
        return waiter

    def waiters(self) -> Iterator[_Waiter]:
        return chain.from_iterable(self._by_owner.values())

    def remove(self, waiter: _Waiter) -> None:
        waiters = self._by_owner[waiter.owner]
        waiters.remove(waiter)
        if not waiters:
            del self._by_owner[waiter.owner]


class _Limiter:
    """The buckets of an account's limits."""

    def __init__(self, limits: RateLimits, now: float) -> None:
        self.limits = limits
        self._requests, self._tokens = (
            None if most is None else TokenBucket(most, now) for most in (limits.requests_per_minute, limits.tokens_per_minute)
        )

    def ready_at(self, tokens: int, now: float) -> float:
        requests_at = now if self._requests is None else self._requests.ready_at(1, now)
        return max(requests_at, now if self._tokens is None else self._tokens.ready_at(tokens, now))

    def take(self, tokens: int, now: float) -> None:
        if self._requests is not None:
            self._requests.take(1, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)

    def give_back(self, tokens: int, now: float) -> None:
        if self._tokens is not None:
            self._tokens.give_back(tokens, now)


class AccountGate:
    """See the module's docstring.

    Args:
        name: `provider:model`, for messages.
    """

    def __init__(self, name: str, policy: RetryPolicy) -> None:
        self.name = name
        self.closure: Closure | None = None
        """None while the gate is open."""
        self.answered = 0
        """Requests that the account has answered."""
        self.is_estimated = False
        """Whether it is logged that tokens of the account have been estimated."""
        self._policy = policy
        self._random = Random(policy.seed)
        self._clock = WallClock()
        self._limiter = _Limiter(RateLimits(), trio.current_time())
        self._line = _Line()
        self._timer: _Waiter | None = None
        self._under_way = self._in_era = 0
        self._era = 0
        self._ramp = inf
        self._is_probed = False

    def limit(self, limits: RateLimits) -> None:
        """Hold the account to these limits too; the tightest of all callers' limits apply."""
        tightest = limits.min(self._limiter.limits)
        if tightest != self._limiter.limits:
            self._limiter = _Limiter(tightest, trio.current_time())

    def is_open_for(self, tokens: int) -> bool:
        """Return whether a request that enters now goes at once."""
        return not self._line and self._ready_at(tokens, now := trio.current_time()) <= now

    async def enter(
        self,
        owner: str,
        tokens: int,
        *,
        gives_up: Callable[[Closure], float],
        on_wait: OnWait | None = None,
    ) -> Place:
        """Wait until a request may go. Either returns its place, or raises and leaves the gate unchanged.

        Args:
            owner: name of the harness, in whose turn the request goes.
            tokens: estimated input and output tokens.
            gives_up: returns until when to wait for a closed gate, in seconds on Trio's clock.
            on_wait: called before each wait that has another reason than the one before.

        Raises:
            GateClosed: the gate stays closed for longer than that.
        """
        waiter = _Waiter(owner, tokens)
        self._line.add(waiter)
        told = ""
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            while True:
                self._serve()
                if waiter.place is not None:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                    return waiter.place
                told = self._tell(told, waiter, on_wait)
                await self._wait(waiter, self._patience(gives_up))
        except BaseException:
            if waiter.place is not None:
                self.release(waiter.place, is_sent=False)
            else:
                self._line.remove(waiter)
            raise
        finally:
            if self._timer is waiter:
                self._timer = None
            self._wake_timer()

    def answer(self, place: Place, used: int) -> None:
        """Give back the place of a request that the provider has answered, or rejected as such: a probe opens the gate.

        Args:
            used: its tokens.
        """
        self.answered += 1
        self._give_back(place, used)
        if place.is_probe:
            self.closure = None
            self._era += 1
            self._in_era, self._ramp = 0, 2.0
        elif place.era == self._era:
            self._ramp = self._ramp + 1 if self._line else inf
        self._go_on()

    def fail(self, place: Place, error: ProviderError, *, closes: bool) -> None:
        """Give back the place of a request that has failed.

        Args:
            closes: whether the error closes the gate; a probe that fails always keeps it closed.
        """
        self._give_back(place, 0 if closes else place.tokens)
        if closes or place.is_probe:
            self._close(error, place, trio.current_time())
            for waiter in self._line.waiters():
                waiter.wake.set()
        self._go_on()

    def close(self, error: ProviderError) -> None:
        """Close the gate after the failure of a request whose place was given back when the provider began to answer it."""
        self._close(error, Place(0, False, self._era), trio.current_time())
        for waiter in self._line.waiters():
            waiter.wake.set()
        self._go_on()

    def release(self, place: Place, *, is_sent: bool) -> None:
        """Give back the place of a request that was cancelled, or never sent."""
        self._give_back(place, place.tokens if is_sent else 0)
        self._go_on()

    def _give_back(self, place: Place, used: int) -> None:
        self._under_way -= 1
        self._in_era -= place.era == self._era
        self._is_probed = self._is_probed and not place.is_probe
        self._limiter.give_back(place.tokens - used, trio.current_time())

    def _go_on(self) -> None:
        self._serve()
        self._wake_timer()

    def _close(self, error: ProviderError, place: Place, now: float) -> None:
        before = self.closure
        named = self._named_delay_s(error)
        if before is not None and not place.is_probe:
            # Sent before the gate was closed: only a later time is news.
            if named is not None and now + named > before.probe_at:
                self.closure = Closure(error, before.since, now + named, True, before.failed)
            return
        failed = 1 if before is None else before.failed + 1
        delay = self._policy.probe_delay_s(failed, self._random) if named is None else named
        self.closure = Closure(error, now if before is None else before.since, now + delay, named is not None, failed)

    def _named_delay_s(self, error: ProviderError) -> float | None:
        if isinstance(error, UsageLimitReached) and error.resets_at is not None:
            return max(error.resets_at - self._clock.now(), 0.0) or None
        return error.retry_after_s or None

    def _serve(self) -> None:
        """Let everything through that may go now."""
        now = trio.current_time()
        while self._line and self._ready_at(self._line.first().tokens, now) <= now:
            waiter = self._line.take()
            is_probe = self.closure is not None
            self._is_probed = self._is_probed or is_probe
            self._limiter.take(waiter.tokens, now)
            self._under_way += 1
            self._in_era += 1
            waiter.place = Place(waiter.tokens, is_probe, self._era)
            waiter.wake.set()

    def _ready_at(self, tokens: int, now: float) -> float:
        """Return when the first in line may go; infinite if another request has to end first."""
        limits_at = self._limiter.ready_at(tokens, now)
        if self.closure is not None:
            return inf if self._is_probed else max(self.closure.probe_at, limits_at)
        concurrent = self._limiter.limits.concurrent
        is_full = concurrent is not None and self._under_way >= concurrent
        return inf if is_full or self._in_era >= self._ramp else limits_at

    def _patience(self, gives_up: Callable[[Closure], float]) -> float:
        """Return until when to wait.

        Raises:
            GateClosed: no longer.
        """
        if self.closure is None:
            return inf
        until = gives_up(self.closure)
        if trio.current_time() >= until or (self.closure.is_named and self.closure.probe_at > until):
            raise GateClosed(self.closure)
        return until

    async def _wait(self, waiter: _Waiter, until: float) -> None:
        """Wait until something has changed; one waiter at a time also wakes when time alone lets the next one go."""
        if self._timer is None:
            self._timer = waiter
        if self._timer is waiter:
            until = min(until, self._ready_at(self._line.first().tokens, trio.current_time()))
        waiter.wake = trio.Event()
        with trio.CancelScope(deadline=until):
            await waiter.wake.wait()
        if self._timer is waiter:
            self._timer = None

    def _wake_timer(self) -> None:
        if self._line:
            (self._timer or self._line.first()).wake.set()

    def _tell(self, told: str, waiter: _Waiter, on_wait: OnWait | None) -> str:
        now = trio.current_time()
        if self.closure is not None:
            seconds = max(self.closure.probe_at - now, 0.0)
            reason, key = f"{self.name}: {self.closure.error}", f"closed {self.closure.since}"
        else:
            seconds = self._ready_at(waiter.tokens, now) - now
            seconds = 0.0 if seconds == inf else seconds
            reason = key = f"{self.name}: rate limit of this program"
            if seconds < SHOWN_S:
                return told
        if on_wait is not None and key != told:
            on_wait(reason, seconds)
        return key


_gates: trio.lowlevel.RunVar[dict[tuple[str, str, str], AccountGate]] = trio.lowlevel.RunVar("harnesses_account_gates")


def account_gate(provider: str, account: str, model: str, policy: RetryPolicy, limits: RateLimits) -> AccountGate:
    """Return the gate of a model of an account in this Trio run.

    Args:
        policy: delays between probes; that of the first caller applies.
    """
    try:
        gates = _gates.get()
    except LookupError:
        gates = dict[tuple[str, str, str], AccountGate]()
        _gates.set(gates)
    key = (provider, account, model)
    if key not in gates:
        gates[key] = AccountGate(f"{provider}:{model}", policy)
    gates[key].limit(limits)
    return gates[key]
