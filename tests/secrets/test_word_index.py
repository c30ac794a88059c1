"""The index of words finds what looking for each word finds."""

from __future__ import annotations

from random import Random

import pytest

from harnesses.redaction import word_index
from harnesses.redaction.secret_rules import rules
from harnesses.redaction.word_index import WordIndex
from tests.secrets.test_secrets import LEAKS, LOOK_ALIKES

WORDS = (*rules().found, *rules().issued.words, *rules().shapes.words)


@pytest.mark.parametrize("has_engine", [True, False])
def test_the_words_in_a_text_are_found_in_their_order(has_engine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_engine:
        monkeypatch.setattr(word_index, "_compile", lambda words: None)
    index = WordIndex(WORDS)
    texts = [text.lower() for text in (*(leak.text for leak in LEAKS), *LOOK_ALIKES.values(), *_mixed(400))]

    assert [index.found_in(text) for text in texts] == [_found_one_by_one(text) for text in texts]


def _found_one_by_one(text: str) -> list[str]:
    return [word for word in dict.fromkeys(WORDS) if word in text]


def _mixed(count: int) -> list[str]:
    """Return texts of words that overlap, begin each other, are cut, or stand beside letters that UTF-8 cannot encode."""
    random = Random(1)
    parts = [*WORDS, *(word[1:] for word in WORDS), *(word[:-1] for word in WORDS), "", "x", "é", "\ud800", "\u5bc6"]
    return ["".join(random.choices(parts, k=8)) for _ in range(count)]
