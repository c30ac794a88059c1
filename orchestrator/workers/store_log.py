"""What wakes the log of a run whose records are written by other processes."""

from __future__ import annotations

import trio
from attrs import define

from orchestrator.store import Store

_LOOK_S = 0.05


@define(eq=False)
class StoreNews:
    """News of a store that others write to; see `orchestrator.log.News`."""

    _store: Store
    ended: bool = False
    """Whether nothing more is written."""

    async def wait_news(self, after: int) -> None:
        """Wait until there is a record after this one, or nothing more is written."""
        while not self.ended and await trio.to_thread.run_sync(self._store.last_seq) <= after:  # noqa: ASYNC110
            await trio.sleep(_LOOK_S)  # other processes write, and nobody tells
