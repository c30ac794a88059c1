"""A fast check of whether everything under a seal is as it was sealed; what is not is examined record by record.

SQLite joins the text of some hundred records in one row, as the sealer does, and another thread hashes it meanwhile: both
release the interpreter.

Invariant: a seal passes only if the slow way finds nothing in it. So records that a program does not write, or that have to be
noted, do not pass: another type than text, which the joined text hides, and records of repairs.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Any
from zlib import crc32

from attrs import define, field

from orchestrator.store.integrity.proof_findings import REPAIRED, Seal
from orchestrator.store.integrity.record_bytes import cap_texts, text_bytes
from orchestrator.store.integrity.seals import BETWEEN, RECORD_TEXT, trailer

_CHUNK = 256
_WAITING = 8
"""Limit on the chunks and seals that wait for the hashing thread."""
_TEXTS = f"""
SELECT count(*), max(seq), total(is_strange), CAST(group_concat(text, char(30)) AS BLOB) FROM (
    SELECT seq, {RECORD_TEXT} AS text,
           kind = '{REPAIRED}' OR typeof(kind) <> 'text' OR typeof(body) <> 'text' OR typeof(state) NOT IN ('text', 'null')
           AS is_strange
    FROM records WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT {_CHUNK}
)
"""


@define
class _Hashing:
    """The records of one seal, as far as they are hashed."""

    seal: Seal
    digest: Any
    marks: list[int] = field(factory=list[int])

    def take(self, text: bytes) -> None:
        self.digest.update(text)
        self.digest.update(BETWEEN)
        self.marks += map(crc32, text.split(BETWEEN))

    def is_intact(self) -> bool:
        seal = self.seal
        self.digest.update(trailer(seal.position, seal.first_seq, seal.last_seq, seal.text))
        return self.digest.hexdigest() == seal.hash and self.marks == [*seal.marks.values()]


class SealChecks:
    """Checks seals one after another.

    Args:
        db: the connection of the walk along the chain.
        hashing: a pool of one thread, so that what is submitted to it is done in order.
    """

    def __init__(self, db: sqlite3.Connection, hashing: ThreadPoolExecutor) -> None:
        self._db = db
        self._hashing = hashing
        self._hashed: deque[Future[None]] = deque()

    def start(self, after: int, seal: Seal, before: str) -> Future[bool] | None:
        """Begin to check a seal; return whether it is intact, None if that can only be found record by record.

        Args:
            after: records after this number belong to the seal.
            before: hash of the seal before.
        """
        work = _Hashing(seal, sha256(text_bytes(before)))
        try:
            with cap_texts(self._db):
                for text in self._texts(after, seal):
                    self._submit(work, text)
        except (sqlite3.Error, ValueError):
            return None
        return self._hashing.submit(work.is_intact)

    def _texts(self, after: int, seal: Seal) -> Iterator[bytes]:
        """Yield the texts of the records after one, up to the last of the seal.

        Raises:
            ValueError: the records are not those that a program writes.
            sqlite3.Error: they are too large to be joined, or the file is damaged.
        """
        done = seal.first_seq - 1
        while done < seal.last_seq:
            count, newest, strange, text = self._db.execute(_TEXTS, (after, seal.last_seq)).fetchone()
            if strange or not count or newest - done != count:
                raise ValueError(after)
            yield text
            after = done = newest

    def _submit(self, work: _Hashing, text: bytes) -> None:
        self._hashed.append(self._hashing.submit(work.take, text))
        if len(self._hashed) > _WAITING:
            self._hashed.popleft().result()
