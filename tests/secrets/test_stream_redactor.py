"""A text that arrives in pieces is shown without its secrets, wherever the pieces are cut."""

from __future__ import annotations

from harnesses.redaction.redactor import redact_text
from harnesses.redaction.stream_redactor import CONTEXT, HELD, StreamRedactor
from tests.secrets.leaks import LEAKS as FIRST_LEAKS
from tests.secrets.leaks import Leak
from tests.secrets.look_alikes import LOOK_ALIKES
from tests.secrets.more_leaks import MORE_LEAKS
from tests.secrets.outside_leaks import OUTSIDE_LEAKS

LEAKS = (*FIRST_LEAKS, *MORE_LEAKS, *OUTSIDE_LEAKS)
PROSE = "The model says what it does, one word after the other, and then it goes on to say more of the same. " * 3


def streamed(pieces: list[str]) -> str:
    redactor = StreamRedactor()
    return "".join(redactor.feed(piece) for piece in pieces) + redactor.finish()


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def leaked(leak: Leak, shown: str) -> list[str]:
    return [secret for secret in leak.secrets if secret in shown]


def test_no_secret_is_shown_of_a_text_in_pieces() -> None:
    before, after = f"{PROSE}\n\n", f"\n\n{PROSE}"
    bad = [leak.id for leak in LEAKS if leaked(leak, streamed(in_pieces(f"{before}{leak.text}{after}", 7)))]

    assert bad == []


def test_no_secret_is_shown_when_it_is_cut_in_two_anywhere() -> None:
    bad: set[str] = set()
    for leak in LEAKS[::40]:
        text = f"{PROSE}\n\n{leak.text}\n\n{PROSE}"
        begin = text.index(leak.text)
        for at in range(begin, begin + len(leak.text) + 1, 3):
            if leaked(leak, streamed([text[:at], text[at:]])):
                bad.add(leak.id)
    assert bad == set()


def test_a_text_without_secrets_is_shown_whole() -> None:
    texts = [PROSE, "", "x" * 5_000, *list(LOOK_ALIKES.values())[:80]]

    assert [text for text in texts if streamed(in_pieces(text, 7)) != redact_text(text)] == []


def test_at_most_the_last_words_are_held_back() -> None:
    redactor = StreamRedactor()
    shown = "".join(redactor.feed(piece) for piece in in_pieces(PROSE * 40, 5))

    assert len(PROSE * 40) - len(shown) < HELD + 20
    assert len(redactor._text) < CONTEXT + 2 * HELD  # pyright: ignore[reportPrivateUsage]


def test_a_word_without_end_is_not_held_for_ever() -> None:
    redactor = StreamRedactor()
    shown = "".join(redactor.feed(piece) for piece in in_pieces("a" * 100_000, 1_000))

    assert len(shown) > 60_000
    shown += redactor.finish()

    assert shown == "a" * 100_000
