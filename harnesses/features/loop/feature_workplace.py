"""Where attempts at features are made, and what becomes of their work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from harnesses.features.feature import Feature, Standing, TurnResult, Verdict
from harnesses.features.feature_record import Assignment, FeatureState, InitializerRequest
from harnesses.features.feature_validators import OutcomeValidator

Ask: TypeAlias = Callable[[Assignment], Awaitable[TurnResult]]
"""Has the agent take a turn, and returns what it hands in."""
Once: TypeAlias = Callable[..., Awaitable[Any]]
"""`BaseHarness.once`."""


class Workplace:
    """The agent hands in a text, and the validator judges that. Extend it for work of another kind.

    What it knows of the list it is given with each call; what it holds itself lasts from `open` to `close`.
    """

    asks_agent = True
    """Whether `work` asks the agent, so that limits of budgets are checked against what that one reports."""
    acts_on_verdicts = False
    """Whether `accept` acts on the world. Then a verdict is on record before it is acted on; else a program that is killed
    before its step is recorded has the work judged again when it is started again."""

    def __init__(self, validator: OutcomeValidator[Any]) -> None:
        self.validator = validator

    @property
    def handoff_directory(self) -> Path | None:
        """Where hand-off files go if the harness names no directory; asked once it is open."""
        return None

    async def open(self, name: str, state: FeatureState) -> None:
        """Get ready for the harness called `name`. Awaited once at each start, before anything else."""

    async def close(self) -> None:
        """Tidy up. Awaited once at each end, also when cancelled; what it raises is logged."""

    # the list

    def knows_list(self) -> bool:
        """Return whether the list is known without loading it."""
        return True

    async def complete(self, request: InitializerRequest, state: FeatureState) -> tuple[InitializerRequest, str]:
        """Return the request with what only the place knows, such as the list; and a remark for people, or no text."""
        return request, ""

    async def first_commit(self) -> str | None:
        """Return the commit that the work begins at, where there is a repository."""
        return None

    async def follow(self, state: FeatureState, message: object) -> tuple[FeatureState, str] | None:
        """Follow a message that only this class knows: return the state after it and an answer; None if it is not one."""
        return None

    # a run and its attempts

    def inspected(self, state: FeatureState) -> AbstractAsyncContextManager[Path | None]:
        """Give the directory in which the init plan is run, if there is one."""
        return nullcontext(None)

    async def check(self, state: FeatureState) -> None:
        """Raise `Waiting` if a person has to decide before anything else is done. Awaited before each decision."""

    async def work(self, ask: Ask, assignment: Assignment) -> TurnResult:
        """Have the agent take a turn, and return what it hands in. Cancelled when the harness is to stop."""
        return await ask(assignment)

    async def judge(self, feature: Feature, result: TurnResult) -> Verdict:
        """Have the work of a turn judged."""
        return await self.validator.validate(feature, result)

    async def recheck(self, state: FeatureState, feature: Feature, standing: Standing) -> Verdict:
        """Have a feature that passes judged anew."""
        return await self.judge(feature, standing.accepted or TurnResult())

    async def overtaken(self, state: FeatureState, result: TurnResult) -> Verdict | None:
        """Return why work of an earlier program is not judged any more, if it is not."""
        return None

    async def accept(self, once: Once, feature: Feature, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        """Take in work that was proven; return the new last known good commit, where there is a repository.

        Awaited again if it did not come to its end: act through `once`, and set `acts_on_verdicts`. What it raises fails the
        harness, and nothing that was done up to there is lost.
        """
        return None
