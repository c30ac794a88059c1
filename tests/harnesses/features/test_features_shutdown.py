"""An attempt is closed however it ends: what is shown of it cannot stop it."""

from __future__ import annotations

import json
import logging

import pytest

from harnesses import Control
from harnesses.features.errors import InvalidRequest
from harnesses.features.loop.feature_shutdown import FeatureShutdown, how_ended
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import ObserverThread, Phases
from tests.harnesses.features.played import begun
from tests.harnesses.features.worked import Judge


def shutdown(name: str = "clock", workplace: Workplace | None = None) -> FeatureShutdown:
    observers = ObserverThread()
    return FeatureShutdown(name, workplace or Workplace(Judge()), Phases(None, observers, name), observers)


async def test_how_it_ended_and_what_was_being_worked_is_in_the_files(tmp_path):
    closing = shutdown()
    closing.claim(tmp_path)
    closing.how = "cancelled"

    await closing.close(begun("a"), "a")

    said = json.loads((tmp_path / "HANDOFF.json").read_text())
    assert (said["ended"], said["cut_off"]) == ("cancelled", "a")


async def test_a_directory_is_free_again_after_the_end(tmp_path):
    first, second = shutdown(), shutdown("other")
    first.claim(tmp_path)
    with pytest.raises(InvalidRequest):
        second.claim(tmp_path)

    await first.close(begun("a"), None)
    (tmp_path / "HANDOFF.json").unlink()

    second.claim(tmp_path)
    await second.close(begun("a"), None)


async def test_a_workplace_that_cannot_tidy_up_is_logged(caplog):
    class Stuck(Workplace):
        async def close(self):
            raise OSError("busy")

    with caplog.at_level(logging.WARNING):
        await shutdown(workplace=Stuck(Judge())).close(begun("a"), None)

    assert "could not clean up" in caplog.text


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("odd"), "ValueError: odd"), (GeneratorExit(), ""), (KeyboardInterrupt(), "cancelled")]
)
async def test_the_end_is_told_in_a_few_words(error, said):
    assert how_ended(error, Control()) == said
