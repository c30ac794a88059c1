"""Signing, encoding and verifying the database rows of episodes, facts and retractions.

Invariant: a row is read only if its signature, an HMAC with a key stored beside the file, covers all of its fields. Other rows
are dropped and counted, never an error, so that one torn or forged row does not make a memory useless. The key file is
readable by its owner only. Whoever has the key can forge rows, so run untrusted agents in a sandbox.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from attrs import evolve, field, frozen

from harnesses.files.safe_files import key_in, make_key
from harnesses.memory.episodes import Episode, Fact, moment, problem_of
from harnesses.memory.memory_model import MemoryUnusable


@frozen
class Signer:
    """Signs and verifies rows."""

    _key: bytes = field(repr=False)

    @property
    def key_id(self) -> str:
        """Id of the key; reveals nothing about it."""
        return hashlib.sha256(b"key of a memory\0" + self._key).hexdigest()[:16]

    def sign(self, kind: str, *parts: str) -> str:
        """Return the signature of a row, over its kind and all its fields in order."""
        text = "".join(f"{len(part.encode())}:{part}\n" for part in (kind, *parts))
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def verifies(self, signature: object, kind: str, *parts: str) -> bool:
        """Return whether a signature matches this row."""
        if not isinstance(signature, str) or not signature.isascii():
            return False
        try:
            return hmac.compare_digest(signature, self.sign(kind, *parts))
        except UnicodeEncodeError:
            return False


def key_path(path: Path) -> Path:
    """Return the path of a memory's key."""
    return path.with_name(f"{path.name}-key")


def signer_of(path: Path, *, make: bool = False) -> Signer:
    """Return the signer of the memory at `path`.

    Args:
        make: whether to create a missing key.

    Raises:
        MemoryUnusable: the key is missing, cannot be created or read, or is readable by others.
    """
    place = key_path(path)
    try:
        if make:
            make_key(place)
        return Signer(_read(place))
    except (OSError, ValueError) as error:
        anew = ", or move it away to begin anew: rows signed with it are then unreadable" if make else ""
        raise MemoryUnusable(f"key {place} of the memory cannot be used: {error}; restore it{anew}") from error


def _read(place: Path) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("expected a plain file")
        if status.st_mode & 0o077:
            raise ValueError(f"expected that only its owner may read it, got {stat.filemode(status.st_mode)}; chmod 600 it")
        text = os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
    return key_in(text.decode("ascii"))


COLUMNS = "number, id, run_id, task_id, created_us, trusted, retracted, body, content, key_id, signature"
FACT_COLUMNS = "number, id, retracted, body, key_id, signature"
_episode: msgspec.json.Decoder[Episode] = msgspec.json.Decoder(Episode)
_fact: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)


@frozen
class StoredEpisode:
    """An episode read from a row with a valid signature."""

    number: int
    episode: Episode
    trusted: bool
    retracted: bool


@frozen
class Dropped:
    """A row that was not read."""

    id: str
    reason: str
    """Why it was dropped: `invalid_signature`, `signing_key_drift`, or `unreadable`."""


@frozen
class Rows:
    """Signs and reads the rows of one project."""

    project: str
    signer: Signer = field(repr=False)

    def of_episode(self, episode: Episode, trusted: bool, retracted: bool = False) -> tuple[Any, ...]:
        """Encode an episode as a row without its number."""
        body = msgspec.json.encode(evolve(episode, created_at=moment(episode.created_at))).decode()
        signed = self._parts(episode.id, episode.run_id, episode.task_id, us(episode.created_at), trusted, retracted, body)
        told = (episode.id, episode.run_id, episode.task_id, us(episode.created_at), int(trusted), int(retracted), body)
        return (*told, content_of(episode), self.signer.key_id, self.signer.sign("episode", *signed))

    def episode(self, row: tuple[Any, ...]) -> StoredEpisode | Dropped:
        """Decode an episode's row, with its number; return why if it is dropped."""
        number, id, run_id, task_id, created_us, trusted, retracted, body, _, key_id, signature = row
        signed = self._parts(id, run_id, task_id, created_us, trusted, retracted, body)
        if not self.signer.verifies(signature, "episode", *signed):
            return Dropped(str(id), "invalid_signature" if key_id == self.signer.key_id else "signing_key_drift")
        try:
            episode = _episode.decode(body)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return Dropped(str(id), "unreadable")
        if problem_of(episode):
            return Dropped(str(id), "unreadable")
        return StoredEpisode(number, episode, bool(trusted), bool(retracted))

    def of_fact(self, fact: Fact, retracted: bool = False) -> tuple[Any, ...]:
        """Encode a fact as a row without its number."""
        body = msgspec.json.encode(evolve(fact, created_at=moment(fact.created_at))).decode()
        signature = self.signer.sign("fact", self.project, fact.id, str(int(retracted)), body)
        return (fact.id, int(retracted), body, self.signer.key_id, signature)

    def fact(self, row: tuple[Any, ...]) -> Fact | Dropped:
        """Decode a fact's row, with its number; return why if it is dropped."""
        _, id, retracted, body, key_id, signature = row
        if not self.signer.verifies(signature, "fact", *self._parts(id, retracted, body)):
            return Dropped(str(id), "invalid_signature" if key_id == self.signer.key_id else "signing_key_drift")
        try:
            return _fact.decode(body)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return Dropped(str(id), "unreadable")

    def of_retraction(self, id: str, reason: str, by: str, at_us: int, because_of: str) -> tuple[Any, ...]:
        """Encode a retraction as a row."""
        signature = self.signer.sign("retraction", self.project, id, reason, by, str(at_us), because_of)
        return (id, reason, by, at_us, because_of, self.signer.key_id, signature)

    def _parts(self, *parts: object) -> tuple[str, ...]:
        """Return the fields of an episode to sign; numbers and booleans in their stored form."""
        return (self.project, *(str(int(part)) if isinstance(part, bool) else str(part) for part in parts))


def us(time: datetime) -> int:
    """Convert a datetime to microseconds since 1970."""
    return int(moment(time).timestamp() * 1e6 + 0.5)


def time_of(time_us: int) -> datetime:
    """Convert microseconds since 1970 to a datetime."""
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def content_of(episode: Episode) -> str:
    """Return a digest of an episode's content without its origin and time, which identifies duplicates."""
    same = evolve(episode, id="", run_id="", attempt=0, created_at=time_of(0), evidence_paths=())
    return sha256(msgspec.json.encode(same)).hexdigest()[:32]
