"""What is next: decided from the state, the policy and the selector alone. Pure.

    move      when                                                                        what it leads to
    Turn      a feature can be worked                                                     one try at it
    Recheck   a passing feature was not seen to pass since the work has changed           a verdict on it
    Close     the run is open, and has come to its end                                    the hand-off
    Wait      what is left is blocked, or depends on what is blocked                      a person
    Done      nothing is left, or nothing can ever complete the list                      the end

The laws: a selector can name only what can be worked; and every move changes the state so that no state comes twice.
"""

from __future__ import annotations

from datetime import UTC, datetime

from attrs import frozen

from harnesses.features.errors import NotReady, ValidationFailed
from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.policy import RunPolicy
from harnesses.features.record import FeatureState, RunCounts, RunStatus
from harnesses.features.risk import most_at_risk, stale
from harnesses.features.selectors import FeatureSelector, workable

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Turn:
    """Try a feature."""

    feature_id: str
    turn: int
    """Which try since it became pending, from 1."""
    attempt: int
    """Which try all told, from 1: no two tries that have ended have the same one, so branches are named after it."""
    opens: bool = False
    """Whether a run begins with it."""


@frozen
class Recheck:
    """Judge a passing feature anew."""

    feature_id: str
    opens: bool = False
    """Whether a run begins with it."""


@frozen
class Close:
    """Hand off the run."""

    status: RunStatus
    note: str


@frozen
class Wait:
    """Let a person decide: no run is open, and what is left can not be worked."""

    feature_ids: tuple[str, ...]
    """The blocked ones."""
    reason: str
    """Which ones, why, and what to do, in words."""


@frozen
class Done:
    """End: no run is open, and nothing is left to do."""


Move = Turn | Recheck | Close | Wait | Done


def next_move(state: FeatureState, policy: RunPolicy, selector: FeatureSelector) -> Move:
    """Return what is next.

    Raises:
        NotReady: there is no feature list yet.
        ValidationFailed: the selector failed, or named what can not be worked, or nothing although something can be.
    """
    if state.manifest is None or not state.features:
        raise NotReady("the feature harness has no feature list: expected one, was none; initialise it first")
    survey = _surveyed(state)
    opens = state.run is None
    run = next_run(state)
    if opens:
        if is_complete(state, policy) or survey.nothing_left(policy):
            return Done()
        if survey.stuck:
            return _wait(state)
    if end := _ending(state, policy, run, survey):
        return end
    if (hand := _in_hand(state, policy, run)) is not None:
        return Turn(hand.feature_id, hand.turns + 1, hand.tries + 1, opens)
    if not survey.workable or (survey.gate and _limit_reached(state, policy, run) is not None):
        return Recheck(most_at_risk(state)[0], opens)
    standing = _selected(state, survey, selector)
    if standing.turns == 0 and run.rechecked < policy.recheck_sample and survey.stale:
        return Recheck(most_at_risk(state)[0], opens)
    return Turn(standing.feature_id, standing.turns + 1, standing.tries + 1, opens)


def is_complete(state: FeatureState, policy: RunPolicy) -> bool:
    """Return whether the work is done and handed off.

    A list is complete if it has a required feature, and each required one passes by a verdict; and, with `recheck_all_at_end`,
    each passing one was seen to pass at the last version of the work.
    """
    return state.run is None and _gate(state) and not (policy.recheck_all_at_end and stale(state))


def ending(state: FeatureState, policy: RunPolicy) -> Close | None:
    """Return how the open run ends now; None if it goes on, or if none is open."""
    return None if state.run is None else _ending(state, policy, state.run, _surveyed(state))


def stuck(state: FeatureState) -> Wait | None:
    """Return what a person has to decide, if the required ones that are left are all blocked or depend on what is blocked."""
    return _wait(state) if _surveyed(state).stuck else None


def next_run(state: FeatureState, now: datetime = _LONG_AGO) -> RunCounts:
    """Return the open run; if there is none, the one that begins next: it goes on with the counts of an interrupted one."""
    if state.run is not None:
        return state.run
    last = state.runs[-1] if state.runs else None
    if last is None or last.status is not RunStatus.INTERRUPTED:
        return RunCounts(number=1 if last is None else last.run + 1, started_at=now)
    return RunCounts(
        number=last.run + 1,
        started_at=now,
        turns=last.turns,
        retries=last.retries,
        features=last.processed_feature_ids,
        validated=last.validated_feature_ids,
    )


@frozen
class _Survey:
    """Where the whole list stands."""

    workable: list[Feature]
    blocked: tuple[str, ...]
    stale: list[Standing]
    gate: bool
    pending: int

    @property
    def stuck(self) -> bool:
        return not self.gate and not self.workable and (self.pending > 0 or bool(self.blocked))

    def nothing_left(self, policy: RunPolicy) -> bool:
        return not (self.workable or self.pending or self.blocked or (policy.recheck_all_at_end and self.stale))


def _surveyed(state: FeatureState) -> _Survey:
    standings = state.standings
    return _Survey(
        workable(state.features, standings),
        tuple(standing.feature_id for standing in standings if standing.status is FeatureStatus.BLOCKED),
        stale(state),
        _gate(state),
        sum(standing.status is FeatureStatus.PENDING for standing in standings),
    )


def _gate(state: FeatureState) -> bool:
    """Return whether there are required features and all of them pass, by evidence."""
    seen = False
    for feature, standing in zip(state.features, state.standings, strict=True):
        if feature.required:
            seen = True
            if not (feature.passes and standing.evidence is not None and standing.evidence.passed):
                return False
    return seen


def _ending(state: FeatureState, policy: RunPolicy, run: RunCounts, survey: _Survey) -> Close | None:
    limit = _limit_reached(state, policy, run)
    rechecks = policy.recheck_all_at_end and bool(survey.stale)
    if survey.workable and limit is None:
        return None
    if survey.gate or survey.nothing_left(policy):
        return None if rechecks else Close(RunStatus.SUCCEEDED, _gate_note(survey))
    if not survey.workable:
        if not (survey.pending or survey.blocked):
            return None
        return Close(RunStatus.FAILED, f"{_validated(run)}; only blocked features are left: {_listed(survey.blocked)}")
    return _limited(state, run, survey, limit or "")


def _limited(state: FeatureState, run: RunCounts, survey: _Survey, limit: str) -> Close:
    failed = [id for id in run.features if id not in run.validated]
    left = f"{survey.pending} remaining pending"
    if failed:
        return Close(RunStatus.FAILED, f"feature {_listed(failed)} not validated; {_validated(run)}, {left} ({limit})")
    return Close(RunStatus.SUCCEEDED, f"{_validated(run)}, {left} ({limit})")


def _limit_reached(state: FeatureState, policy: RunPolicy, run: RunCounts) -> str | None:
    """Return the limit that keeps the run from another turn, in words."""
    if policy.max_turns_per_run is not None and run.turns >= policy.max_turns_per_run:
        return f"limit of {policy.max_turns_per_run} turns a run"
    if _in_hand(state, policy, run) is not None:
        spent = policy.retry_budget_per_run is not None and run.retries >= policy.retry_budget_per_run
        return f"budget of {policy.retry_budget_per_run} retries a run" if spent else None
    most = policy.features_per_run
    return f"limit of {most} features a run" if most is not None and len(run.features) >= most else None


def _in_hand(state: FeatureState, policy: RunPolicy, run: RunCounts) -> Standing | None:
    """Return the feature that the run has tried last, if it is to be tried again."""
    if not run.features:
        return None
    standing = next((one for one in state.standings if one.feature_id == run.features[-1]), None)
    if standing is None or standing.status is not FeatureStatus.PENDING or not 0 < standing.turns < policy.tries_per_feature:
        return None
    return standing


def _selected(state: FeatureState, survey: _Survey, selector: FeatureSelector) -> Standing:
    try:
        chosen = selector.select(state.features, state.standings)
    except Exception as error:
        raise ValidationFailed(f"the selector failed: {error}") from error
    can_be = {feature.id for feature in survey.workable}
    if chosen is None or chosen.id not in can_be:
        was = None if chosen is None else chosen.id
        raise ValidationFailed(
            f"the selector named what can not be worked: expected a pending feature whose dependencies pass, "
            f"such as {survey.workable[0].id!r}, was {was!r}; correct the selector"
        )
    return next(standing for standing in state.standings if standing.feature_id == chosen.id)


def _wait(state: FeatureState) -> Wait:
    blocked = tuple(one for one in state.standings if one.status is FeatureStatus.BLOCKED)
    ids = tuple(one.feature_id for one in blocked)
    pending = [one.feature_id for one in state.standings if one.status is FeatureStatus.PENDING]
    behind = f", and {_listed(pending)} can not be worked before they pass" if pending else ""
    reason = (
        f"features {_listed(ids)} are blocked{behind}: expected features that can be worked, was none; "
        f'look into them, then send {{"unblock": "{ids[0]}"}} and start again'
    )
    return Wait(ids, reason)


def _gate_note(survey: _Survey) -> str:
    return "completion gate satisfied" if survey.gate else "all features pass; none is required, so the list is never complete"


def _validated(run: RunCounts) -> str:
    return f"validated {len(run.validated)} feature{'s' * (len(run.validated) != 1)}"


def _listed(ids: tuple[str, ...] | list[str], most: int = 5) -> str:
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")
