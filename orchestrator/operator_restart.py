"""Starting a harness again in a running program, by an operator's order.

    ended         another life, on the terms of the one before, with no restart counted against it and no back-off to wait for
    running       stopped within its grace period, then the same
    completed     refused, unless it says that there is more to do (`BaseHarness.reopens`)

The laws: what makes it anew is asked before anything is stopped; no sibling is touched; and a program that is ending starts
nothing again. The next life is there in the very moment in which the one before ends, so the program does not end between.
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
"""Makes a harness anew, and returns what starts it under the same name; the first may raise `UsageError`."""


@define
class _Ordered:
    """An order under way."""

    child: Child
    """That is to end, and then the one that has taken its place."""
    error: Exception | None = None


@define(eq=False)
class OperatorRestarts:
    """Carries out the orders.

    Args:
        children: of the program, now.
        put: puts a child in the place of the one of its name, and has it live.
        handle: returns a handle on a child.
        why_ending: says why the program ends; None while it does not.
    """

    _children: Mapping[str, Child]
    _put: Callable[[Child], object]
    _handle: Callable[[Child], Handle]
    _why_ending: Callable[[], str | None]
    _ordered: dict[str, _Ordered] = field(factory=dict[str, _Ordered])
    """The last order of each harness that was to be stopped first."""

    def order(self, name: str, grace_s: float | None) -> Order:
        """Start a harness again; stop it first if it runs. Awaiting it gives a handle on its next life, which has begun then.

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

    def _check_going_on(self, name: str) -> None:
        if (cause := self._why_ending()) is not None:
            raise UsageError(
                f"harness {name!r} is not started again: the program is ending ({cause}); then `orchestrator run FILE`"
            )

    def _start_of(self, child: Child) -> Callable[[], object]:
        """Return what starts the next life: of a harness made anew, or of the same object on the same terms."""
        return partial(self._same, child) if child.renew is None else child.renew()

    def _same(self, child: Child) -> object:
        if child.harness.runs_as is not None:
            raise UsageError(
                f"harness {child.name!r}: its object runs as {child.harness.runs_as!r} now: expected one for each name; "
                "start it with a new one"
            )
        return self._put(child.renewed())

    def _begin(self, ordered: _Ordered, start: Callable[[], object]) -> None:
        """Start the next life, unless the program is ending; what fails is for whoever has given the order."""
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
        await child.wait_begun()
        if child.record.status is Status.COMPLETED and not child.has_begun:
            raise UsageError(
                f"harness {child.name!r} has completed: expected one with more to do; it is started again only if its "
                "`reopens()` says so"
            )
        return self._handle(child)
