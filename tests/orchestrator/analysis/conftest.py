"""The run that questions are asked of, from a store and from a log alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import analysis
from orchestrator.analysis.frames.analysis_run import Run
from tests.orchestrator.analysis.asked import SOURCES, record


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the recorded run."""
    return record(tmp_path_factory.mktemp("asked"))


@pytest.fixture(scope="session", params=SOURCES)
def eventful(request: pytest.FixtureRequest, asked: Path) -> Iterator[Run]:
    """The recorded run, opened."""
    with analysis.open(asked / request.param) as run:
        yield run
