"""What a feature harness asks of others, and what it does with their work: all that one for another kind of work overrides.

Here an agent hands in a text, and a validator judges that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import trio

from harnesses.base import BaseHarness
from harnesses.choices import one_of
from harnesses.errors import HarnessMisuse, Stopping
from harnesses.features.aside import Aside
from harnesses.features.attempt import Attempt
from harnesses.features.bearings import assignment
from harnesses.features.feature import Feature, Standing, TurnResult, Verdict
from harnesses.features.protocols import OutcomeValidator
from harnesses.features.record import Assignment, FeatureState, Iteration, IterationResult
from harnesses.features.streaming import FeatureAgent, TurnObserver, watched
from harnesses.features.turn import Judged, Worked, checked_result, checked_verdict, order_in, session_in, sole, words_of
from harnesses.step import Constraints

AnswerT = TypeVar("AnswerT")


class FeatureParts(BaseHarness[FeatureState, Iteration, IterationResult]):
    """The agent, the validator, and where the work is. `FeatureHarness` is the loop over it.

    Args:
        agent: does the work.
        validator: judges it.
        prompt_overrides: what the agent is asked instead of the usual words, by feature id.
        stream: whether `observer` is told what happens in a turn while it happens.
    """

    accepting_acts: ClassVar[bool] = False
    """Whether `_accept` acts on the world. Then a verdict is on record before it is acted on; else a program that is killed
    before its step is recorded has the work judged again when it is started again."""

    def __init__(
        self,
        agent: FeatureAgent,
        validator: OutcomeValidator[Any],
        *,
        prompt_overrides: Mapping[str, str],
        stream: bool,
        observer: TurnObserver | None,
        initial_state: FeatureState | None,
        max_context_steps: int,
        constraints: Constraints | None,
    ) -> None:
        super().__init__(initial_state or FeatureState(), max_context_steps=max_context_steps, constraints=constraints)
        self._agent = agent
        self._validator = validator
        self._prompts = dict(prompt_overrides)
        self._stream = stream
        self._observer = observer
        self._aside = Aside()
        self._at = Attempt()
        self._health = ""
        """What the health check of this run has seen."""

    # what another kind of work does in its own way

    def asked_agents(self) -> Sequence[FeatureAgent]:
        # Who does the work in a way of their own says what it costs in a way of their own, by `spending`.
        return (self._agent,) if type(self)._do.__module__.startswith("harnesses.") else ()

    def wrap_agent(self, wrap: Callable[[FeatureAgent], FeatureAgent]) -> None:
        """Have `wrap(agent)` asked instead of the agent. Before it is started."""
        self._agent = wrap(self._agent)

    async def _open(self) -> None:
        """Get ready. Awaited once at each start, before anything else."""

    async def _close(self) -> None:
        """Tidy up. Awaited once at each end, also when cancelled; what it raises is logged."""

    async def _load_features(self) -> Sequence[Feature]:
        """Return the list to begin with; empty for the starter skeleton."""
        return ()

    async def _first_commit(self) -> str | None:
        """Return the commit that the work begins at, where there is a repository."""
        return None

    def _directory(self) -> Path | None:
        """Return where the init plan is run, if there is a place."""
        return None

    async def _do(self, assignment: Assignment) -> TurnResult:
        """Have the agent take a turn, and return what it hands in. Cancelled when the harness is to stop."""
        agent = self._agent
        if self._stream and self._observer is not None:
            agent = watched(agent, partial(self._aside.tell, self._observer, assignment))
        return await self.run_agent(agent, assignment)

    async def _judge(self, feature: Feature, result: TurnResult) -> Verdict:
        """Have the work of a turn judged."""
        return await self._validator.validate(feature, result)

    async def _recheck(self, feature: Feature, standing: Standing) -> Verdict:
        """Have a feature that passes judged anew."""
        return await self._judge(feature, standing.accepted or TurnResult())

    async def _accept(self, feature: Feature, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        """Take in work that was proven; return the new last known good commit, where there is a repository.

        Awaited again if it did not come to its end: act through `once`, and set `accepting_acts`. What it raises fails the
        harness, and nothing that was done up to there is lost.
        """
        return None

    async def _reject(self, feature: Feature, turn: int, result: TurnResult | None, why: str) -> None:
        """Put work aside that was not accepted; `result` is None if the agent has failed. Awaited again likewise."""

    async def _cut_off(self, feature_id: str, turn: int) -> None:
        """Put aside what a try has left that was cut off. Awaited again likewise."""

    async def _obey(self, order: object) -> str | None:
        """Follow an order that only this class knows, and return what became of it; None if it is not one of those."""
        return None

    # effects: what comes of asking, as values

    async def _work(self, feature_id: str, turn: int) -> Worked:
        """Ask the agent. A stop cancels it."""
        started = trio.current_time()
        try:
            result = checked_result(await self._or_stop(self._do, self._assigned(feature_id, turn)))
        except Stopping:
            return Worked(cut_off="a stop", duration_s=_since(started))
        except Exception as error:
            if (order := order_in(error)) is not None:
                raise order from error.__cause__
            if self.stopping:
                return Worked(cut_off=f"a stop ({words_of(error)})", duration_s=_since(started))
            self._at.cause = _as_exception(error)
            return Worked(error=words_of(error), session=session_in(error), duration_s=_since(started))
        return Worked(result=result, duration_s=_since(started))

    async def _judged(self, result: TurnResult, feature_id: str, turn: int) -> Judged:
        """Ask the validator. A stop lets it come to its end."""
        return await self._verdict_of(self._judge, self._feature(feature_id), result)

    async def _verdict_of(self, judge: Any, *args: Any) -> Judged:
        started = trio.current_time()
        try:
            verdict = checked_verdict(await judge(*args))
        except Exception as error:
            if (order := order_in(error)) is not None:
                raise order from error.__cause__
            self._at.cause = _as_exception(error)
            return Judged(error=words_of(error), duration_s=_since(started))
        return Judged(verdict=verdict, duration_s=_since(started))

    def _assigned(self, feature_id: str, turn: int) -> Assignment:
        standing = self._standing(feature_id)
        words = standing.prompt or self._prompts.get(feature_id)
        feature = self._feature(feature_id)
        return assignment(self.state, feature, standing, turn=turn, health=self._health, words=words)

    def _feature(self, feature_id: str) -> Feature:
        return self.state.features[self._place(feature_id)]

    def _standing(self, feature_id: str) -> Standing:
        return self.state.standings[self._place(feature_id)]

    def _place(self, feature_id: str) -> int:
        for at, feature in enumerate(self.state.features):
            if feature.id == feature_id:
                return at
        known = one_of((feature.id for feature in self.state.features[:10]), "the list is empty; initialise it first")
        raise HarnessMisuse(f"feature {feature_id!r} is not in the list: {known}")

    async def _paused(self, seconds: float) -> bool:
        """Wait; return False if the harness is to stop instead."""
        try:
            await self.sleep(seconds)
        except Stopping:
            return False
        return True

    async def _or_stop(self, function: Callable[..., Awaitable[AnswerT]], *args: Any) -> AnswerT:
        """Return what a function returns; raises `Stopping`, having cancelled it, as soon as the harness is to stop."""
        answer: list[AnswerT] = []

        async def call() -> None:
            answer.append(await function(*args))

        await self._surroundings("call").control.wait(call)
        return answer[0]


def _since(started: float) -> float:
    return round(trio.current_time() - started, 6)


def _as_exception(error: Exception) -> Exception:
    """Return the error to name as a cause."""
    inner = sole(error)
    return inner if isinstance(inner, Exception) else error
