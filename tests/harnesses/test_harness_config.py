"""Laws of `HarnessConfig`: a value with the defaults of the run file."""

from __future__ import annotations

import pytest

from harnesses import HarnessConfig


def test_only_the_initial_state_has_to_be_given() -> None:
    config = HarnessConfig(initial_state={"count": 0})

    assert (config.name, config.harness, config.max_context_steps, config.restart) == ("", "", 10, "transient")
    assert config.constraints == {}
    assert config.step_timeout_s is None
    assert config.deadline_s is None


def test_the_initial_state_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="initial_state"):
        HarnessConfig()  # type: ignore[call-arg]


def test_everything_is_given_by_name() -> None:
    with pytest.raises(TypeError):
        HarnessConfig({"count": 0})  # type: ignore[call-arg]


def test_two_configs_do_not_share_their_constraints() -> None:
    assert HarnessConfig(initial_state=0).constraints is not HarnessConfig(initial_state=0).constraints
