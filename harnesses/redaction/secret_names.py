"""Names that say that what they name is secret: `db_password`, `X-Api-Key`, `clientSecret`, `contraseña`. Pure.

The law: it is the end of a name that counts. `secret_santa`, `tokens`, `password_policy` and `public_key` name no secret.

    PASSWORD  whatever it names is secret, numbers included
    STRONG    whatever text it names is secret, be it short: client_secret, api_key, access_token
    HEADER    secret if it looks like what such a header carries: authorization, cookie
    DIGITS    secret if it has four to eight digits: pin, otp
    MIXED     secret if letters and digits are mixed in it: pass
    WEAK      secret if it looks random: token, auth, stripe_key, session, signature
    NONE      everything else
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from harnesses.redaction.secret_rules import rules


class Strength(IntEnum):
    """How much a name says."""

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
"""Among secrets these are not secret: a user's name beside the password."""
STAGES = (
    "prod|production|dev|development|stage|staging|test|testing|live|old|new|current|previous|backup|db|admin|root|ro|rw|main"
    "|base64|b64|plain|hex|raw|string|value|temp|tmp"
)
"""What may stand behind a name with a sign between: `DB_PASSWORD_PROD`."""
SAID = "is|was|lautet|ist|est|es|è|é|jest|это|是"
"""What may stand between a name and its value in a sentence."""
_STAGE = re.compile(rf"[_.-](?:{STAGES})$", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")


@lru_cache(4096)
def strength(name: str) -> Strength:
    """Return how much a name says, however its words are joined."""
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
