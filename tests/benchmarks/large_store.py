"""A store of many steps, written through the store's own code, quickly: half of its harnesses trade, half write features.

Words and numbers differ in every step. There are effects, approvals, crashes and restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field

from harnesses.effects.approval import Action, request_of
from harnesses.files.safe_files import make_key
from orchestrator import events
from orchestrator.codec import encode_private
from orchestrator.lifecycle import Status
from orchestrator.store import SqliteStore
from orchestrator.store.rules.signing_key import read_secret, secret_path
from orchestrator.store.store_operations import Ask, Respond, TakeUp
from orchestrator.store.store_protocol import Append, Claim, Claimed, EffectRow, Operation, StepRow
from tests.benchmarks.work import WORDS

START_US = 1_763_769_600_000_000
_STEP_US = 200_000
_ROUNDS = 4
"""Steps of each harness between two commits of events."""
_EFFECT_EVERY, _CRASH_EVERY, _ASK_EVERY, _SNAPSHOT_EVERY = 20, 1000, 2500, 250
_ATTEMPT = 12
"""Steps that a feature takes at most, tries that fail included."""


def write_large_store(path: Path, steps: int, harnesses: int) -> None:
    """Write a store of so many steps; one harness in ten has ended in the end, each other one runs as its program is gone."""
    dice = Random(1)
    with closing(SqliteStore(path)) as store:
        make_key(secret_path(path))
        secret = read_secret(path)
        names = [f"{'coder' if number % 2 else 'trader'}-{number}" for number in range(harnesses)]
        claims = [Claim(name, '{"features":[]}', f"example:{name.partition('-')[0].title()}") for name in names]
        working = [
            _Coder(name, claimed, dice) if number % 2 else _Trader(name, claimed, dice)
            for number, (name, claimed) in enumerate(zip(names, store.commit([], claims).results, strict=True))
        ]
        store.commit([], [one.event(events.Started(), Status.RUNNING) for one in working])
        while any(one.step < steps // harnesses for one in working):
            for _ in range(min(_ROUNDS, steps // harnesses - working[0].step)):
                effects = [effect for one in working for effect in one.effects()]
                store.commit([], effects=effects)
                rows = [one.make() for one in working]
                for at in range(0, harnesses, 500):
                    store.commit(rows[at : at + 500])
            store.commit([], [operation for one in working for operation in one.between(secret)])
        ended = [one.event(events.Finished(), Status.FINISHED, release=True) for one in working[::10]]
        store.commit([], ended)


@define
class _Working:
    """One harness that makes steps."""

    name: str
    claimed: Claimed
    dice: Random
    step: int = 0
    attempt: int = 1

    @property
    def time_us(self) -> int:
        return START_US + self.step * _STEP_US + self.claimed.harness

    def event(self, event: events.Event, status: Status, *, release: bool = False) -> Append:
        place = self.claimed.harness, self.claimed.epoch, self.attempt, self.step, self.time_us
        return Append(*place, event, status, release)

    def make(self) -> StepRow:
        """Return the next step."""
        self.step += 1
        given, output, delta, state = self.turn()
        body = {"input": given, "output": output, "delta": delta, "took_us": self._took()}
        saved = encode_private(state) if self.step % _SNAPSHOT_EVERY == 0 else None
        place = self.claimed.harness, self.claimed.epoch, self.attempt, self.step, self.time_us
        return StepRow(*place, encode_private(body), saved)

    def effects(self) -> Iterator[EffectRow]:
        """Yield the effect of the next step, in some."""
        if (self.step + self.claimed.harness) % _EFFECT_EVERY:
            return
        place = self.claimed.harness, self.claimed.epoch, self.attempt, self.step + 1, self.time_us
        key = f"write {self.words(2)}"
        yield EffectRow(*place, encode_private({"key": key, "arguments": [self.words(6)]}), "intent")
        said = {"key": key, "outcome": "confirmed", "result": {"text": self.words(8)}}
        yield EffectRow(*place, encode_private(said), "outcome")

    def between(self, secret: bytes) -> Iterator[Operation]:
        """Yield what happens between two steps, now and then: an approval, or a crash and another attempt."""
        place = self.step + self.claimed.harness * 4
        if place % _ASK_EVERY < _ROUNDS:
            yield from self._approval(secret, is_answered=place % (4 * _ASK_EVERY) >= _ROUNDS)
        if place % _CRASH_EVERY < _ROUNDS:
            cause = f"ConnectionError: {self.words(3)} {self.dice.randrange(1000)}"
            due = self.time_us / 1e6 + 0.1
            yield self.event(events.Failed("ConnectionError", cause), Status.FAILED)
            yield self.event(events.Restarting(cause, 0.1, due, (due,)), Status.BACKING_OFF)
            self.attempt += 1
            yield self.event(events.Started(self.step), Status.RUNNING)

    def _approval(self, secret: bytes, *, is_answered: bool) -> Iterator[Operation]:
        action = Action("publish", self.words(5), {"to": self.words(1)}, expires_s=3600)
        id = f"{self.name}.{self.step}"
        request = request_of(id, self.name, self.step + 1, self.words(2), action, now_us=self.time_us)
        harness, epoch = self.claimed.harness, self.claimed.epoch
        yield Ask(harness, epoch, self.attempt, request, secret)
        if is_answered:
            yield Respond(id, "approved", "ann", self.words(3), self.time_us + 5, secret)
            yield TakeUp(harness, epoch, self.attempt, self.step + 1, id, self.time_us + 9, secret)

    def words(self, count: int) -> str:
        return " ".join(self.dice.choices(WORDS, k=count))

    def turn(self) -> tuple[Any, Any, Any, Any]:
        """Return input, output, delta and state of the step."""
        raise NotImplementedError

    def _took(self) -> dict[str, int]:
        return {
            "work": self.dice.randrange(150_000),
            "agent": self.dice.randrange(90_000),
            "commit": self.dice.randrange(4000),
        }


@define
class _Trader(_Working):
    """A harness that buys and sells one share by turns."""

    cash: Decimal = Decimal(100_000)
    held: int = 0

    def turn(self) -> tuple[Any, Any, Any, Any]:
        price = Decimal(self.dice.randrange(9000, 11000)).scaleb(-2)
        time = (datetime(1990, 1, 1, tzinfo=UTC) + timedelta(hours=self.step)).isoformat()
        fills = [self._fill(price, time)] if self.step % 3 == 0 else []
        equity = self.cash + self.held * price
        bar = {"open": str(price), "high": str(price + 1), "low": str(price - 1), "close": str(price), "volume": "1000"}
        given = {"time": time, "bars": {"SPY": {**bar, "split": "1"}}}
        output: dict[str, Any] = {
            "time": time, "cash": str(self.cash), "equity": str(equity), "positions": {"SPY": str(self.held)},
            "drawdown": "0.0125", "risk": "active", "why": "", "placed": [], "reports": [], "refused": [], "fills": fills,
            "cancelled": [], "commands": [], "foreign": [], "adopted": None, "latched": "",
        }  # fmt: skip
        if self.step == 1:
            output["adopted"] = {"cash": str(self.cash), "positions": {}}
        changed = {"cash": str(self.cash), "equity": str(equity), "count": self.step, "note": self.words(4)}
        return given, output, {"set": changed}, {"features": [], **changed}

    def _fill(self, price: Decimal, time: str) -> dict[str, Any]:
        side = "sell" if self.held else "buy"
        sign = 1 if side == "sell" else -1
        self.held += -sign
        self.cash += sign * price - 1
        fill = {"fill_id": f"f{self.step}", "client_id": f"{self.name}-{self.step}", "symbol": "SPY", "side": side}
        amounts = {"units": "1", "price": str(price), "fee": "1", "time": time, "fee_units": "0"}
        return {"fill": {**fill, **amounts}, "source": "venue", "wanted_by": "strategy"}


@define
class _Coder(_Working):
    """A harness that works on features in turn: one try in three passes."""

    features: list[Any] = field(factory=list[Any])

    def turn(self) -> tuple[Any, Any, Any, Any]:
        feature, passes = f"feature-{self.step // _ATTEMPT}", self.step % 3 == 0
        given = {"kind": "turn", "feature_id": feature, "turn": self.step % _ATTEMPT + 1, "prompt": self.words(20)}
        output = {
            "status": "passed" if passes else "not_validated",
            "note": self.words(6),
            "duration_s": self.dice.random(),
            "result": {
                "text": self.words(30),
                "tokens": self.dice.randrange(5000),
                "commit": f"{self.dice.getrandbits(160):040x}",
            },
            "verdict": {"passed": passes, "evidence": self.words(10), "validator": "tests"},
        }
        changed = {"count": self.step, "feature": feature, "note": self.words(4)}
        delta: dict[str, Any] = {"set": changed}
        if self.step % _ATTEMPT == 1:
            given = {"kind": "amend", "prompt": self.words(20)}
            delta["in"] = {"features": {"append": [{"id": feature}]}}
            self.features.append({"id": feature})
        return given, output, delta, {"features": self.features, **changed}
