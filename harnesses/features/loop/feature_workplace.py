"""The workplace: where tries at features are made, and how their work is validated and accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from harnesses.features.feature import Feature, Standing, TurnResult, Verdict
from harnesses.features.feature_record import Assignment, FeatureState, InitializerRequest
from harnesses.features.feature_validators import OutcomeValidator

Ask: TypeAlias = Callable[[Assignment], Awaitable[TurnResult]]
"""Runs one turn of the agent and returns its result."""
Once: TypeAlias = Callable[..., Awaitable[Any]]
"""`BaseHarness.once`."""


Settle: TypeAlias = Callable[..., Awaitable[Any]]
"""`BaseHarness.settle`."""


Pause: TypeAlias = Callable[[float], Awaitable[None]]
"""Waits for so many seconds; ends by `Stopping` if the harness should stop."""


class Workplace:
    """A workplace in which the agent submits a text and the validator validates it. Extend it for other kinds of work.

    Each call receives the list's state; the workplace's own state lasts only from `open` to `close`.
    """

    asks_agent = True
    """Whether `work` asks the agent, so that budget limits are checked against what the agent reports."""
    acts_on_verdicts = False
    """Whether `accept` acts on the outside world. If so, a verdict is recorded before it is acted on; if not, a program killed
    before the step is recorded has the work validated again at the next start."""

    def __init__(self, validator: OutcomeValidator[Any]) -> None:
        self.validator = validator

    @property
    def handoff_directory(self) -> Path | None:
        """Directory of the hand-off files if the harness names none; read after `open`."""
        return None

    @property
    def branch(self) -> str | None:
        """The branch that receives accepted work, while it is open; None without a repository."""
        return None

    async def open(self, name: str, state: FeatureState) -> None:
        """Prepare for the harness called `name`. Awaited once at each start, before everything else."""

    async def close(self) -> None:
        """Clean up. Awaited once at each end, on cancellation too; errors are logged."""

    # the list

    def knows_list(self) -> bool:
        """Return whether the list is known without loading it."""
        return True

    async def complete(self, request: InitializerRequest, state: FeatureState) -> tuple[InitializerRequest, str]:
        """Return the request completed with what only the workplace knows, such as the list; and a remark, or ""."""
        return request, ""

    async def first_commit(self) -> str | None:
        """Return the commit at which the work starts, if there is a repository."""
        return None

    async def follow(self, state: FeatureState, message: object) -> tuple[FeatureState, str] | None:
        """Process a message that only this workplace knows: return the new state and an answer; None for any other message."""
        return None

    # a run and its attempts

    def inspected(self, state: FeatureState) -> AbstractAsyncContextManager[Path | None]:
        """Provide the directory in which the init plan runs, if there is one."""
        return nullcontext(None)

    async def check(self, state: FeatureState) -> None:
        """Raise `Waiting` if a person must decide before the work continues. Awaited before each decision."""

    async def work(self, ask: Ask, assignment: Assignment) -> TurnResult:
        """Run one turn of the agent, and return its result. Cancelled when the harness should stop."""
        return await ask(assignment)

    async def diff(self, result: TurnResult) -> str:
        """Return what the work of a turn changed, as text for people; "" if it is not in a repository. It is recorded."""
        return ""

    async def judge(self, feature: Feature, result: TurnResult) -> Verdict:
        """Return the verdict on the work of a turn."""
        return await self.validator.validate(feature, result)

    async def recheck(self, state: FeatureState, feature: Feature, standing: Standing) -> Verdict:
        """Return a new verdict on a feature that passes."""
        return await self.judge(feature, standing.accepted or TurnResult())

    async def overtaken(self, state: FeatureState, result: TurnResult) -> Verdict | None:
        """Return a rejecting verdict if the work of an earlier program is outdated; None to validate it."""
        return None

    async def accept(self, once: Once, feature: Feature, turn: int, result: TurnResult, verdict: Verdict) -> str | None:
        """Accept proven work; return the new last known good commit, if there is a repository.

        Awaited again if it was interrupted: act through `once`, and set `acts_on_verdicts`. An error fails the harness, and
        nothing done so far is lost.
        """
        return None

    def owes(self, state: FeatureState) -> bool:
        """Return whether accepted work is to be delivered before the harness ends; also while it is not open."""
        return False

    async def deliver(self, once: Once, settle: Settle, pause: Pause, state: FeatureState) -> tuple[FeatureState, str]:
        """Deliver accepted work at the end of a run; return the new state and a note. Awaited again if it was interrupted."""
        return state, ""

    def conclusion(self, state: FeatureState) -> str:
        """Return in one line where accepted work was delivered; "" if it was not. Also while it is not open."""
        return ""
