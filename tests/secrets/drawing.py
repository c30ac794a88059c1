"""Made-up secrets, put together when they are needed, so that no scanner takes this folder for a leak."""

from __future__ import annotations

import random
import string

BASE62 = string.ascii_letters + string.digits
BASE64URL = f"{BASE62}-_"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
AT = chr(64)
"""The sign between a user and a machine, kept apart for those who replace addresses in text."""
DASHES = "-" * 5


def drawn(count: int, letters: str = BASE62, seed: str = "") -> str:
    """Return so many letters, always the same ones; a digit and a capital are among the first ten."""
    dice = random.Random(f"{seed}/{count}/{letters}")
    text = "".join(dice.choices(letters, k=count))
    if letters in (BASE62, BASE64URL):
        return f"{text[:3]}7{text[4:6]}Q{text[7]}3{text[9:]}"[:count] if count > 9 else text
    return text


def pem(kind: str = "RSA ", lines: int = 6) -> tuple[str, tuple[str, ...]]:
    """Return a private key that opens nothing, and the lines of it that must go."""
    label = f"{kind}PRIVATE KEY"
    body = tuple(drawn(64, f"{BASE62}+/", f"{kind}{number}") for number in range(lines - 1))
    body = (*body, f"{drawn(38, BASE62, kind)}==")
    return "\n".join((f"{DASHES}BEGIN {label}{DASHES}", *body, f"{DASHES}END {label}{DASHES}")), body


def jwt() -> str:
    """Return a signed token of nobody."""
    return f"eyJhbGciOiJIUzI1NiJ9.eyJ{drawn(40, BASE64URL, 'claims')}.{drawn(43, BASE64URL, 'signature')}"
