"""An order goes under an id that is the same for the same effect, for no other, and that venues take."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from harnesses.trading.market.orders import client_id_for

effects = st.tuples(st.text(min_size=1, max_size=40), st.integers(0, 10**12), st.text(max_size=40))


@given(effects)
def test_a_client_id_is_short_and_of_letters_digits_and_dashes(effect: tuple[str, int, str]) -> None:
    id = client_id_for(*effect)

    assert re.fullmatch(r"[a-zA-Z0-9-]{1,36}", id)
    assert id == client_id_for(*effect)


@given(effects, effects)
def test_two_effects_have_two_ids(one: tuple[str, int, str], other: tuple[str, int, str]) -> None:
    assert (client_id_for(*one) == client_id_for(*other)) == (one == other)


def test_a_name_and_a_key_do_not_run_into_each_other() -> None:
    assert len({client_id_for("a", 11, "b"), client_id_for("a", 1, "1b"), client_id_for("a1", 1, "b")}) == 3
    assert client_id_for("a", 10**8 + 1, "b") != client_id_for("a", 1, "b")
