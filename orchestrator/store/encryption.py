"""Encryption at rest of what a store cannot redact: states, and arguments and results of effects.

Fields are encrypted, not the file: numbers, times, inputs, outputs and events stay readable, so views, seals and both
verifiers work without the key. AES-256-GCM with a random nonce for each field. The field's role is authenticated with it, so
that a state cannot be passed off as a result. Seals prove which record a field belongs to.

    body of a step              `delta`                     columns   `records.state`, `harnesses.initial_state`
    body of an intent           `arguments`                 body of a request for approval   `arguments`
    body of an outcome          `result`                    body of a `child`   `arguments`
    body of a `transcript`      `messages`                  files of large values (`orchestrator.store.file.value_files`)

An encrypted field is the text `encrypted:v1:<base64 of nonce and ciphertext>`: a JSON string within a body, and raw text in a
column, where no JSON text begins like that. Not encrypted: inputs, outputs and messages, which are redacted or meant for
others.
"""

from __future__ import annotations

import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from attrs import evolve, frozen

from harnesses.data.record_size import ENCRYPTED
from harnesses.diagnostics.extras import install_command
from harnesses.files.private_files import conceal_file
from harnesses.files.safe_files import KEY_BYTES, key_in
from orchestrator.errors import StoreUnusable, UsageError
from orchestrator.records import EffectRecord
from orchestrator.store.store_protocol import StepRow

KEY_FILE = "ORCHESTRATOR_STORE_KEY_FILE"
"""Environment variable: path of the key file for stores that are opened without a key."""
_NONCE_BYTES = 12
_FIELDS = {
    "step": "delta",
    "intent": "arguments",
    "outcome": "result",
    "approval_requested": "arguments",
    "child": "arguments",
    "transcript": "messages",
}
"""The encrypted field of a record's body, by the kind of record."""
_NEEDED = ("approval_requested",)
"""Kinds that cannot be validated without the key, since their signature covers the field."""
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read = msgspec.json.Decoder().decode
_write = msgspec.json.Encoder().encode
_EMPTY = b"{}"
"""A delta that changes nothing; it is not encrypted."""


@frozen(eq=False)
class Plain:
    """Writes fields unencrypted. Reading an encrypted field raises `StoreUnusable`."""

    _location: str

    def hide(self, role: str, text: str) -> str:
        return text

    def hide_alike(self, role: str, text: str) -> str:
        return text

    def reveal(self, role: str, text: str) -> str:
        if text.startswith(ENCRYPTED):
            raise StoreUnusable(
                f"{self._location} is encrypted: expected its key; set {KEY_FILE}, or pass it when opening the store"
            )
        return text


class AesGcm:
    """Encrypts with a key of 32 bytes. Text that is not encrypted is read back unchanged.

    Raises, on construction:
        UsageError: the key has another length, or the extra `encryption` is not installed.
    Raises, on reading:
        StoreUnusable: a field is encrypted with another key.
    """

    def __init__(self, key: bytes, location: str) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError(
                f"key of {location}: expected {KEY_BYTES} bytes, got {len(key)}; make one with `openssl rand -hex 32`"
            )
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise UsageError(
                "an encrypted store needs the package cryptography: expected the extra `encryption`; "
                f"install it with `{install_command('encryption')}`"
            ) from error
        self._location = location
        self._cipher = AESGCM(key)
        self._nonce_key = hmac.digest(key, b"nonces of large values", "sha256")

    def hide(self, role: str, text: str) -> str:
        return self._hide(role, text, os.urandom(_NONCE_BYTES))

    def hide_alike(self, role: str, text: str) -> str:
        """Encrypt as `hide` does, but equal texts to equal results: the nonce is a keyed hash of the text (RFC 5297)."""
        nonce = hmac.digest(self._nonce_key, f"{role}\n{text}".encode(), "sha256")[:_NONCE_BYTES]
        return self._hide(role, text, nonce)

    def _hide(self, role: str, text: str, nonce: bytes) -> str:
        return ENCRYPTED + b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), role.encode())).decode()

    def reveal(self, role: str, text: str) -> str:
        if not text.startswith(ENCRYPTED):
            return text
        from cryptography.exceptions import InvalidTag

        try:
            stored = b64decode(text[len(ENCRYPTED) :], validate=True)
            return self._cipher.decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], role.encode()).decode()
        except (InvalidTag, NotBase64, ValueError) as error:
            raise StoreUnusable(
                f"{self._location}: a {role} cannot be decrypted: expected the key that it was encrypted with; "
                f"check key= and {KEY_FILE}, or restore the store from a copy if it was changed"
            ) from error


FieldCipher: TypeAlias = Plain | AesGcm
"""Writes (`hide`) and reads (`reveal`) the fields of one store, given the role of a field and its JSON text."""

_EXPECTED = (
    f"expected the path of a file with {2 * KEY_BYTES} hexadecimal digits, as `openssl rand -hex 32` prints, or {KEY_BYTES} "
    "bytes: bytes.fromhex(…)"
)


def cipher_of(key: bytes | str | Path | None, location: str) -> FieldCipher:
    """Return the cipher for a key, or for a key file with 64 hexadecimal digits.

    Args:
        key: None for the key file that `ORCHESTRATOR_STORE_KEY_FILE` names; without that, nothing is encrypted.

    Raises:
        UsageError: the file holds no key.
    """
    if isinstance(key, bytes):
        return AesGcm(key, location)
    file = key or os.environ.get(KEY_FILE)
    if not file:
        return Plain(location)
    try:
        text = Path(file).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        # A text may be the key itself, so no message shows it.
        named = "that key= names" if key else str(file)
        reason = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise UsageError(f"{location}: the key file {named} cannot be read: {reason}; {_EXPECTED}") from None
    try:
        cipher = AesGcm(key_in(text), location)
    except ValueError:
        raise UsageError(f"{location}: the key file {file} holds no key; {_EXPECTED}") from None
    conceal_file(file)
    return cipher


def hide_body(cipher: FieldCipher, kind: str, body: str) -> str:
    """Return the body of a record as it is stored."""
    field = _FIELDS.get(kind)
    if field is None or isinstance(cipher, Plain):
        return body
    fields = _split(body)
    if field not in fields or bytes(fields[field]) == _EMPTY:
        return body
    hidden = cipher.hide(field, str(fields[field], "utf-8"))
    return str(_write({**fields, field: hidden}), "utf-8")


def reveal_body(cipher: FieldCipher, kind: str, body: str) -> str:
    """Return the body of a record from its stored form. Without the key, encrypted fields of steps and effects stay encrypted.

    Raises:
        StoreUnusable: the key is wrong, or missing for an approval request.
    """
    hidden = None if isinstance(cipher, Plain) and kind not in _NEEDED else hidden_field(kind, body)
    if hidden is None:
        return body
    field, stored = hidden
    return str(_write({**_split(body), field: msgspec.Raw(cipher.reveal(field, stored).encode())}), "utf-8")


def hidden_field(kind: str, body: str) -> tuple[str, str] | None:
    """Return the role and the stored text of the encrypted field of a record's body; None if nothing is encrypted."""
    field = _FIELDS.get(kind)
    if field is None or ENCRYPTED not in body:
        return None
    fields = _split(body)
    stored: object = _read(fields[field]) if field in fields else None
    return (field, stored) if isinstance(stored, str) and stored.startswith(ENCRYPTED) else None


def reveal_delta(cipher: FieldCipher, delta: Any) -> dict[str, Any]:
    """Return a delta, decrypted if it is encrypted text."""
    return cast(dict[str, Any], _read(cipher.reveal("delta", delta))) if isinstance(delta, str) else delta


def reveal_value(cipher: FieldCipher, role: str, value: Any) -> Any:
    """Return decoded plain data of a field; without the key, the encrypted text."""
    if isinstance(cipher, Plain) or not isinstance(value, str) or not value.startswith(ENCRYPTED):
        return value
    return _read(cipher.reveal(role, value))


def reveal_effect(cipher: FieldCipher, record: EffectRecord) -> EffectRecord:
    """Return an effect with its arguments and result decrypted; without the key, with the encrypted texts."""
    arguments = reveal_value(cipher, "arguments", record.arguments)
    return evolve(record, arguments=arguments, result=reveal_value(cipher, "result", record.result))


def hidden_row(cipher: FieldCipher, row: StepRow) -> StepRow:
    """Return a step as it is stored."""
    state = None if row.state is None else cipher.hide("state", row.state)
    return row._replace(body=hide_body(cipher, "step", row.body), state=state)


def reveal_row(cipher: FieldCipher, row: StepRow) -> StepRow:
    """Return a step decrypted, for another store.

    Raises:
        StoreUnusable: it is encrypted, and the key is missing or wrong.
    """
    state = None if row.state is None else cipher.reveal("state", row.state)
    return row._replace(body=reveal_body(cipher, "step", row.body), state=state)
