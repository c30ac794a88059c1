"""What the harnesses of a program are doing, told to those who ask again and again as far as it has changed.

    asked     since=TOKEN.VERSION, for each program that has answered before, separated by commas; nothing at first
    answered  {"token", "version", "is_whole", "lives": [[name, doing, age_s, timeout_s, halted], …], "gone": [name, …]}

A program finds its own version by its token. If it knows it no longer, the answer is whole: it replaces what was told before.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence, Set

import msgspec
import trio
from attrs import define, field

from orchestrator.runtime.activity import Doing, Doings, ToldLives
from orchestrator.runtime.child import Child

AT_ONCE = 500
"""How many harnesses are asked what they are doing before others get a turn: about a millisecond."""
_MOST_GONE = 10_000
"""Harnesses that are remembered as gone; older versions than theirs are answered as a whole."""


@define(eq=False)
class LiveBoard:
    """Compares what harnesses are doing with what they did before, for any number of askers."""

    _token: str = field(factory=lambda: secrets.token_hex(8))
    _version: int = 0
    _oldest: int = 0
    """The oldest version of which every change is known."""
    _known: dict[str, tuple[Doings, int]] = field(factory=dict[str, tuple[Doings, int]])
    """What each harness is doing, and the version in which that changed, oldest first."""
    _gone: dict[str, int] = field(factory=dict[str, int])
    _lock: trio.Lock = field(factory=trio.Lock)

    async def changed(self, children: Sequence[Child], since: str) -> bytes:
        """Return as JSON a `ToldLives` of what has changed since a version; others take their turns meanwhile."""
        async with self._lock:
            await self._look(children)
            found = re.search(rf"\b{self._token}\.(\d{{1,15}})\b", since)
            version = int(found[1]) if found else -1
            is_whole = not self._oldest <= version <= self._version
            changed = self._changed_after(-1 if is_whole else version)
            gone = [] if is_whole else [name for name, at in self._gone.items() if at > version]
            return msgspec.json.encode(ToldLives(self._token, self._version, is_whole, changed, gone))

    def _changed_after(self, version: int) -> list[tuple[str, Doing, float, float | None, str]]:
        now, found = trio.current_time(), list[tuple[str, Doing, float, float | None, str]]()
        for name, ((doing, since, timeout_s, halted), changed) in reversed(self._known.items()):
            if changed <= version:
                break
            found.append((name, doing, 0.0 if since is None else round(now - since, 3), timeout_s, halted))
        return found

    async def _look(self, children: Sequence[Child]) -> None:
        """Read what each harness is doing, and keep which of them changed in the version that begins."""
        self._version += 1
        known, running = self._known, set[str]()
        for first in range(0, len(children), AT_ONCE):
            for child in children[first : first + AT_ONCE]:
                doings, name = child.doing_since(), child.name
                if doings is None:
                    continue
                running.add(name)
                told = known.get(name)
                if told is None or told[0] != doings:
                    known.pop(name, None)
                    known[name] = doings, self._version
            await trio.lowlevel.checkpoint()
        self._note_gone(running)

    def _note_gone(self, running: Set[str]) -> None:
        """Keep which of the harnesses that were known are not running any more."""
        for name in () if len(running) == len(self._known) else self._known.keys() - running:
            del self._known[name]
            self._gone[name] = self._version
        for name in self._gone.keys() & running:
            del self._gone[name]
        if len(self._gone) > _MOST_GONE:
            self._gone.clear()
            self._oldest = self._version
