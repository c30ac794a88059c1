"""What it costs a step that secrets are looked for in it: in the encoder alone, and of all durable steps."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import trio

from harnesses.redaction.redactor import suspects
from harnesses.step import StateDelta, Step
from orchestrator import Orchestrator
from orchestrator.codec import encode_step, without_secrets
from tests.benchmarks.work import Script, Stepping, scripts

_HARNESSES, _STEPS, _ROUNDS = 500, 40, 5
_WORDS = (
    "hold",
    "buy",
    "sell",
    "wait",
    "halt",
    "skip",
    "move",
    "draw",
    "fill",
    "part",
    "over",
    "down",
    "side",
    "trim",
    "grow",
)


def redaction(folder: Path) -> dict[str, Any]:
    """Measure the encoder in nanoseconds a step, and durable steps a second, with and without."""
    script = scripts(_HARNESSES, _STEPS)
    pairs = [
        (_rate(folder / f"{n}-on.db", script, True), _rate(folder / f"{n}-off.db", script, False)) for n in range(_ROUNDS)
    ]
    same = [_step(f"1.{number:05d}", "no signal in this window") for number in range(2000)]
    new = [[_step("1.08345", _said(number)) for number in range(first, first + 1000)] for first in range(0, 10_000, 1000)]
    held = [_step("1.08345", f"logged in with password: hunter{number}") for number in range(200)]
    return {
        "harnesses": _HARNESSES,
        "with_per_s": round(median(on for on, _ in pairs)),
        "without_per_s": round(median(off for _, off in pairs)),
        "ratio": round(median(on / off for on, off in pairs), 3),
        "encode_ns": round(_took_ns(same, redacted=False)),
        "more_ns_for_words_seen_before": round(_took_ns(same, redacted=True) - _took_ns(same, redacted=False)),
        "more_ns_for_new_words": round(
            min(_once_ns(steps, redacted=True) for steps in new) - _took_ns(new[0], redacted=False)
        ),
        "more_ns_with_a_secret": round(_took_ns(held, redacted=True) - _took_ns(held, redacted=False)),
    }


def _said(number: int) -> str:
    return " ".join(_WORDS[number // 14**place % 14] for place in range(4))


def _step(price: str, reason: str) -> Step[Any, Any]:
    given = {"instrument": "EURUSD", "price": price, "bid": 1.2, "ask": 1.3}
    return Step(1, datetime(2026, 1, 1, tzinfo=UTC), given, {"action": "hold", "reason": reason}, StateDelta(("equity",)))


def _took_ns(steps: list[Step[Any, Any]], *, redacted: bool) -> float:
    """Return what a step takes, at best of ten times."""
    return min(_once_ns(steps, redacted=redacted) for _ in range(10))


def _once_ns(steps: list[Step[Any, Any]], *, redacted: bool) -> float:
    begin = time.thread_time_ns()
    bodies = [encode_step(step, {"set": {"equity": "10000.25"}}) for step in steps]
    if redacted:
        for place in suspects(bodies):
            without_secrets(bodies[place], ("input", "output", "summary"))
    return (time.thread_time_ns() - begin) / len(steps)


def _rate(path: Path, script: list[Script], redact: bool) -> float:
    made = [Stepping(_STEPS, number, turns) for number, turns in enumerate(script)]
    begin = time.perf_counter()
    trio.run(_run, path, made, redact)
    return _HARNESSES * _STEPS / (time.perf_counter() - begin)


async def _run(path: Path, harnesses: list[Stepping], redact: bool) -> None:
    async with Orchestrator(path, redact=redact) as orchestrator:
        for number, harness in enumerate(harnesses):
            orchestrator.start(harness, name=f"h{number}")
