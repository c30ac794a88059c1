"""`CodingHarness`: works through features until every one is proven; one step for each attempt at one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import trio
from attrs import evolve

from harnesses.agent import Agent
from harnesses.base import BaseHarness
from harnesses.coding.features import (
    Assignment,
    Attempt,
    AttemptResult,
    CodingState,
    Feature,
    Solution,
    Verdict,
    after_attempt,
    check_features,
    last_part,
    next_attempt,
    next_feature,
)
from harnesses.coding.python_tests import Validator
from harnesses.errors import HarnessMisuse
from harnesses.step import Constraints, StepYield


class CodingHarness(BaseHarness[CodingState, Attempt, AttemptResult]):
    """Has an agent build one feature after the other, and a validator prove each.

    It is complete when every feature has passed. A feature that fails `max_attempts` times is blocked and the rest is
    worked on; if all are passed or blocked, and some blocked, the harness ends exhausted.

    Args:
        features: in the order they are to be built. What is done is known by id, so a later run may bring more.
        agent: is asked for a solution, and told why the last one failed.
        validator: judges it; nothing else can make a feature pass.
        max_attempts: tries at one feature before it is blocked.
        initial_state: a state to go on from.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        agent: Agent[CodingState, Assignment, Solution],
        validator: Validator,
        *,
        max_attempts: int = 3,
        max_context_steps: int = 10,
        constraints: Constraints | None = None,
        initial_state: CodingState | None = None,
    ) -> None:
        super().__init__(initial_state or CodingState(), max_context_steps=max_context_steps, constraints=constraints)
        if max_attempts < 1:
            raise HarnessMisuse(f"CodingHarness: max_attempts: expected 1 or more, was {max_attempts!r}")
        self._features = check_features(features)
        self._agent = agent
        self._validator = validator
        self._max_attempts = max_attempts

    def is_complete(self) -> bool:
        passed = set(self.state.passed)
        return all(feature.id in passed for feature in self._features)

    async def execute(self) -> AsyncIterator[StepYield[Attempt, AttemptResult]]:
        while (feature := next_feature(self._features, self.state)) is not None:
            attempt = next_attempt(feature, self.state)
            yield StepYield(attempt, await self._try(feature, attempt))

    async def _try(self, feature: Feature, attempt: Attempt) -> AttemptResult:
        started = trio.current_time()
        solution = await self.run_agent(self._agent, Assignment(feature, attempt.attempt, attempt.last_failure))
        verdict = await self._validator.validate(feature, solution)
        self._settle(attempt, verdict)
        return AttemptResult(
            evolve(solution, summary=last_part(solution.summary)),
            verdict.passed,
            last_part(verdict.evidence),
            round(trio.current_time() - started, 6),
        )

    def _settle(self, attempt: Attempt, verdict: Verdict) -> None:
        said = "passed" if verdict.passed else "failed"
        self.update_state(
            lambda state: after_attempt(state, attempt, verdict, self._max_attempts),
            summary=f"{attempt.feature_id}: attempt {attempt.attempt} {said}",
        )
