"""A turn that is killed goes on at its last finished call: `python -m tests.kill.turns` kills it at every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model_server import ModelServer
from tests.zygote import preload

from .turn_lives import killed_once, uninterrupted


@pytest.mark.parametrize("kills", [("request:2", "acted:1", "commit-after:9")], ids=str)
def test_a_killed_turn_repeats_no_tool_and_pays_no_finished_call_again(
    kills: tuple[str, ...], tmp_path: Path, model_server: ModelServer
) -> None:
    preload("openai")
    wanted, _ = uninterrupted(tmp_path / "whole", model_server)

    assert all(killed_once(tmp_path / kill.replace(":", "-"), model_server, wanted, kill) for kill in kills)

    assert wanted.text == "All done."
    assert wanted.file == "two\nthree\n"
    assert wanted.usage[:2] == (3, 3)
