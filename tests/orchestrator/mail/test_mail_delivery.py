"""Messages from other processes reach a harness while it runs, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore
from orchestrator.codec import encode
from orchestrator.store.store_protocol import Post


class Listening(BaseHarness[int, str, object]):
    """Makes a step of each message, and ends with `end`."""

    async def execute(self) -> AsyncIterator[tuple[str, object]]:
        while True:
            message = await self.receive()
            yield "received", message
            if message == "end":
                return


def post(path: Path, *messages: object) -> None:
    """Post as another program does: through a store of its own."""
    with closing(SqliteStore(path)) as store:
        store.commit([], [Post("ear", "", 0, encode(message)) for message in messages])


async def test_a_message_from_another_store_wakes_a_harness_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    with trio.fail_after(10):
        async with Orchestrator(path) as orchestrator:
            handle = orchestrator.start(Listening(0), name="ear")
            while not handle.attempt:  # noqa: ASYNC110
                await trio.sleep(0.01)
            await trio.to_thread.run_sync(post, path, {"do": "flatten"}, "end")
            await handle.wait()
            outputs = [step.output async for step in handle.steps()]

    assert outputs == [{"do": "flatten"}, "end"]


async def test_each_message_comes_once_whoever_sends_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    with trio.fail_after(20):
        async with Orchestrator(path) as orchestrator:
            handle = orchestrator.start(Listening(0), name="ear")
            while not handle.attempt:  # noqa: ASYNC110
                await trio.sleep(0.01)
            for number in range(20):
                await handle.send(f"own {number}")
                await trio.to_thread.run_sync(post, path, f"other {number}")
            await trio.sleep(0.5)
            await handle.send("end")
            await handle.wait()
            outputs = [str(step.output) async for step in handle.steps()]

    assert [text for text in outputs if text.startswith("own")] == [f"own {number}" for number in range(20)]
    assert [text for text in outputs if text.startswith("other")] == [f"other {number}" for number in range(20)]


async def test_a_message_that_was_posted_before_the_start_comes_once(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(Listening(0), name="ear").stop()
    post(path, "before")

    with trio.fail_after(10):
        async with Orchestrator(path) as orchestrator:
            handle = orchestrator.start(Listening(0), name="ear")
            await trio.sleep(0.5)
            await handle.send("end")
            await handle.wait()
            outputs = [step.output async for step in handle.steps()]

    assert outputs == ["before", "end"]
