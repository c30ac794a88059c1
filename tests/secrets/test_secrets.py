"""Whatever is secret goes, and nothing else."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.redaction import detect as secret_text
from harnesses.redaction import prefilter as secret_scan
from harnesses.redaction.redactor import MARK, LineRedactor, may_hold_secret, redact, redact_text, suspects
from harnesses.redaction.secret_rules import rules
from orchestrator.codec import encode
from tests.secrets.drawing import drawn, pem
from tests.secrets.leaks import LEAKS as FIRST_LEAKS
from tests.secrets.leaks import WORD, Leak
from tests.secrets.look_alikes import LOOK_ALIKES as FIRST_LOOK_ALIKES
from tests.secrets.more_leaks import MORE_LEAKS
from tests.secrets.more_look_alikes import MORE_LOOK_ALIKES
from tests.secrets.outside_leaks import OUTSIDE_LEAKS
from tests.secrets.outside_look_alikes import OUTSIDE_LOOK_ALIKES

LEAKS = (*FIRST_LEAKS, *MORE_LEAKS, *OUTSIDE_LEAKS)
LOOK_ALIKES = {**FIRST_LOOK_ALIKES, **MORE_LOOK_ALIKES, **OUTSIDE_LOOK_ALIKES}


def test_the_corpus_is_as_large_as_it_is_said_to_be() -> None:
    assert len({leak.id for leak in LEAKS}) == len(LEAKS) >= 920
    assert len(LOOK_ALIKES) >= 440


def test_a_secret_goes_and_redacting_twice_is_redacting_once() -> None:
    redacted = {leak: redact_text(leak.text) for leak in LEAKS}

    assert [leak.id for leak in LEAKS if not all(secret in leak.text for secret in leak.secrets)] == []
    assert {leak.id: text for leak, text in redacted.items() if MARK not in text or kept(leak, text)} == {}
    assert {leak.id: text for leak, text in redacted.items() if redact_text(text) is not text} == {}


def kept(leak: Leak, redacted: str) -> list[str]:
    return [secret for secret in leak.secrets if secret in redacted]


def test_a_secret_goes_from_text_within_json() -> None:
    left = {leak.id: kept(leak, redact_text(json.dumps({"output": leak.text}))) for leak in LEAKS}

    assert {id: secrets for id, secrets in left.items() if secrets} == {}


def test_what_only_looks_like_a_secret_stays() -> None:
    assert [id for id, text in LOOK_ALIKES.items() if redact_text(text) is not text] == []


def test_data_without_secrets_stays_the_very_object_it_is() -> None:
    found = {id: json.loads(text) for id, text in LOOK_ALIKES.items() if text[0] == "{"}

    assert [id for id, data in found.items() if redact(data) is not data] == []


def test_a_secret_goes_from_data() -> None:
    leaks = [leak for leak in LEAKS if leak.text.startswith('{"')]
    data = {leak: json.loads(leak.text) if leak.text.endswith("}") else {"cut off": leak.text} for leak in leaks}

    assert [leak.id for leak in leaks if kept(leak, json.dumps(redact(data[leak])))] == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(LEAKS), min_size=1, max_size=4), st.sampled_from(["\n", " ", "\n\n", "; ", " | "]))
def test_secrets_go_wherever_they_stand(leaks: list[Leak], between: str) -> None:
    # A table begins on a line of its own, and a text that was cut off ends its line.
    if any("\n" in leak.text or "cut" in leak.id for leak in leaks):
        between = "\n\n"
    redacted = redact_text(between.join(leak.text for leak in leaks))

    assert not [secret for leak in leaks for secret in leak.secrets if secret in redacted]
    assert redact_text(redacted) == redacted


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(), st.sampled_from([leak.text for leak in LEAKS]), st.text())
def test_what_is_not_searched_holds_nothing(before: str, text: str, after: str) -> None:
    assert may_hold_secret(f"{before} {text} {after}")


@pytest.mark.parametrize("engine", [True, False], ids=["engine", "without"])
def test_a_secret_is_suspected_in_every_text_that_holds_one(engine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not engine:
        monkeypatch.setattr(secret_scan, "_engine", lambda: None)
    leaks = [encode({"input": leak.text, "of": encode({"text": leak.text})}) for leak in LEAKS]
    plain = [encode({"input": {"tokens": 100, "max_tokens": 4096}, "output": "ünï"})] * 3

    found = list(suspects([*plain, *leaks, *plain]))

    assert found == list(range(3, 3 + len(leaks))) or not engine
    assert all(re.search(secret_scan.coarse_suspect(), leak) for leak in leaks)
    assert set(found) >= set(range(3, 3 + len(leaks)))


@pytest.mark.parametrize("name", ["tokens", "max_tokens", "token_count", "prompt_tokens", "n_tokens", "total_tokens"])
def test_a_count_of_tokens_is_no_suspect(name: str) -> None:
    assert not may_hold_secret(encode({name: 1234567, "usage": {name: 12}, "price": 1.25}))


@frozen
class Login:
    user: str
    password: str
    tries: int = 0


def test_a_field_of_a_record_goes_by_its_name() -> None:
    login = Login("ann", WORD, 3)

    assert redact(login) == Login("ann", MARK, 3)
    assert redact(Login("ann", "")) == Login("ann", "")
    assert login.password == WORD


def test_numbers_and_dates_stay_whatever_they_are_called() -> None:
    data = {"tokens": 4711, "token": Decimal("1.5"), "secret": datetime(2026, 11, 22, tzinfo=UTC), "api_key": None, "pin": 13}

    assert redact(data) is data


def test_a_number_goes_if_it_is_a_password_or_a_pin() -> None:
    data = {"password": 12345678, "pin": 4711, "access_tokens": 12345, "password_count": 12345, "passwords": 3}

    assert redact(data) == {**data, "password": MARK, "pin": MARK}


def test_what_a_manifest_of_secrets_holds_goes() -> None:
    data = {"kind": "Secret", "metadata": {"name": "db"}, "data": {"dsn": "aHVudGVyMg=="}, "stringData": {"x": WORD}}

    assert redact(data) == {**data, "data": {"dsn": MARK}, "stringData": {"x": MARK}}
    assert redact({**data, "kind": "ConfigMap"}) == {**data, "kind": "ConfigMap"}


def test_what_is_redacted_keeps_its_shape() -> None:
    data = {"a": [1, ("x", {"password": WORD})], "b": ("keep",)}

    assert redact(data) == {"a": [1, ("x", {"password": MARK})], "b": ("keep",)}


def test_a_name_and_its_value_may_stand_side_by_side() -> None:
    assert redact([{"name": "DB_PASSWORD", "value": WORD}]) == [{"name": "DB_PASSWORD", "value": MARK}]
    assert redact(["backup", "--password", WORD, "--to", "x"]) == ["backup", "--password", MARK, "--to", "x"]
    assert redact(["curl", "-su", f"ann:{WORD}", "-o", "x"]) == ["curl", "-su", f"ann:{MARK}", "-o", "x"]
    assert redact(["curl", "--user", f"ann:{WORD}", "x"]) == ["curl", "--user", f"ann:{MARK}", "x"]
    assert redact(("mysql", "-u", "root", f"-p{WORD}")) == ("mysql", "-u", "root", f"-p{MARK}")
    assert redact(plain := ["curl", "-o", "x", "https://x.example"]) is plain
    assert redact(command := ["docker", "login", "-u", "ann", "-p", WORD]) == [*command[:-1], MARK]
    assert list(suspects([encode({"command": command})])) == [0]
    assert redact((("Authorization", f"Bearer {WORD}"), ("Accept", "*/*"))) == (("Authorization", MARK), ("Accept", "*/*"))


def test_what_is_kept_under_secrets_is_secret_but_for_names() -> None:
    data = {"secrets": {"db": WORD, "user": "ann"}, "passwords": ["one", "two"]}

    assert redact(data) == {"secrets": {"db": MARK, "user": "ann"}, "passwords": [MARK, MARK]}


def test_names_that_hold_secrets_go_and_no_entry_is_lost() -> None:
    first, second = f"gh{'p_'}{drawn(36)}", f"gh{'p_'}{drawn(36, seed='other')}"

    assert redact({first: 1, second: 2}) == {MARK: 1, f"{MARK} 2": 2}


def test_a_key_that_comes_line_by_line_goes() -> None:
    key, body = pem()
    lines = LineRedactor()

    shown = [lines.line(line) for line in ("before", *key.splitlines(), "after")]

    assert not [line for line in body if line in "\n".join(shown)]
    assert (shown[0], shown[-1]) == ("before", "after")


def test_a_key_without_an_end_hides_no_other_lines() -> None:
    lines = LineRedactor()
    begin = pem()[0].splitlines()[0]

    assert lines.line(begin) == begin
    assert lines.line("the agent went on: nothing to see, 12 tests passed") != MARK


HOSTILE = {
    "names": "password" * 60_000,
    "assignments": "password=" * 60_000,
    "open-quotes": 'password: "' * 50_000,
    "commas": "password=" + "a," * 250_000,
    "spaces": "password:" + " " * 500_000,
    "backslashes": 'password: "' + "\\" * 500_000,
    "key-beginnings": pem()[0].splitlines()[0] * 15_000,
    "token-beginnings": "eyJ" * 160_000,
    "token-beginnings-apart": "_eyJ-" * 100_000,
    "colours": "[1m" * 150_000 + "sk-",
    "commands": "docker login -u " * 30_000,
    "tables": "| password " * 50_000,
    "words": "seed phrase: " + "legal " * 80_000,
    "putty": "Private-Lines: 1\n" + "a" * 400_000,
    "putties": "Private-Lines: 1\n" * 25_000,
    "broken-addresses": "amqp://u:p/" * 40_000,
    "token-parts": ".eyJaaaaaaaaa" * 40_000,
    "sk": "sk-" * 160_000,
    "addresses": "://a:" * 100_000,
    "users": "://" + "a" * 500_000,
    "curls": "curl " * 100_000,
    "options": "--password " * 45_000,
    "capitals": "İPASSWORD" * 50_000,
    "one-word": "x" * 500_000 + "token",
    "nested": '{"password":' * 40_000,
    "annotations": "password: str " * 35_000,
    "cookies": "cookie: " * 60_000,
    "bearers": "bearer " * 70_000,
    "tags": "<password>" * 50_000,
    "queries": "http://a?token=" * 30_000,
    "tokens": "token=" * 60_000,
    "passes": "pass:" * 60_000,
    "columns": "password,a\n" + "x1y2,b\n" * 60_000,
    "dots": "token=a." * 50_000,
    "hashes": "$argon2id$v=19$m=1," * 20_000,
    "manifests": "kind: Secret\ndata:\n a: bbbb\n" * 15_000,
    "settings": "env password " * 30_000,
    "colours-of-names": ("password" + "\x1b[0m" * 5) * 20_000,
    "sides": "password is " * 40_000,
    "lists": "passwords: [" * 40_000,
    "items": "passwords:\n" + "  - x1y2z3\n" * 40_000,
    "archives": "7z " * 150_000,
    "echoes": "echo a | " * 50_000,
    "ends-of-keys": (pem()[0].splitlines()[-1] + "\n" + "QUJD" * 16 + "\n") * 5_000,
    "users-of-databases": "user identified by " * 20_000,
}


def _work(text: str) -> int:
    """Return how many functions are called, of Python and of C, to redact a text."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        redact_text(text)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("text", [pytest.param(text, id=id) for id, text in HOSTILE.items()])
def test_twice_the_hostile_text_is_at_most_twice_the_work(text: str) -> None:
    redact_text(text[:2000])  # what is read and compiled at first is not counted

    once, twice = _work(text[:17_000]), _work(text[:34_000])

    assert twice <= 2.2 * once + 200


@pytest.mark.parametrize("size", [10, 16_384, 16_385, 100_000, 1_000_000])
def test_no_rule_looks_out_of_a_window_and_windows_are_few(size: int) -> None:
    found = list(secret_text.windows("x" * size))

    assert sum(len(window) for _, window in found) <= 1.4 * size + secret_text.WINDOW
    assert max(len(window) for _, window in found) <= secret_text.WINDOW
    assert found[-1][0] + len(found[-1][1]) == size
    assert all(later[0] - begin <= secret_text.WINDOW - secret_text.OVERLAP for (begin, _), later in pairwise(found))


PATTERNS = {rule.id: rule.pattern for rule in (*rules().issued.rules, *rules().shapes.rules)}


@pytest.mark.parametrize("pattern", [pytest.param(pattern, id=id) for id, pattern in PATTERNS.items()])
def test_no_pattern_repeats_without_bound_what_repeats_without_bound(pattern: str) -> None:
    assert not _repeats(parser.parse(pattern), within=False)


def _repeats(tree: Any, *, within: bool) -> bool:
    """Return whether a repetition without a bound has one in it: with two of these the work grows as a power of the length."""
    for kind, argument in tree:
        is_open = str(kind) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] == parser.MAXREPEAT
        if is_open and within:
            return True
        for part in _parts(argument):
            if _repeats(part, within=within or is_open):
                return True
    return False


def _parts(argument: Any) -> Iterator[Any]:
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _parts(part)


def test_a_secret_goes_wherever_a_window_ends() -> None:
    def around(leak: Leak) -> str:
        return f"{'word ' * ((secret_text.WINDOW - len(leak.text) // 2) // 5)}\n{leak.text}\n{'word ' * 20}"

    # Each takes 20 ms. Where a window ends does not depend on the kind of secret.
    assert [leak.id for leak in LEAKS[::12] if kept(leak, redact_text(around(leak)))] == []


WORDS = (
    *("password", "api_key", "token", "Authorization", "Bearer", "secret", "=", ":", ": ", " = ", '"', "'", "\\", "\n", " "),
    *("{", "}", "<", ">", "/", "://", "@", ",", ";", "--", "|", "[REDACTED]", "hunter2", "${X}", "eyJ", ".", "sk-", "é"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "abc123def456ghi789", "curl -u ", "login x", "Cookie: a=b"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_whatever_the_text_redacting_twice_is_redacting_once(text: str) -> None:
    redacted = redact_text(text)

    assert redact_text(redacted) == redacted
    assert may_hold_secret(text) or redacted is text


@pytest.mark.parametrize("name", ["max_tokens", "--max-tokens", "x_session"])
def test_a_word_after_a_weak_name_costs_no_search_and_a_drawn_value_goes(name: str) -> None:
    pytest.importorskip("re2")
    value = "k4Jq9ZxW2mP7vB1nT8dR"

    assert list(suspects([f"{name} returns the limit of the account"])) == []
    assert list(
        suspects([f"{name} {value}", f'{name} "{value}"', f"{name} 1{value}", f"{name} {value[:9]}\x1b[1m{value[9:]}"])
    ) == [
        0,
        1,
        2,
        3,
    ]
