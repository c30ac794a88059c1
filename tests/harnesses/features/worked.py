"""Agents, validators and lists to run a feature harness with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio
from attrs import evolve

from harnesses import Agent
from harnesses.features import (
    FailFast,
    Feature,
    FeatureHarness,
    FeatureState,
    NoHealthCheck,
    RunPolicy,
    TurnResult,
    Verdict,
)

PATIENT = FailFast(on_validation_failure=False)
"""Does not end a run for one refusal."""
UNLIMITED = RunPolicy(mode="unlimited_batch", max_turns_per_feature=3, max_retries_per_feature=2, fail_fast=PATIENT)


def features(ids: str = "abc", **more: Any) -> list[Feature]:
    return [Feature(id, f"Bring about {id}.", steps="it is there", **more) for id in ids]


class Worker:
    """Works a second, and hands in the number of the try. Keeps what it was asked.

    Args:
        raises: errors by feature and try, such as `{"a1": ConnectionError("no route")}`.
    """

    def __init__(self, raises: dict[str, Exception] | None = None, *, seconds: float = 1.0) -> None:
        self.asked: list[Any] = []
        self._raises = raises or {}
        self._seconds = seconds

    @property
    def tries(self) -> list[str]:
        return [f"{asked.feature.id}{asked.turn}" for asked in self.asked]

    @property
    def agent(self) -> Agent[FeatureState, Any, TurnResult]:
        return Agent(self._run, name="worker")

    async def _run(self, run: Any) -> TurnResult:
        self.asked.append(run.input)
        await trio.sleep(self._seconds)
        if (error := self._raises.get(f"{run.input.feature.id}{run.input.turn}")) is not None:
            raise error
        return TurnResult(message=f"turn {run.input.turn}", artifact=str(run.input.turn))


class Judge:
    """Accepts a feature from a certain try on; from the first, if not said. Takes a second.

    Args:
        rotten: what is refused when it is judged anew, so many times.
    """

    def __init__(self, *, rotten: dict[str, int] | None = None, seconds: float = 1.0, **accepted_at: int) -> None:
        self.judged: list[str] = []
        self._accepted_at = accepted_at
        self._rotten = dict(rotten or {})
        self._seconds = seconds

    async def validate(self, feature: Feature, work: TurnResult) -> Verdict:
        self.judged.append(f"{feature.id}{work.artifact}")
        await trio.sleep(self._seconds)
        if feature.passes and self._rotten.get(feature.id, 0):
            self._rotten[feature.id] -= 1
            return Verdict(passed=False, evidence=f"{feature.id} is rotten", validator="judge")
        passed = int(work.artifact or 0) >= self._accepted_at.get(feature.id, 1)
        return Verdict(passed=passed, evidence=f"{feature.id} is {work.artifact}", validator="judge")


class Raising:
    """A validator that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def validate(self, feature: Feature, work: TurnResult) -> Verdict:
        await trio.lowlevel.checkpoint()
        raise self._error


def harness(
    worker: Worker | Agent[Any, Any, Any] | None = None,
    validator: Any = None,
    *,
    list: Sequence[Feature] | None = None,
    policy: RunPolicy = UNLIMITED,
    health_check: Any = None,
    **more: Any,
) -> FeatureHarness:
    worker = worker or Worker()
    return FeatureHarness(
        worker.agent if isinstance(worker, Worker) else worker,
        validator or Judge(),
        objective="Bring it all about.",
        features=features() if list is None else list,
        policy=policy,
        health_check=health_check or NoHealthCheck(),
        **more,
    )


def told(harness: FeatureHarness) -> list[str]:
    """Return each step in a few words, such as `turn a2 passed`."""
    words = []
    for step in harness.step_history:
        given = step.input
        on = f"{given.feature_id or ''}{given.turn or ''}"
        words.append(" ".join(filter(None, (str(given.kind), on, str(step.output.status)))))
    return words


def passing(state: FeatureState) -> str:
    return "".join(feature.id for feature in state.features if feature.passes)


def without_times(state: FeatureState) -> tuple[Any, ...]:
    """Return features and standings without what depends on the clock, and on how often the program was killed."""
    return state.features, tuple(
        evolve(standing, interruptions=0, evidence=_timeless(standing.evidence)) for standing in state.standings
    )


def _timeless(verdict: Verdict | None) -> Verdict | None:
    return None if verdict is None else evolve(verdict, duration_s=0.0)
