"""Orders to the harnesses of a run that come through its store, carried out as those that come through its control socket.

    store ──look, in the thread that looks for messages──► carry_out ──► Server.respond ──► the answer, into the store

Invariant: an order is carried out once, and answered when that is done or takes longer than a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from urllib.parse import quote

import trio
from attrs import Factory, define, evolve, field

from harnesses.data.newest import drop_oldest
from harnesses.errors import OrchestratorError
from orchestrator.control.control_server import Response, Server, refusal, request_of
from orchestrator.recording.commit_queue import Condition
from orchestrator.store.run_orders import TakenOrder
from orchestrator.store.store_capabilities import Ordered

_KNOWN = 10_000
"""Orders that are remembered, since one may be read again while its answer is on its way."""


@define(eq=False)
class StoreOrders:
    """Carries out the orders of one run.

    Args:
        server: what answers them; its limits hold here, too.
    """

    _store: Ordered
    _server: Server
    _services: trio.Nursery
    _places: trio.Semaphore = field(
        init=False, default=Factory(lambda self: trio.Semaphore(self._server.limits.connections), takes_self=True)
    )
    _known: dict[str, None] = field(factory=dict[str, None])
    _busy: int = 0
    _bell: Condition = field(factory=Condition)

    def look(self) -> Callable[[], None] | None:
        """Take the orders that are for this run, in a thread; return what carries them out, in Trio's."""
        taken = self._store.take_orders()
        return partial(self.carry_out, taken) if taken else None

    def carry_out(self, orders: Sequence[TakenOrder]) -> None:
        """Carry out orders, each once, beside each other. Does not wait."""
        for order in orders:
            if order.id not in self._known:
                self._known[order.id] = None
                self._busy += 1
                self._services.start_soon(self._answer, order)
        drop_oldest(self._known, _KNOWN)

    async def wait_answered(self) -> None:
        """Wait until every order that was taken has its answer."""
        await self._bell.until(lambda: not self._busy)

    async def _answer(self, order: TakenOrder) -> None:
        try:
            async with self._places:
                response = await self._respond(order)
            write = partial(self._store.answer_order, order.id, response.status, response.body.decode())
            with suppress(OrchestratorError):  # the lease is lost: the run ends, and whoever waits sees that
                await trio.to_thread.run_sync(write, abandon_on_cancel=True)
        finally:
            self._busy -= 1
            self._bell.ring()

    async def _respond(self, order: TakenOrder) -> Response:
        body, most = order.body.encode(), self._server.limits.body_bytes
        if len(body) > most:
            return refusal(413, f"too long: expected a body of at most {most} bytes; send less")
        try:
            request = request_of("POST", f"/harnesses/{quote(order.harness, safe='')}/{order.verb}{order.options}")
        except ValueError as error:  # the row may be written by anybody who can write to the store
            return refusal(400, f"not valid: expected a verb and its options: {error}")
        return await self._server.respond(evolve(request, body=body))
