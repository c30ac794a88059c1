"""Pay exactly once: `once` records the intent before an effect and the outcome after it.

    python examples/effects.py

The connection breaks after the bank has booked the second payment, so its outcome is unknown. `reconcile` then asks the bank
instead of paying again. The same happens at the next start if the program is killed at that moment.
"""

from collections.abc import AsyncIterator

import trio

from harnesses import BaseHarness, Confirmed, NotDone
from orchestrator import Orchestrator

BANK: dict[str, int] = {}  # what the bank has booked, by reference


async def transfer(reference: str, amount: int) -> str:
    await trio.lowlevel.checkpoint()
    BANK[reference] = BANK.get(reference, 0) + amount
    if len(BANK) == 2:
        raise ConnectionError("the connection broke after the bank took the money")
    return f"paid {amount}"


async def look_up(key: str, reference: str, amount: int) -> Confirmed | NotDone:
    """Ask the bank whether a payment of unknown outcome arrived."""
    await trio.lowlevel.checkpoint()
    return Confirmed(f"paid {amount}, as the bank says") if reference in BANK else NotDone()


class Payroll(BaseHarness[int, str, str]):
    def is_complete(self) -> bool:
        return self.current_step == 3

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            reference = f"{self.name}-{self.current_step + 1}"  # derived from what is recorded: the same after a crash
            yield reference, await self.once("pay", transfer, reference, 100, reconcile=look_up)


async def main() -> None:
    async with Orchestrator() as orchestrator:
        handle = orchestrator.start(Payroll(0), name="payroll")
        async for step in handle.steps():
            print(step.input, step.output)
        print(await handle.wait(), BANK)


if __name__ == "__main__":
    trio.run(main)
