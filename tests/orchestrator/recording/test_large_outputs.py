"""G7: a large output that is searched for secrets for long does not keep its program from being stopped."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.control.socket_places import _is_gone
from orchestrator.recording import recorder
from orchestrator.recording.commit_queue import PendingWrite
from orchestrator.recording.row_redaction import LARGE, weight


class Large(BaseHarness[int, str, str]):
    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield "", "x" * 100_000


async def test_a_harness_is_stopped_while_its_output_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, over = threading.Event(), threading.Event()

    def search(slots: Sequence[PendingWrite]) -> None:
        if any(weight(slot) > LARGE for slot in slots):
            begun.set()
            over.wait(30)

    monkeypatch.setattr(recorder, "redact_writes", search)
    with trio.fail_after(30):
        async with Orchestrator(tmp_path / "run.db", grace_s=0.0) as orchestrator:
            handle = orchestrator.start(Large(0), name="large")
            await trio.to_thread.run_sync(begun.wait)
            orchestrator.stop()
            outcome = await handle.wait()
            over.set()

    assert (outcome.kind, outcome.step) == ("stopped", 0)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs descriptors of processes")
def test_who_connects_is_known_to_live_whatever_the_number_of_the_descriptor() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    held = os.pidfd_open(os.getpid())
    try:
        os.dup2(held, 2000)
        assert not _is_gone(2000)
    finally:
        os.close(2000)
        os.close(held)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
