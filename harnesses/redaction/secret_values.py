"""Classifies names by whether their values are secret, and values by whether they are placeholders or look random. Pure.

    PASSWORD  any value is secret, numbers included
    STRONG    any text is secret, however short: client_secret, api_key, access_token
    HEADER    secret if it looks like the value of such a header: authorization, cookie
    DIGITS    secret if it has four to eight digits: pin, otp
    MIXED     secret if it mixes letters and digits: pass
    WEAK      secret if it looks random: token, auth, stripe_key, session, signature
    NONE      everything else

Invariants: the end of a name decides (`secret_santa`, `tokens`, `password_policy` and `public_key` name no secret). A
placeholder reveals nothing, so it stays. A value is random only if it mixes letters and digits as no word, date, path or
version does.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

from harnesses.redaction.secret_rules import rules


class Strength(IntEnum):
    """How strongly a name indicates that its value is secret."""

    NONE = 0
    WEAK = 1
    MIXED = 2
    DIGITS = 3
    HEADER = 4
    STRONG = 5
    PASSWORD = 6


BESIDE_SECRETS = frozenset(
    ("user", "username", "login", "name", "type", "id", "url", "host", "region", "path", "file", "filename", "title", "status")
)
"""Names that are not secret among secrets, such as the user name beside a password."""
STAGES = (
    "prod|production|dev|development|stage|staging|test|testing|live|old|new|current|previous|backup|db|admin|root|ro|rw|main"
    "|base64|b64|plain|hex|raw|string|value|temp|tmp"
)
"""Suffixes that may follow a name after a separator: `DB_PASSWORD_PROD`."""
SAID = "is|was|lautet|ist|est|es|è|é|jest|это|是"
"""Verbs between a name and its value in a sentence, in several languages."""
_STAGE = re.compile(rf"[_.-](?:{STAGES})$", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")


@lru_cache(4096)
def strength(name: str) -> Strength:
    """Return the strength of a name, however its words are joined."""
    name = _STAGE.sub("", name)
    words = _WORD.findall(name)
    last = words[-1].lower() if words else ""
    squeezed = "".join(filter(str.isalnum, name)).lower().rstrip("0123456789")
    one = squeezed[:-1], last[:-1]
    return max(_strength(squeezed, last), _strength(*one) if squeezed.endswith("s") else Strength.NONE)


def _strength(squeezed: str, last: str) -> Strength:
    names = _names()
    if squeezed.endswith(names["harmless"]):
        return Strength.NONE
    if squeezed.endswith(names["passwords"]):
        return Strength.PASSWORD
    if squeezed.endswith(names["strong"]) or squeezed in names["whole"]:
        return Strength.STRONG
    if squeezed.endswith(names["headers"]):
        return Strength.HEADER
    if last in names["digits"]:
        return Strength.DIGITS
    if last in names["mixed"]:
        return Strength.MIXED
    if last in names["drawn"] or (squeezed.endswith(names["weak"]) and squeezed != "key"):
        return Strength.WEAK
    return Strength.NONE


@lru_cache(1)
def _names() -> dict[str, tuple[str, ...]]:
    return {kind: tuple(words) for kind, words in rules().names.items()}


Span: TypeAlias = tuple[int, int]
"""Start and end position of a secret in a text."""
MARK = "[REDACTED]"
"""The replacement of a secret. It reveals nothing about it, not even its length."""

_PLACEHOLDER = re.compile(
    r"""\$\{[^}]*\}+ | \$\([^)]*\) | \$[A-Z_][A-Z0-9_]* | \$\d | %[A-Za-z_]+% | %\(\w+\)s | %s | \{\{.*\}\} | \{[\w.\[\]!]*\}
      | <[^<>]*> | \[[\w -]*\] | \*+ | \.+ | …+ | [xX]{3,} | -+ | _+ | \?+ | \#+
      | (?:your|my|the|some|insert|enter|add|put|replace|change|todo|fixme|dummy|placeholder|example)[-_ ][\w .-]* | change_?me
      | (?:os\.)?(?:environ|getenv)\b.* | (?:process\.env|ENV|secrets|vars|env|var|local|data|self|args)\.[\w.]+ | !\w+.*
    """,
    re.VERBOSE | re.DOTALL,
)
_SAID_OF_SECRETS = (
    "required optional none null nil undefined true false yes no on off enabled disabled missing present set unset empty "
    "valid invalid expired changed unchanged masked hidden redacted string str bool bytes int text default unknown ok denied "
    "granted include omit same-origin erforderlich requis obligatoire obligatorio verplicht obrigatório obbligatorio "
    "wymagane обязательно 必填 必須 无"
)
_NOTHING = frozenset(_SAID_OF_SECRETS.split())
"""Words that describe a secret but are not secrets."""
_PROSE = re.compile(
    r"\b(?:must|required|invalid|should|cannot|can't|missing|incorrect|mismatch|please|forgot(?:ten)?|too short|too long"
    r"|do(?:es)? not|has been|is not|at least|was not|not found|used to|in order to)\b",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"[A-Za-z0-9+/=_.~%:-]{16,}")
_PIECES = re.compile(r"[A-Za-z0-9]{10,}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}|(?:[\w.-]*/)+[\w-]+\.\w{1,5}")
_TURN = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_LONGEST_DRAWN = 256
"""Characters after which a value that has not looked random never will."""
_ENOUGH_TURNS = 3
"""Changes between letters and digits: `release2024build7` has three, and is as long as the shortest tokens."""


def is_placeholder(value: str) -> bool:
    """Return whether a value is only a placeholder for a secret."""
    text = value.strip()
    return not text or text.lower() in _NOTHING or MARK in text or _PLACEHOLDER.fullmatch(text) is not None


def is_prose(value: str) -> bool:
    """Return whether a value is a sentence about a secret: "must have eight characters"."""
    return " " in value and _PROSE.search(value) is not None


def looks_random(value: str) -> bool:
    """Return whether a value looks randomly generated: 16 or more characters, letters and digits mixed."""
    value = value[:_LONGEST_DRAWN]
    if len(value) < 16 or _WHOLE.fullmatch(value) is None or _ADDRESS.fullmatch(value) is not None:
        return False
    turns = sum(len(_TURN.findall(piece)) for piece in _PIECES.findall(value))
    return turns >= _ENOUGH_TURNS


def is_varied(value: str) -> bool:
    """Return whether a value in a sentence is not a word: three character classes, digits among them, not a method name."""
    if len(value) < 8 or not any(map(str.isdigit, value)) or _TECHNICAL.search(value) is not None or _is_file(value):
        return False
    return sum(kind.search(value) is not None for kind in _KINDS) > 1 or is_drawn(value)


def is_drawn(value: str) -> bool:
    """Return whether a value looks random even if only its position suggests that it is a secret."""
    return len(value) > 19 and sum(map(str.isdigit, value)) > 2 and looks_random(value)


def is_secret(text: str, named: Strength) -> bool:
    """Return whether a whole value is secret, given the strength of its name."""
    if named is Strength.NONE or is_placeholder(text):
        return False
    if named >= Strength.STRONG:
        return not is_prose(text) and not _is_file(text)
    if named is Strength.DIGITS and _PIN.fullmatch(text) is not None:
        return True
    if named in (Strength.MIXED, Strength.DIGITS) and _MIXED.fullmatch(text) is not None:
        return not _is_file(text)
    if named is Strength.HEADER:
        return _SCHEME.match(text) is not None or ("=" in text and " " not in text.partition("=")[0]) or looks_random(text)
    return looks_random(text)


def is_secret_number(value: float, named: Strength) -> bool:
    """Return whether a number is secret: a password of digits, or a PIN."""
    digits = len(str(value)) if isinstance(value, int) else 0
    return digits > 3 and (named is Strength.PASSWORD or (named is Strength.DIGITS and digits < 9))


_KINDS = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[!@#$%^&*+=?~]"))
_TECHNICAL = re.compile(
    r"(?i)sha-?\d|md5|base-?\d|argon2|bcrypt|pbkdf|oauth|utf|aes-?\d|rsa-?\d|https?|v\d|\w\.[a-z]+|[\w-]/\w|\d-\d|T\d\d:"
)
"""Names of methods, files and times."""
_PIN = re.compile(r"\d{4,8}|\d{3}[ -]\d{3}")
_MIXED = re.compile(r"(?=[^\d]{0,200}\d)(?=[^A-Za-z]{0,200}[A-Za-z])[^\s,;|<>(){}\[\]]{6,200}")
_FILE = re.compile(r"(?:~|\.{1,2})?(?:/[\w.@-]+)+\.?\w*|[\w-]+\.(?:pem|key|pub|crt|txt|json|ya?ml|toml|env)")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256|hawk)\s+\S{4,}")


def _is_file(text: str) -> bool:
    return _FILE.fullmatch(text) is not None
