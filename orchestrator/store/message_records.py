"""What the record of a message says of it."""

from __future__ import annotations

from typing import Any

from orchestrator.codec import decode, encode
from orchestrator.store.messages import PLAIN, Post


def recorded_fields(
    sender: str, body: str, id: str | None, kind: str, type: str | None, deadline_us: int | None
) -> dict[str, Any]:
    """Return what the record of a message says; of a plain one without a type no more than its sender and the message."""
    said: dict[str, Any] = {"from": sender, "message": decode(body)}
    extra = {"id": id, "kind": kind if kind != PLAIN else "", "type": type, "deadline_us": deadline_us}
    return said | {name: value for name, value in extra.items() if value}


def record_of(post: Post) -> str:
    """Return the body of the record of a message that is put in a mailbox."""
    return encode(recorded_fields(post.sender, post.body, post.id, post.kind, post.type, post.deadline_us))
