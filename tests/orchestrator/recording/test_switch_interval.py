"""While a writer works beside the loop, threads that wait for the interpreter have it soon; then all is as it was."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from trio.testing import MockClock

from orchestrator import Orchestrator
from orchestrator.recording.switch_interval import SWITCH_S, prompt_switches
from tests.orchestrator.scripted import Scripted, Steps

BEFORE_S = 0.004


async def _one(harness: Scripted) -> Steps:
    yield None, None


@pytest.fixture(autouse=True)
def _interval() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(BEFORE_S)
    yield
    sys.setswitchinterval(before)


def test_overlapping_blocks_share_one_interval_and_the_last_restores_it() -> None:
    first, second = prompt_switches(), prompt_switches()
    first.__enter__()
    second.__enter__()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == pytest.approx(BEFORE_S)


@pytest.mark.parametrize("chosen", [SWITCH_S / 2, 0.001])
def test_an_interval_that_the_program_chooses_stays(chosen: float) -> None:
    with prompt_switches():
        sys.setswitchinterval(chosen)
    assert sys.getswitchinterval() == pytest.approx(chosen)


def test_a_shorter_interval_stays() -> None:
    sys.setswitchinterval(SWITCH_S / 2)
    with prompt_switches():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S / 2)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S / 2)


async def test_a_run_with_a_writer_thread_shortens_it(tmp_path: Path) -> None:
    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        await orchestrator.start(Scripted(_one), name="a").wait()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == pytest.approx(BEFORE_S)


async def test_a_run_without_one_leaves_it(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        await orchestrator.start(Scripted(_one), name="a").wait()
        assert sys.getswitchinterval() == pytest.approx(BEFORE_S)
