"""Sets up the list that is worked, and takes in what its owner changes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from attrs import define, field

from harnesses.features.feature import Feature
from harnesses.features.feature_record import FeatureState, IterationKind, IterationStatus
from harnesses.features.loop.feature_steps import StepDraft
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.planning.feature_list import differences
from harnesses.features.planning.list_changes import amend, check_request, initialise
from harnesses.features.planning.next_move import is_complete
from harnesses.features.run_policy import RunPolicy
from harnesses.features.session_manifest import InitializerRequest

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@define
class ListSetup:
    """Sets up the list that was asked for, or compares it with the one being worked.

    Args:
        amend: whether a list that differs changes the one being worked.
    """

    request: InitializerRequest
    workplace: Workplace
    amend: bool
    is_compared: bool = field(default=False, init=False)
    """Whether that was done in this attempt."""
    has_created: bool = field(default=False, init=False)
    """Whether the list came in this attempt."""

    def begin_attempt(self) -> None:
        self.is_compared = self.has_created = False

    def is_complete(self, state: FeatureState, policy: RunPolicy) -> bool:
        """Return whether all is done, also of what may have come to the list since."""
        if not is_complete(state, policy):
            return False
        if not self.amend or self.is_compared:
            return True
        given = self.request.feature_list
        return self.workplace.knows_list() and not (given and has_news(state, check_request(self.request)))

    async def initialise(self, state: FeatureState, name: str, now: Callable[[], datetime]) -> tuple[StepDraft, str]:
        """Set up manifest, features and first progress entry, all in one step; return it, with a remark."""
        request, remark = await self.workplace.complete(self.request, state)
        state = initialise(request, name, await self.workplace.first_commit(), now())
        self.is_compared = self.has_created = True
        note = f"{len(state.features)} features for: {request.current_objective}"
        draft = StepDraft(kind=IterationKind.INITIALIZE, status=IterationStatus.DONE, state=state, note=note)
        return draft, remark

    async def compare(
        self, state: FeatureState, policy: RunPolicy, now: Callable[[], datetime]
    ) -> tuple[StepDraft | None, str]:
        """Compare the list given with the one being worked; return a step, if it takes one, and a remark."""
        if self.is_compared or not (self.request.feature_list or self.amend):
            return None, ""
        self.is_compared = True
        request, remark = await self.workplace.complete(self.request, state)
        given = check_request(request) if request.feature_list else ()
        said = differences(state.features, given) if given else ""
        kind, done = IterationKind.AMEND, IterationStatus.DONE
        if self.amend and given and has_news(state, given):
            return StepDraft(kind=kind, status=done, state=amend(state, given, now()), note=said), remark
        if said and not self.amend:
            remark = f"! the list given is not the one being worked ({said}): it is kept; to change it, amend=True"
        if is_complete(state, policy):
            return StepDraft(kind=kind, status=done, state=state, note="nothing new in the list"), remark
        return None, remark


def has_news(state: FeatureState, given: Sequence[Feature]) -> bool:
    """Return whether a list brings features, or specifications, that the one being worked does not have."""
    after = amend(state, given, _ANY_TIME).manifest
    return state.manifest is None or after is None or after.locks != state.manifest.locks
