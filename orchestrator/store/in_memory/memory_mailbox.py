"""The mailbox of one harness in the store in memory."""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field

from orchestrator.store.message_values import REPLY, Message, Post, is_bounded, is_open


@define
class MemoryMailbox:
    """What waits for one harness."""

    limit: int | None = None
    waiting: OrderedDict[int, Message] = field(factory=OrderedDict[int, Message])
    """Messages that no step has used, by their `seq`. Of a plain dict, the first of what is left takes ever longer to find."""
    replies: OrderedDict[int, Message] = field(factory=OrderedDict[int, Message])
    """The same for replies."""
    ids: dict[str, int] = field(factory=dict[str, int])
    """The `seq` of each message that had an id, also once it is used."""

    def put(self, seq: int, post: Post) -> int:
        """Take a message in; return the `seq` of the newest one that waited before it, 0 if none did."""
        before = next(reversed(self.waiting), 0)
        message = Message(seq, post.sender, post.body, post.id, post.kind, post.type, post.deadline_us)
        (self.replies if post.kind == REPLY else self.waiting)[seq] = message
        if post.id:
            self.ids[post.id] = seq
        return before

    def use_up(self, seq: int) -> None:
        """Forget a message that a step has used."""
        self.waiting.pop(seq, None)
        self.replies.pop(seq, None)

    def places(self, now_us: int) -> int:
        """Return how many places are taken: a request whose deadline has passed takes none."""
        return sum(is_open(message, now_us) for message in self.waiting.values())

    def is_full_for(self, post: Post, now_us: int, more: int = 0) -> bool:
        """Return whether there is no room for a message, with so many more waiting than there are now."""
        is_new = is_bounded(post) and post.id not in self.ids
        return self.limit is not None and is_new and self.places(now_us) + more >= self.limit
