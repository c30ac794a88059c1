"""What the record of a message says of it."""

from __future__ import annotations

import sqlite3
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


def mailbox_columns(db: sqlite3.Connection, of: str) -> str:
    """Return what to select from the mailbox, known as `of`, for `recorded_fields`.

    A store of an earlier schema version has plain messages only, and no columns for more.
    """
    known = {row[1] for row in db.execute("PRAGMA table_info(mailbox)")}
    more = f"{of}.id, {of}.kind, {of}.type, {of}.deadline_us" if "kind" in known else "NULL, '', NULL, NULL"
    return f"{of}.sender, {of}.body, {more}"


def record_of(post: Post) -> str:
    """Return the body of the record of a message that is put in a mailbox."""
    return encode(recorded_fields(post.sender, post.body, post.id, post.kind, post.type, post.deadline_us))
