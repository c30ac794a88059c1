"""The state is private, although only what is new in it is looked at."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses import HarnessMisuse, StateError, Unstorable
from harnesses.features import FeatureState, Standing
from harnesses.state import PersistentState
from tests.harnesses.features.worked import features

STATE = FeatureState(features=tuple(features("abc")), standings=tuple(Standing(feature_id=id) for id in "abc"))


def memory() -> PersistentState:
    kept = PersistentState(STATE)
    kept.take_delta()
    return kept


def test_what_is_frozen_is_kept_as_it_is():
    kept = memory()
    changed = evolve(STATE, version=1, features=(*STATE.features, *features("d")))

    kept.update_state(lambda _: changed, summary="grown")

    assert kept.state is changed
    assert kept.take_delta()[0].modified == ("version", "features")


def test_what_is_new_and_can_be_changed_is_copied():
    kept, steps = memory(), ["it is there"]
    odd = evolve(STATE.features[0])
    object.__setattr__(odd, "steps", steps)

    kept.update_state(lambda state: evolve(state, features=(odd, *state.features[1:])))
    steps.append("and more")

    assert kept.state.features[0].steps == ["it is there"]


def test_and_so_it_is_the_next_time():
    kept, steps = memory(), ["it is there"]
    odd = evolve(STATE.features[0])
    object.__setattr__(odd, "steps", steps)
    kept.update_state(lambda state: evolve(state, features=(odd, *state.features[1:])))

    with pytest.raises(HarnessMisuse):
        kept.state.features[0].steps.append("and more")
    kept.update_state(lambda state: evolve(state, version=1))

    assert kept.state.features[0].steps == ["it is there"]


def test_what_can_not_be_stored_is_refused_and_changes_nothing():
    kept = memory()

    with pytest.raises(Unstorable, match=r"\$\.features\[3\]"):
        kept.update_state(lambda state: evolve(state, features=(*state.features, object())))

    assert kept.state is STATE


@pytest.mark.parametrize("new", [None, 7])
def test_what_is_no_state_is_refused(new):
    with pytest.raises(StateError, match="expected a FeatureState"):
        memory().update_state(lambda _: new)


def test_what_was_not_recorded_is_undone():
    kept = memory()
    kept.update_state(lambda state: evolve(state, version=1))

    kept.rewind()

    assert kept.state == STATE
