"""Whatever an agent or a market wrote is data on every surface. The whole proof is `python -m tests.inert`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inert.checkers import CHECKERS
from tests.inert.payloads import ATOMS, payloads, together
from tests.inert.proof import Proof, prove

_FULLY_SHOWN = (
    *(
        "live lines",
        "live JSON",
        "live table",
        "standard error of the program",
        "alert",
        "verb status",
        "verb logs",
        "verb sql",
    ),
    *(
        "verb steps",
        "verb effects --all",
        "verb approvals --all",
        "verb analyze report --html",
        "log file",
        "stream of events",
        "tool needs",
        "tool messages",
        "tool search",
    ),
    *("api /needs", "api /fleet", "api /harnesses/{name}/messages", "page #/", "page #/fleet"),
    *("page #/h/steps", "page #/h/messages"),
)
_TEXTS = together(ATOMS, 10)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Proof:
    proof = Proof()
    prove(_TEXTS, tmp_path_factory.mktemp("hostile"), browser, proof, is_short=True)
    return proof


def test_no_surface_does_what_a_text_says(proof: Proof) -> None:
    assert proof.wrong == {}


def test_the_surfaces_have_shown_the_texts(proof: Proof) -> None:
    assert {surface: len(proof.shown[surface]) for surface in _FULLY_SHOWN} == dict.fromkeys(_FULLY_SHOWN, len(_TEXTS))


def test_there_are_ten_thousand_payloads_no_two_alike() -> None:
    assert len({*payloads(10_000)}) == 10_000
    assert all(any(atom in text for text in _TEXTS) for atom in ATOMS)


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_checker_finds_texts_that_are_written_as_they_are(checker: str) -> None:
    assert CHECKERS[checker]("\n".join(_TEXTS))
