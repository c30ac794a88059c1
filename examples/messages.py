"""Send, ask and reply: messages are stored with the step that sends them, and are never lost or delivered twice.

python examples/messages.py
"""

from collections.abc import AsyncIterator

import trio
from attrs import frozen

from harnesses import BaseHarness, Request, query
from orchestrator import Orchestrator


@frozen
class Order:
    shares: int


class Desk(BaseHarness[int, str, int]):
    """Holds a position, and changes it on request."""

    accepts = (Order,)  # any other type is refused at the sender

    async def execute(self) -> AsyncIterator[tuple[str, int]]:
        while True:
            request = await self.receive(Request)
            self.update_state(lambda position: position + request.message.shares)  # noqa: B023  (called at once)
            await self.reply(request, self.state)  # sent with this step
            yield request.sender, self.state

    @query
    def position(self) -> int:
        return self.state


class Buyer(BaseHarness[None, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for shares in (10, 20, 30)[self.current_step :]:
            yield shares, await self.ask("desk", Order(shares))


async def main() -> None:
    async with Orchestrator() as orchestrator:
        desk = orchestrator.start(Desk(0), name="desk")
        buyer = orchestrator.start(Buyer(None), name="buyer")
        async for step in buyer.steps():
            print(f"{step.input} shares ordered, {step.output} held")
        print("a query says", desk.query("position"), "held; after an order from outside", await desk.ask(Order(5)))
        await desk.stop()


if __name__ == "__main__":
    trio.run(main)
