"""What the harnesses of a program are doing, told to those who ask again and again as far as it has changed.

    asked     since=TOKEN.VERSION, for each program that has answered before, separated by commas; nothing at first
    answered  {"token", "version", "is_whole", "lives": [[name, doing, age_s, timeout_s, halted], …], "gone": [name, …]}

A program finds its own version by its token. If it knows it no longer, the answer is whole: it replaces what was told before.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import trio
from attrs import define, field

from orchestrator.runtime.activity import Live, ToldLives
from orchestrator.runtime.child import Child

AT_ONCE = 500
"""How many harnesses are asked what they are doing before others get a turn: about a millisecond."""
_MOST_GONE = 10_000
"""Harnesses that are remembered as gone; older versions than theirs are answered as a whole."""
_Key: TypeAlias = tuple[str, float, float | None, str]


@define(eq=False)
class LiveBoard:
    """Compares what harnesses are doing with what they did before, for any number of askers."""

    _token: str = field(factory=lambda: secrets.token_hex(8))
    _version: int = 0
    _oldest: int = 0
    """The oldest version of which every change is known."""
    _known: dict[str, tuple[_Key, int]] = field(factory=dict[str, tuple[_Key, int]])
    _gone: dict[str, int] = field(factory=dict[str, int])
    _lock: trio.Lock = field(factory=trio.Lock)

    async def changed(self, children: Sequence[Child], since: str) -> bytes:
        """Return as JSON a `ToldLives` of what has changed since a version; others take their turns meanwhile."""
        async with self._lock:
            lives = await self._look(children)
            found = re.search(rf"\b{self._token}\.(\d{{1,15}})\b", since)
            version = int(found[1]) if found else -1
            is_whole = not self._oldest <= version <= self._version
            changed = [
                (name, live.doing, round(live.age_s, 3), live.timeout_s, live.halted)
                for name, live in lives.items()
                if is_whole or self._known[name][1] > version
            ]
            gone = [] if is_whole else [name for name, at in self._gone.items() if at > version]
            return msgspec.json.encode(ToldLives(self._token, self._version, is_whole, changed, gone))

    async def _look(self, children: Sequence[Child]) -> dict[str, Live]:
        """Return what each harness is doing, and keep which of them changed in the version that begins."""
        self._version += 1
        before, lives = self._known, dict[str, Live]()
        known: dict[str, tuple[_Key, int]] = {}
        for first in range(0, len(children), AT_ONCE):
            now = trio.current_time()
            for child in children[first : first + AT_ONCE]:
                if (live := child.doing_at(now)) is None:
                    continue
                name = child.name
                key = (live.doing, round(now - live.age_s, 3), live.timeout_s, live.halted)
                told = before.get(name)
                known[name] = told if told is not None and told[0] == key else (key, self._version)
                lives[name] = live
            await trio.lowlevel.checkpoint()
        for name in before.keys() - known.keys():
            self._gone[name] = self._version
        for name in self._gone.keys() & known.keys():
            del self._gone[name]
        if len(self._gone) > _MOST_GONE:
            self._gone.clear()
            self._oldest = self._version
        self._known = known
        return lives
