"""Names that say that what they name is secret: `db_password`, `X-Api-Key`, `clientSecret`. Pure.

The law: it is the end of a name that counts. `secret_santa`, `tokens`, `password_policy` and `public_key` name no secret.

    STRONG    whatever it names is secret, be it short: password, client_secret, api_key, access_token
    HEADER    secret if it looks like what such a header carries: authorization, cookie
    WEAK      secret if it looks random: token, auth, stripe_key
    NONE      everything else
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache


class Strength(IntEnum):
    """How much a name says."""

    NONE = 0
    WEAK = 1
    HEADER = 2
    STRONG = 3


@lru_cache(4096)
def strength(name: str) -> Strength:
    """Return how much a name says, however its words are joined."""
    squeezed = "".join(filter(str.isalnum, name)).lower().rstrip("0123456789")
    return max(_strength(squeezed), _strength(squeezed[:-1]) if squeezed.endswith("s") else Strength.NONE)


def _strength(squeezed: str) -> Strength:
    if squeezed.endswith(_HARMLESS):
        return Strength.NONE
    if squeezed.endswith(_STRONG) or squeezed in _SHORT:
        return Strength.STRONG
    if squeezed.endswith(_HEADERS):
        return Strength.HEADER
    if squeezed.endswith(("token", "auth", "pass")) or (squeezed.endswith("key") and squeezed != "key"):
        return Strength.WEAK
    return Strength.NONE


def _ends(kinds: str, end: str) -> tuple[str, ...]:
    return tuple(f"{kind}{end}" for kind in kinds.split())


_STRONG = (
    *(
        "password",
        "passwd",
        "passwort",
        "passphrase",
        "passcode",
        "pwd",
        "secret",
        "credential",
        "jwt",
        "mnemonic",
        "jfrogartapi",
    ),
    *_ends("seed recovery secret", "phrase"),
    *_ends(
        "db database smtp ftp mysql mssql postgres pg redis mongo user ssh mail email imap admin root proxy require", "pass"
    ),
    *_ends("api access secret private privat encryption signing master account shared storage auth service", "key"),
    *_ends("subscription license hmac session ssh deploy integration jwt webhook pgp gpg", "key"),
    *_ends("access auth refresh id session bearer api csrf xsrf github gh gitlab npm pypi slack bot oauth security", "token"),
    *_ends("private personal deploy service admin login reset client vault hf huggingface jwt sas registry telegram", "token"),
)
_SHORT = frozenset(("pw", "dbpw", "userpw", "adminpw", "rootpw", "mypw"))
_HEADERS = ("authorization", "cookie")
_HARMLESS = (
    *_ends("public publishable primary foreign partition sort cache idempotency row group object s3 dedup checksum", "key"),
    *_ends("page next continuation sync cursor eos bos pad unk sep cls mask stop start end special", "token"),
)
"""What is of no use to a thief: names of columns, places in a listing, marks in the vocabulary of a model."""
BESIDE_SECRETS = frozenset(
    ("user", "username", "login", "name", "type", "id", "url", "host", "region", "path", "file", "filename", "title", "status")
)
"""Among secrets these are not secret: a user's name beside the password."""
