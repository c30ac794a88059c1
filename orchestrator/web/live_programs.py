"""What the programs that run on a store tell of their harnesses; asked again, they tell only what has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import TypeAlias

import msgspec
from attrs import define, field
from msgspec.structs import replace

from harnesses.timing.clock import now_s
from orchestrator.control.control_client import Reply, ask_soon
from orchestrator.runtime.activity import Doing, Live, ToldLives
from orchestrator.status_lines import lives_in

_ANSWER_S = 1.0
"""Seconds that a program has to answer."""
_KEPT_S = 1.0
_SAME_S = 1.5
"""Seconds by which two readings of when a step began may differ, of programs that tell all at each question."""
_TOLD = msgspec.json.Decoder(ToldLives)


class LiveSince(msgspec.Struct, frozen=True, gc=False):
    """A `Live` with the time when its step began instead of its age: it stays the same for as long as nothing changes."""

    doing: Doing
    since_s: float
    """Wall time, seconds since 1970."""
    timeout_s: float | None
    halted: str

    def at(self, now: float) -> Live:
        """Return it as it is at a moment, wall time."""
        return Live(self.doing, now - self.since_s, self.timeout_s, self.halted)


LivesSince: TypeAlias = Mapping[str, LiveSince]


@define(eq=False)
class LivePrograms:
    """Asks the programs that run on one store.

    Args:
        path: the file of the store.
        kept_s: seconds for which their answer is told again.
    """

    path: Path
    kept_s: float = _KEPT_S
    _told: dict[str, tuple[int, dict[str, LiveSince]]] = field(factory=dict[str, tuple[int, dict[str, LiveSince]]])
    """The version that each program told last, and what its harnesses do, by its token."""
    _lives: LivesSince = field(factory=dict[str, LiveSince])
    _moved: set[str] = field(factory=set[str])
    _asked_at: float = -inf
    _lock: threading.Lock = field(factory=threading.Lock)

    def lives(self) -> LivesSince:
        """Return what the harnesses of all programs do, by name; empty if none runs."""
        with self._lock:
            if time.monotonic() - self._asked_at > self.kept_s:
                self._ask()
                self._asked_at = time.monotonic()
            return self._lives

    def take(self) -> tuple[LivesSince, set[str]]:
        """Return the same, and the harnesses of which something has changed since the last call."""
        lives = self.lives()
        with self._lock:
            moved, self._moved = self._moved, set()
            return lives, moved

    def _ask(self) -> None:
        since = ",".join(f"{token}.{version}" for token, (version, _) in self._told.items())
        replies, _ = ask_soon(self.path, f"/lives?since={since}", _ANSWER_S)
        heard = dict(self._heard(reply) for reply in replies if reply.status == 200)
        if earlier := {reply.run for reply in replies if reply.status == 404}:  # programs of earlier versions
            everything, _ = ask_soon(self.path, "/status", _ANSWER_S)
            heard.update(self._all_of(reply) for reply in everything if reply.status == 200 and reply.run in earlier)
        for token in self._told.keys() - heard.keys():
            self._moved |= self._told[token][1].keys()
        self._told = heard
        parts = [lives for _, lives in heard.values()]
        self._lives = parts[0] if len(parts) == 1 else {name: one for lives in parts for name, one in lives.items()}

    def _heard(self, reply: Reply) -> tuple[str, tuple[int, dict[str, LiveSince]]]:
        told, now = _TOLD.decode(reply.text), now_s()
        before = self._told.get(told.token, (0, dict[str, LiveSince]()))[1]
        changed = {
            name: LiveSince(doing, round(now - age_s, 3), timeout_s, halted)
            for name, doing, age_s, timeout_s, halted in told.lives
        }
        self._moved |= changed.keys() | set(told.gone)
        if told.is_whole:
            self._moved |= before.keys()
            return told.token, (told.version, changed)
        lives = before | changed
        for name in told.gone:
            lives.pop(name, None)
        return told.token, (told.version, lives)

    def _all_of(self, reply: Reply) -> tuple[str, tuple[int, dict[str, LiveSince]]]:
        before, now = self._told.get(reply.run, (0, dict[str, LiveSince]()))[1], now_s()
        lives: dict[str, LiveSince] = {}
        for name, live in lives_in(reply.text.splitlines()).items():
            one = LiveSince(live.doing, now - live.age_s, live.timeout_s, live.halted)
            kept = before.get(name)
            if kept is None or abs(kept.since_s - one.since_s) > _SAME_S or kept != replace(one, since_s=kept.since_s):
                lives[name] = one
                self._moved.add(name)
            else:
                lives[name] = kept
        self._moved |= before.keys() - lives.keys()
        return reply.run, (0, lives)
