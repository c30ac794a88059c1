"""A turn that is killed or stopped goes on at its last finished call: `python -m tests.kill.turns` ends it at every event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model_server import ModelServer
from tests.zygote import preload

from .turn_lives import WAYS, Way, ended_once, uninterrupted


@pytest.mark.parametrize(
    ("way", "moments"),
    [(WAYS[0], ("request:2", "acted:1", "commit-after:9")), (WAYS[3], ("piece:12", "acted:2"))],
    ids=lambda value: value.name if isinstance(value, Way) else "",
)
def test_a_turn_that_is_killed_or_stopped_repeats_no_tool_and_pays_no_finished_call_again(
    way: Way, moments: tuple[str, ...], tmp_path: Path, model_server: ModelServer
) -> None:
    preload("openai")
    wanted, _ = uninterrupted(tmp_path / "whole", model_server, way)

    for moment in moments:
        assert ended_once(tmp_path / moment.replace(":", "-"), model_server, wanted, way, moment)

    assert wanted.text == "All done."
    assert wanted.file == "two\nthree\n"
    assert wanted.usage[:2] == (3, 3)
