"""Settings for every test: the `seed` marker, and Hypothesis without chance, time limits or files."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

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
    config.addinivalue_line("markers", "seed: one of the 44 cases that any harness of this model must pass")
