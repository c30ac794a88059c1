"""Restarts that an operator orders in a running program.

    ended         a new life with the same options; no restart is counted, and there is no back-off
    running       stopped within its grace period, then the same
    completed     refused, unless `BaseHarness.reopens` returns true

Invariants: the harness is made anew before anything is stopped; no sibling is affected; a program that is ending starts
nothing. The next life begins in the same instant in which the earlier one ends, so the program cannot end in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from attrs import define, field

from harnesses.errors import one_of
from orchestrator.errors import UsageError
from orchestrator.handle import Handle, Order
from orchestrator.lifecycle import Status
from orchestrator.runtime.child import Child

Renew: TypeAlias = Callable[[], Callable[[], Handle]]
"""Makes a harness anew and returns a function that starts it under the same name. The first call may raise `UsageError`."""


@define
class _Ordered:
    """A restart order in progress."""

    child: Child
    """The child to stop; afterwards the child that replaced it."""
    error: Exception | None = None


@define(eq=False)
class OperatorRestarts:
    """Carries out restart orders.

    Args:
        children: the program's current children, by name.
        put: replaces the child of the same name and starts the new one.
        handle: returns a handle on a child.
        why_ending: returns why the program is ending; None while it is not.
    """

    _children: Mapping[str, Child]
    _put: Callable[[Child], object]
    _handle: Callable[[Child], Handle]
    _why_ending: Callable[[], str | None]
    _ordered: dict[str, _Ordered] = field(factory=dict[str, _Ordered])
    """The last order for each harness that had to be stopped first."""

    def order(self, name: str, grace_s: float | None) -> Order[Handle]:
        """Restart a harness; stop it first if it is running. Awaiting the order returns a handle once the next life has begun.

        Raises:
            UsageError: it was not started here, the program is ending, or it cannot be made anew.
        """
        child = self._children.get(name)
        if child is None:
            known = one_of(list(self._children)[:10], "none was; start one in it")
            raise UsageError(f"harness {name!r} was not started in this program, or ended long ago: {known}")
        self._check_going_on(name)
        start = self._start_of(child)
        ordered = self._ordered.get(name)
        if ordered is None or ordered.child is not child or child.orders.then is None:
            ordered = _Ordered(child)
        if child.done:
            self._begin(ordered, start)
        else:
            self._ordered[name] = ordered
            child.orders.stop(grace_s, "restarted by order")
            child.orders.then = partial(self._begin, ordered, start)
        return Order(partial(self._wait, child, ordered))

    def order_new(self, name: str, start: Callable[[], object]) -> Order[Handle]:
        """Start a harness that was not started here. Awaiting the order returns a handle once its life has begun.

        Raises:
            UsageError: the program is ending, or the harness cannot be started.
        """
        self._check_going_on(name)
        start()
        child = self._children[name]
        child.by_order = True
        return Order(partial(self._wait_begun, child))

    def _check_going_on(self, name: str) -> None:
        if (cause := self._why_ending()) is not None:
            raise UsageError(
                f"harness {name!r} is not started again: the program is ending ({cause}); then `orchestrator run FILE`"
            )

    def _start_of(self, child: Child) -> Callable[[], object]:
        """Return a function that starts the next life: of a harness made anew, or of the same object with the same options."""
        return partial(self._same, child) if child.renew is None else child.renew()

    def _same(self, child: Child) -> object:
        if child.harness.runs_as is not None:
            raise UsageError(
                f"harness {child.name!r}: its object is now running as {child.harness.runs_as!r}: expected one for each name; "
                "start it with a new one"
            )
        return self._put(child.renewed())

    def _begin(self, ordered: _Ordered, start: Callable[[], object]) -> None:
        """Start the next life, unless the program is ending. Errors go to whoever awaits the order."""
        name = ordered.child.name
        try:
            self._check_going_on(name)
            start()
        except Exception as error:
            ordered.error = error
            return
        self._ordered.pop(name, None)
        ordered.child = self._children[name]
        ordered.child.by_order = True

    async def _wait(self, before: Child, ordered: _Ordered) -> Handle:
        await before.wait_done()
        if ordered.error is not None:
            raise ordered.error
        child = ordered.child
        if child is before:
            self._check_going_on(child.name)
            raise UsageError(f"harness {child.name!r} is not started again: it was told to stop meanwhile; start it again")
        return await self._wait_begun(child)

    async def _wait_begun(self, child: Child) -> Handle:
        await child.wait_begun()
        if child.record.status is Status.COMPLETED and not child.has_begun:
            raise UsageError(
                f"harness {child.name!r} has completed: expected one with more to do; it is started again only if its "
                "`reopens()` says so"
            )
        return self._handle(child)
