"""Publish only with human approval: the harness waits, its siblings do not.

    orchestrator run examples/approval.py           in one terminal
    orchestrator approvals                          in another: shows the request and its ID
    orchestrator approve ID                         publishes the release; `deny ID` blocks the harness

`python examples/approval.py` plays both sides in one program.
"""

from collections.abc import AsyncIterator

import trio

from harnesses import Action, BaseHarness, Category
from orchestrator import MemoryStore, Orchestrator


async def publish(version: str) -> str:
    await trio.lowlevel.checkpoint()
    return f"{version} is published"


class Release(BaseHarness[None, str, str]):
    def is_complete(self) -> bool:
        return self.current_step == 2

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield "build", "1.4.0 is built"
        release = Action(Category.PUBLISH, "publish version 1.4.0", expires_s=3600)
        yield "publish", await self.once("publish", publish, "1.4.0", approval=release)


async def supervise(orchestrator: Orchestrator) -> None:
    orchestrator.start(Release(None), name="release")


async def operate(orchestrator: Orchestrator, store: MemoryStore) -> None:
    """Approve the first request, as `orchestrator approve ID` does from another terminal."""
    while not (requests := store.approvals()):  # noqa: ASYNC110  (an operator looks from time to time)
        await trio.sleep(0.01)
    print(f"{requests[0].harness} asks for approval of step {requests[0].step_number}")
    await orchestrator.approve(requests[0].id, by="operator", reason="the tests passed")


async def main() -> None:
    store = MemoryStore()
    async with Orchestrator(store) as orchestrator:
        await supervise(orchestrator)
        await operate(orchestrator, store)
        async for step in orchestrator.handles[0].steps():
            print(step.input, step.output)


if __name__ == "__main__":
    trio.run(main)
