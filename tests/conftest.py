"""For every test: the `seed` marker, Hypothesis without chance, time limits or files, and a model server."""

from __future__ import annotations

import compileall
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import ROOT
from tests.model_server import ModelServer

settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],  # it measures the machine's load
)
settings.load_profile("steady")

# Before anybody imports it: failed assertions of the conformance suite show their values.
pytest.register_assert_rewrite("orchestrator.store.conformance")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _compile_sources()
    config.addinivalue_line("markers", "seed: one of the 44 cases that any harness of this model must pass")


def _compile_sources() -> None:
    """Write the bytecode of all sources, once.

    The suite starts more than a thousand programs, many of them where Python writes none: each would spend 0.5 s on compiling.
    """
    for folder in ("harnesses", "orchestrator", "examples", "tests"):
        compileall.compile_dir(ROOT / folder, quiet=2)


@pytest.fixture(scope="session")
def _running_model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model_server(_running_model_server: ModelServer) -> ModelServer:
    """Return the model server of this test process, without replies."""
    _running_model_server.reset()
    return _running_model_server
