"""Large values that a store keeps in files beside it, and what their records say instead.

{"key": …, "outcome": "confirmed", "result": …}
{"key": …, "outcome": "confirmed", "file": {"sha256": …, "bytes": …, "field": "result"}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from attrs import field, frozen

from harnesses.errors import HarnessMisuse

LARGE_BYTES = 64_000
"""Size from which a value is kept in a file, bytes of JSON."""
ASIDE = {"outcome": "result", "transcript": "messages"}
"""The field of a record's body that is kept in a file if it is large, by the kind of record."""
FILE = "file"
"""The field that stands for the one in the file."""
NAMES_A_FILE = f'"{FILE}":{{"sha256":"'
"""Text in the body of each record that names a file, and in few others."""

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


@frozen
class StoredFile:
    """A file beside a store, as its record names it."""

    sha256: str
    """Hash of the file's content, 64 hexadecimal digits; also its name."""
    bytes: int
    """Size of the file."""
    field: str
    """Name of the field whose value is in the file."""


ReadFile: TypeAlias = Callable[[StoredFile], str]
"""Reads the JSON of a value from its file."""


def cannot_read(file: StoredFile) -> str:
    """Stand for a store that keeps no values in files."""
    raise HarnessMisuse(f"file {file.sha256} cannot be read: expected the store whose record names it; use that store")


@frozen(eq=False)
class StoredText:
    """A JSON text in a file beside a store; it is read anew each time."""

    file: StoredFile
    _read: ReadFile = field(repr=False)

    def read(self) -> str:
        """Return the text.

        Raises:
            StoreError: the file is missing, or was changed.
        """
        return self._read(self.file)


def split_large(kind: str, body: str) -> tuple[dict[str, msgspec.Raw], str, str] | None:
    """Return the fields of a record's body, the name of its large field, and that field's JSON; None if none is large."""
    name = ASIDE.get(kind)
    if name is None or len(body) * 4 <= LARGE_BYTES:
        return None
    fields = _split(body)
    if name not in fields or len(fields[name]) <= LARGE_BYTES:
        return None
    return fields, name, str(fields[name], "utf-8")


def with_file(fields: Mapping[str, msgspec.Raw], file: StoredFile) -> str:
    """Return the body of a record with a reference to a file instead of the field that is in it."""
    said = {"sha256": file.sha256, "bytes": file.bytes, "field": file.field}
    return str(_write({**{name: value for name, value in fields.items() if name != file.field}, FILE: said}), "utf-8")


def with_value(body: str, file: StoredFile, text: str) -> str:
    """Return the body of a record with the value from its file, as it was before it was stored."""
    fields = {name: value for name, value in _split(body).items() if name != FILE}
    return str(_write({**fields, file.field: msgspec.Raw(text.encode())}), "utf-8")


def stored_file(kind: str, body: str | bytes) -> StoredFile | None:
    """Return the file that a record names; None if it names none.

    Raises:
        msgspec.DecodeError: the body is not a JSON object, or what it says of a file is not valid.
    """
    if kind not in ASIDE:
        return None
    said = _split(body).get(FILE)
    return None if said is None else as_stored_file(msgspec.json.decode(said), kind)


def as_stored_file(said: object, kind: str) -> StoredFile:
    """Check what a record says of its file.

    Raises:
        msgspec.ValidationError: it is not valid.
    """
    file = msgspec.convert(said, StoredFile)
    is_hash = len(file.sha256) == 64 and not file.sha256.strip("0123456789abcdef")
    if file.field != ASIDE[kind] or not is_hash or file.bytes < 0:
        raise msgspec.ValidationError(f"not the name of a file of a store: {file}")
    return file
