"""Between episodes and the rows they are kept in: what is signed, and what is read of it.

The law: a row is read only if the signature is that of everything in it. What is not, is dropped and counted, never an error:
one torn or forged row does not make a memory useless.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec
from attrs import evolve, field, frozen

from harnesses.memory.episodes import Episode, Fact, moment, problem_of
from harnesses.memory.row_signing import Signer

COLUMNS = "number, id, run_id, task_id, created_us, trusted, retracted, body, content, key_id, signature"
_episode: msgspec.json.Decoder[Episode] = msgspec.json.Decoder(Episode)
_fact: msgspec.json.Decoder[Fact] = msgspec.json.Decoder(Fact)


@frozen
class Kept:
    """An episode that was read, and that is what was written."""

    number: int
    episode: Episode
    trusted: bool
    retracted: bool


@frozen
class Dropped:
    """A row that is not read."""

    id: str
    reason: str
    """`invalid_signature`, `signing_key_drift`, or `unreadable`."""


@frozen
class Rows:
    """Signs and reads the rows of one project."""

    project: str
    signer: Signer = field(repr=False)

    def of_episode(self, episode: Episode, trusted: bool, retracted: bool = False) -> tuple[Any, ...]:
        """Return an episode as a row, but for its number."""
        body = msgspec.json.encode(evolve(episode, created_at=moment(episode.created_at))).decode()
        signed = self._parts(episode.id, episode.run_id, episode.task_id, us(episode.created_at), trusted, retracted, body)
        told = (episode.id, episode.run_id, episode.task_id, us(episode.created_at), int(trusted), int(retracted), body)
        return (*told, content_of(episode), self.signer.key_id, self.signer.sign("episode", *signed))

    def episode(self, row: tuple[Any, ...]) -> Kept | Dropped:
        """Return what a row, with its number, says; or why it is not read."""
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
        return Kept(number, episode, bool(trusted), bool(retracted))

    def of_fact(self, fact: Fact, retracted: bool = False) -> tuple[Any, ...]:
        """Return a fact as a row, but for its number."""
        body = msgspec.json.encode(evolve(fact, created_at=moment(fact.created_at))).decode()
        signature = self.signer.sign("fact", self.project, fact.id, str(int(retracted)), body)
        return (fact.id, int(retracted), body, self.signer.key_id, signature)

    def fact(self, row: tuple[Any, ...]) -> Fact | Dropped:
        """Return what a row of a fact, with its number, says; or why it is not read."""
        _, id, retracted, body, key_id, signature = row
        if not self.signer.verifies(signature, "fact", self.project, str(id), str(retracted), str(body)):
            return Dropped(str(id), "invalid_signature" if key_id == self.signer.key_id else "signing_key_drift")
        try:
            return _fact.decode(body)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return Dropped(str(id), "unreadable")

    def of_retraction(self, id: str, reason: str, by: str, at_us: int, because_of: str) -> tuple[Any, ...]:
        """Return a retraction as a row."""
        signature = self.signer.sign("retraction", self.project, id, reason, by, str(at_us), because_of)
        return (id, reason, by, at_us, because_of, self.signer.key_id, signature)

    def _parts(self, *parts: object) -> tuple[str, ...]:
        """Return what is signed of an episode; numbers and truth values as the file has them."""
        return (self.project, *(str(int(part)) if isinstance(part, bool) else str(part) for part in parts))


def us(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return int(moment(time).timestamp() * 1e6 + 0.5)


def time_of(time_us: int) -> datetime:
    """Return microseconds since 1970 as a time."""
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def content_of(episode: Episode) -> str:
    """Return a digest of what an episode says, whoever says it and when: two that say the same are duplicates."""
    same = evolve(episode, id="", run_id="", attempt=0, created_at=time_of(0), evidence_paths=())
    return sha256(msgspec.json.encode(same)).hexdigest()[:32]
