"""Decides the next move of a feature harness from the state, the policy and the selector. No I/O.

    move      when                                                                  result
    Turn      a feature can be worked                                               one try at it
    Recheck   a passing feature has not been seen to pass since the work changed,
              or a blocked one in a repository was not judged since                 a verdict on it
    Close     the run has ended                                                     the hand-off
    Wait      everything left is blocked, or depends on blocked features            a person decides
    Done      nothing is left                                                       the end

Invariants: a selector can only choose a feature that can be worked; a feature that the run has begun is continued before
another one is started; every turn, recheck and hand-off changes the state, so that no state occurs twice.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from attrs import frozen

from harnesses.features.agent_text import failure_line, one_line
from harnesses.features.errors import NotReady, ValidationFailed
from harnesses.features.feature import Feature, FeatureStatus, Standing
from harnesses.features.feature_record import FeatureState, RunCounts, RunStatus
from harnesses.features.planning.feature_selectors import FeatureSelector, most_at_risk
from harnesses.features.run_policy import RunPolicy

_PASSED, _BLOCKED = FeatureStatus.PASSED, FeatureStatus.BLOCKED


@frozen
class ProgressCounts:
    """Progress of a whole list."""

    workable: dict[str, Standing]
    """Pending features whose dependencies all pass, by id, in the order of the list."""
    waiting: tuple[str, ...]
    """Ids of pending features that depend on features which do not pass yet."""
    blocked: tuple[str, ...]
    stale: tuple[Standing, ...]
    """Passing features that have not been seen to pass at the current version of the work."""
    anew: tuple[str, ...]
    """Ids of features in a repository that their failures have blocked, and that were not judged since the work changed."""
    gate: bool
    """Whether there are required features, and each of them passes by a verdict."""

    @property
    def pending(self) -> int:
        """Number of pending features."""
        return len(self.workable) + len(self.waiting)

    @property
    def stuck(self) -> bool:
        """Whether the list is incomplete and blocked features prevent all further work."""
        return not self.gate and not self.workable and bool(self.waiting or self.blocked)

    @property
    def all_pass(self) -> bool:
        """Whether every feature passes, required or not."""
        return not (self.workable or self.waiting or self.blocked)


def count_progress(state: FeatureState) -> ProgressCounts:
    """Count the progress of the whole list."""
    passing = {feature.id for feature in state.features if feature.passes}
    workable: dict[str, Standing] = {}
    waiting: list[str] = []
    blocked: list[str] = []
    stale: list[Standing] = []
    anew: list[str] = []
    has_tree = state.manifest is not None and state.manifest.last_known_good_commit is not None
    required = proven = 0
    for feature, standing in zip(state.features, state.standings, strict=True):
        required += feature.required
        if standing.status is _PASSED:
            evidence = standing.evidence
            proven += feature.required and feature.passes and evidence is not None and evidence.passed
            if standing.verified_at < state.version:
                stale.append(standing)
        elif standing.status is _BLOCKED:
            blocked.append(feature.id)
            if has_tree and standing.blocked_at is not None and standing.blocked_at < state.version:
                anew.append(feature.id)
        elif not feature.depends_on or passing.issuperset(feature.depends_on):
            workable[feature.id] = standing
        else:
            waiting.append(feature.id)
    return ProgressCounts(workable, tuple(waiting), tuple(blocked), tuple(stale), tuple(anew), proven == required > 0)


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 5
"""Maximum ids named in a message."""
_WHY = 300
"""Maximum characters of a failure in a message."""


@frozen
class Turn:
    """Make a try at a feature."""

    feature_id: str
    turn: int
    """Number of the try since the feature became pending, from 1."""
    attempt: int
    """Number of the try in total, from 1; unique among finished tries, so branches are named after it."""
    opens: bool = False
    """Whether it begins a run."""


@frozen
class Recheck:
    """Recheck a passing feature, or one that its failures have blocked."""

    feature_id: str
    opens: bool = False
    """Whether it begins a run."""


@frozen
class Close:
    """Hand off the current run, or the run that would continue an interrupted one but has reached its limits."""

    status: RunStatus
    note: str


@frozen
class Wait:
    """Wait for a person: no run is open, and nothing left can be worked."""

    feature_ids: tuple[str, ...]
    """Ids of the blocked features."""
    reason: str
    """Which features are blocked, which depend on them, and what to do."""


@frozen
class Done:
    """End: no run is open, and nothing is left to do."""


Move = Turn | Recheck | Close | Wait | Done


def next_move(state: FeatureState, policy: RunPolicy, selector: FeatureSelector) -> Move:
    """Return the next move.

    Raises:
        NotReady: there is no feature list yet.
        ValidationFailed: the selector failed, chose a feature that cannot be worked, or none although one can be.
    """
    if state.manifest is None or not state.features:
        raise NotReady("the feature harness has no feature list: expected one, was none; initialise it first")
    survey, opens = count_progress(state), state.run is None
    if opens and (survey.gate or survey.all_pass) and not (policy.recheck_all_at_end and survey.stale):
        return Done()
    if opens and survey.stuck and not survey.anew:
        return _wait(state, survey)
    run = next_run(state)
    hand = _in_hand(survey, policy, run)
    limit = _limit(policy, run, hand)
    if (end := _end(survey, policy, run, limit)) is not None:
        return end
    if limit is not None or not survey.workable:
        return Recheck((*survey.anew, *most_at_risk(state))[0], opens)
    chosen = hand or _select(state, survey, selector)
    if chosen.turns == 0 and run.rechecked < policy.recheck_sample and survey.stale:
        return Recheck(most_at_risk(state)[0], opens)
    return Turn(chosen.feature_id, chosen.turns + 1, chosen.tries + 1, opens)


def is_complete(state: FeatureState, policy: RunPolicy) -> bool:
    """Return whether the work is done and handed off.

    It is if the list has a required feature, each required one passes by a verdict and, with `recheck_all_at_end`, each
    passing one was seen to pass at the last version of the work.
    """
    survey = count_progress(state)
    return state.run is None and survey.gate and not (policy.recheck_all_at_end and survey.stale)


def ending(state: FeatureState, policy: RunPolicy) -> Close | None:
    """Return how the current run ends now; None if it continues, or if none is open."""
    if (run := state.run) is None:
        return None
    survey = count_progress(state)
    return _end(survey, policy, run, _limit(policy, run, _in_hand(survey, policy, run)))


def stuck(state: FeatureState) -> Wait | None:
    """Return what a person must decide; None if the list is complete, or a feature can be worked."""
    survey = count_progress(state)
    return _wait(state, survey) if survey.stuck and not survey.anew else None


def next_run(state: FeatureState, now: datetime = _LONG_AGO) -> RunCounts:
    """Return the current run; if there is none, the next one, which continues the counts of an interrupted run."""
    if state.run is not None:
        return state.run
    last = state.runs[-1] if state.runs else None
    if last is None or last.status is not RunStatus.INTERRUPTED:
        return RunCounts(number=1 if last is None else last.run + 1, started_at=now)
    passing = {standing.feature_id for standing in state.standings if standing.status is FeatureStatus.PASSED}
    return RunCounts(
        number=last.run + 1,
        started_at=now,
        turns=last.turns,
        retries=last.retries,
        features=last.processed_feature_ids,
        validated=tuple(id for id in last.validated_feature_ids if id in passing),
    )


def _in_hand(survey: ProgressCounts, policy: RunPolicy, run: RunCounts) -> Standing | None:
    """Return the feature that the run tried last, if it must be tried again."""
    standing = survey.workable.get(run.features[-1]) if run.features else None
    return standing if standing is not None and 0 < standing.turns < policy.tries_per_feature else None


def _limit(policy: RunPolicy, run: RunCounts, hand: Standing | None) -> str | None:
    """Return the limit that prevents another turn of the run, in words; None if there is none."""
    if policy.max_turns_per_run is not None and run.turns >= policy.max_turns_per_run:
        return f"the run is at its limit of {_count(policy.max_turns_per_run, 'turn')}"
    if hand is not None:
        budget = policy.retry_budget_per_run
        return f"its budget of {budget} retries is spent" if budget is not None and run.retries >= budget else None
    most = policy.features_per_run
    return f"the run is at its limit of {_count(most, 'feature')}" if most is not None and len(run.features) >= most else None


def _end(survey: ProgressCounts, policy: RunPolicy, run: RunCounts, limit: str | None) -> Close | None:
    """Return how a run ends now; None if it continues.

    A run does not end when all required features pass while it may still work others; rechecks continue past its limits.
    """
    if survey.workable and limit is None:
        return None
    if survey.anew and not survey.workable and not survey.gate:
        return None
    if survey.gate or survey.all_pass:
        note = (
            "completion gate satisfied" if survey.gate else "all features pass, none is required: the list is never complete"
        )
        return None if policy.recheck_all_at_end and survey.stale else Close(RunStatus.SUCCEEDED, note)
    validated = f"validated {_count(len(run.validated), 'feature')}, {survey.pending} remaining pending"
    proven = set(run.validated)
    failed = [id for id in run.features if id not in proven]
    said = f"feature {_list_ids(failed)} not validated; {validated}" if failed else validated
    if not survey.workable:
        return Close(RunStatus.FAILED, f"{said}; only blocked features are left: {_list_ids(survey.blocked)}")
    return Close(RunStatus.FAILED if failed else RunStatus.SUCCEEDED, f"{said}; {limit}")


def _select(state: FeatureState, survey: ProgressCounts, selector: FeatureSelector) -> Standing:
    try:
        chosen: object = selector.select(state.features, state.standings)
    except Exception as error:
        raise ValidationFailed(f"selector {type(selector).__name__} failed: {type(error).__name__}: {error}") from error
    named = chosen.id if isinstance(chosen, Feature) else chosen
    standing = survey.workable.get(chosen.id) if isinstance(chosen, Feature) else None
    if standing is None:
        raise ValidationFailed(
            f"selector {type(selector).__name__} chose a feature that cannot be worked: expected a pending feature whose "
            f"dependencies pass, such as {next(iter(survey.workable))!r}, was {named!r:.200}; correct it"
        )
    return standing


def _wait(state: FeatureState, survey: ProgressCounts) -> Wait:
    behind = f", and {_list_ids(survey.waiting)} cannot be worked before they pass" if survey.waiting else ""
    order = json.dumps({"unblock": survey.blocked[0]}, ensure_ascii=False) if survey.blocked else "an order"
    order += ' or {"unblock": "*"}' if len(survey.blocked) > 1 else ""
    reason = (
        f"blocked: {_list_ids(survey.blocked)}{behind}: expected a feature that can be worked, was none; "
        f"see why, then send {order} and start again{_last_failure(state, survey)}"
    )
    return Wait(survey.blocked, reason)


def _last_failure(state: FeatureState, survey: ProgressCounts) -> str:
    """Return the last failure of the first blocked feature, as text; empty if none is recorded."""
    for one in state.standings:
        if one.feature_id in survey.blocked and one.last_failure:
            return f"; the last failure of {one_line(one.feature_id)}: {failure_line(one.last_failure, _WHY)}"
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _list_ids(ids: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(one_line(id) for id in ids[:_SHOWN]) + more
