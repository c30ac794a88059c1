"""Secrets that the process holds itself are found by their value, wherever they are and whatever is near them."""

from __future__ import annotations

import json

import pytest

from harnesses.redaction import known_secrets, redact, redact_text
from harnesses.redaction.known_secrets import conceal_secret
from harnesses.redaction.redactor import may_hold_secret, suspects

VALUE = 'two "quoted" words'


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_secrets, "_values", {})
    monkeypatch.setattr(known_secrets, "_forms", ())
    monkeypatch.setattr(known_secrets, "_finder", None)


def test_a_known_secret_is_replaced_in_text_in_json_and_in_data() -> None:
    assert redact_text(f"say {VALUE} twice: {VALUE}") == f"say {VALUE} twice: {VALUE}"
    conceal_secret(VALUE)

    assert redact_text(f"say {VALUE} twice: {VALUE}") == "say [REDACTED] twice: [REDACTED]"
    assert redact_text(r'{"said": "two \"quoted\" words"}') == '{"said": "[REDACTED]"}'
    assert redact({"note": (VALUE, 1)}) == {"note": ("[REDACTED]", 1)}


def test_texts_with_a_known_secret_are_suspects() -> None:
    conceal_secret(VALUE)
    texts = ["plain", f"with {VALUE}", "plain again", json.dumps({"note": VALUE})]

    assert set(suspects(texts)) == {1, 3}
    assert [may_hold_secret(text) for text in texts] == [False, True, False, True]


def test_short_values_are_not_concealed_and_the_oldest_of_many_are_forgotten() -> None:
    conceal_secret("hello world")
    assert redact_text("hello world") == "hello world"
    for number in range(300):
        conceal_secret(f"the value number {number:03}")

    assert redact_text("the value number 299") == "[REDACTED]"
    assert redact_text("the value number 001") == "the value number 001"
