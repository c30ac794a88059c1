"""Computes the new state: one function for each thing that can happen. No I/O.

Invariants: only a passing verdict makes a feature pass; a run that ends is handed off in the state of the step with which it
ends; lists and texts in the state are bounded.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.agent_text import failure_line, gist, last_part
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import FeatureStatus, Standing, TurnResult, Verdict
from harnesses.features.feature_record import (
    MAX_PATH,
    MAX_PROGRESS,
    MAX_TOUCHED,
    FeatureState,
    RunCounts,
    RunOutcome,
    RunStatus,
)
from harnesses.features.planning.feature_list import add_progress, manifest_of
from harnesses.features.planning.next_move import ending, next_run
from harnesses.features.run_policy import OnExhausted, RunPolicy


def open_run(state: FeatureState, now: datetime) -> FeatureState:
    """Begin a run, if none is open. It continues the counts of the previous run if that was interrupted."""
    return state if state.run is not None else evolve(state, run=next_run(state, now))


def finish_turn(
    state: FeatureState,
    policy: RunPolicy,
    feature_id: str,
    *,
    result: TurnResult | None = None,
    verdict: Verdict | None = None,
    error: str | None = None,
    session: str | None = None,
    commit: str | None = None,
    now: datetime,
) -> FeatureState:
    """Return the state after a try; if the run ends with this try, it is handed off too.

    Args:
        result: the agent's result; None if it failed.
        verdict: the validator's verdict.
        error: the agent's error, if it failed; then there is no verdict.
        session: the conversation in which it failed, if known; otherwise the next try resumes the previous one.
        commit: the new last known good commit, if the work was accepted and there is a repository.
    """
    if (verdict is None) == (error is None):
        raise HarnessMisuse(f"feature {feature_id!r}: expected a verdict or an error, was {verdict!r} and {error!r}; give one")
    run, at = _require_run(state), place_of(state, feature_id)
    before = state.standings[at]
    turns = before.turns + 1
    run = evolve(
        run,
        turns=run.turns + 1,
        retries=run.retries + (before.turns > 0 and feature_id in run.features),
        features=_move_to_end(run.features, feature_id),
        rechecked=0,
    )
    session = _storable_session(result.session) if result else session or before.session
    tried = evolve(before, turns=turns, tries=before.tries + 1, session=session)
    if verdict is not None and verdict.passed:
        return _accept(state, policy, at, run, tried, result, verdict, commit, now)
    why = last_part(error if verdict is None else verdict.evidence)  # type: ignore[arg-type]
    failed = _count_failure(tried, policy, why, state.version)
    state = _replace(evolve(state, run=run), at, failed, passes=False)
    what = "the agent failed" if verdict is None else "not validated"
    state = add_progress(state, f"feature {feature_id}: {what} (try {turns}){_because(why)}", now)
    fast = policy.fail_fast.on_chat_error if verdict is None else policy.fail_fast.on_validation_failure
    stopped = turns >= policy.tries_per_feature and policy.on_exhausted is OnExhausted.STOP
    if fast or stopped:
        note = f"Run failed: Chat: {gist(why)}" if verdict is None else f"feature {feature_id} not validated"
        return close_run(state, RunStatus.FAILED, note, now)
    return _close_if_over(state, policy, now)


def finish_recheck(state: FeatureState, policy: RunPolicy, feature_id: str, verdict: Verdict, now: datetime) -> FeatureState:
    """Return the state after a recheck: the feature still passes, or it is set back to pending; a blocked one may pass now."""
    run, at = _require_run(state), place_of(state, feature_id)
    before = state.standings[at]
    if before.status is FeatureStatus.BLOCKED:
        return _judged_anew(state, policy, at, verdict, now)
    state = evolve(state, run=evolve(run, rechecked=run.rechecked + 1))
    if verdict.passed:
        passed = evolve(before, verified_at=state.version, evidence=_shorten_verdict(verdict))
        return _close_if_over(_replace(state, at, passed, passes=True), policy, now)
    why = last_part(verdict.evidence)
    set_backs = before.set_backs + 1
    blocked = set_backs > policy.max_set_backs_per_feature
    standing = evolve(
        before,
        status=FeatureStatus.BLOCKED if blocked else FeatureStatus.PENDING,
        turns=0,
        set_backs=set_backs,
        blocked_at=state.version if blocked else None,
        last_failure=why,
        evidence=_shorten_verdict(verdict),
    )
    validated = tuple(id for id in run.validated if id != feature_id)
    state = _replace(evolve(state, run=evolve(_require_run(state), validated=validated)), at, standing, passes=False)
    what = "is blocked, as it was set back too often" if blocked else "is set back"
    state = add_progress(state, f"feature {feature_id}: does not pass any more and {what}{_because(why)}", now)
    return _close_if_over(state, policy, now)


def _judged_anew(state: FeatureState, policy: RunPolicy, at: int, verdict: Verdict, now: datetime) -> FeatureState:
    """Return the state after a verdict on a blocked feature, at work that has changed since it was blocked."""
    before, run = state.standings[at], _require_run(state)
    if not verdict.passed:
        still = evolve(before, blocked_at=state.version, last_failure=last_part(verdict.evidence))
        return _close_if_over(_replace(state, at, still), policy, now)
    passed = evolve(
        before,
        status=FeatureStatus.PASSED,
        verified_at=state.version,
        blocked_at=None,
        last_failure=None,
        evidence=_shorten_verdict(verdict),
    )
    run = evolve(run, validated=_move_to_end(run.validated, before.feature_id))
    state = _replace(evolve(state, run=run), at, passed, passes=True)
    return _close_if_over(add_progress(state, f"feature {before.feature_id}: passes now, after other work", now), policy, now)


def interrupt_run(state: FeatureState, feature_id: str | None, now: datetime, why: str = "") -> FeatureState:
    """Return the state after an interruption. An interrupted try does not count, and its number is reused.

    Args:
        feature_id: the feature being worked; None if there was none.
        why: short reason for the interruption.
    """
    state = open_run(state, now)
    note = f"interrupted{f' by {why}' if why else ''}"
    at = None if feature_id is None else place_of(state, feature_id)
    if at is not None and state.standings[at].status is FeatureStatus.PASSED:
        note = f"{note}: feature {feature_id} was being rechecked, which will be repeated"
    elif at is not None:
        standing = state.standings[at]
        state = _replace(state, at, evolve(standing, interruptions=standing.interruptions + 1))
        note = f"{note}: feature {feature_id} was interrupted in try {standing.turns + 1}, which will be repeated"
    return close_run(state, RunStatus.INTERRUPTED, note, now)


def fail_run(state: FeatureState, error: str, now: datetime) -> FeatureState:
    """Return the state after a run that cannot continue: the health check, validator or merge failed. No try is counted.

    Args:
        error: text that begins with its kind, such as `str()` of a `FeatureError`.
    """
    return close_run(open_run(state, now), RunStatus.FAILED, f"Run failed: {last_part(error)}", now)


def unblock(state: FeatureState, feature_id: str, now: datetime) -> FeatureState:
    """Make a blocked feature pending, with all its tries.

    Raises:
        InvalidRequest: there is no such feature, or it is not blocked.
    """
    at = _find_with_status(state, feature_id, FeatureStatus.BLOCKED, "unblock")
    standing = evolve(state.standings[at], status=FeatureStatus.PENDING, turns=0, set_backs=0, blocked_at=None)
    return add_progress(_replace(state, at, standing), f"feature {feature_id}: unblocked by message", now)


def block(state: FeatureState, policy: RunPolicy, feature_id: str, reason: str, now: datetime) -> FeatureState:
    """Block a pending feature; a current run that has nothing else to do is handed off.

    Raises:
        InvalidRequest: there is no such feature, or it is not pending.
    """
    at = _find_with_status(state, feature_id, FeatureStatus.PENDING, "block")
    why = last_part(reason)
    standing = evolve(state.standings[at], status=FeatureStatus.BLOCKED, last_failure=why or state.standings[at].last_failure)
    state = add_progress(_replace(state, at, standing), f"feature {feature_id}: blocked by message{_because(why)}", now)
    return _close_if_over(state, policy, now)


def close_run(state: FeatureState, status: RunStatus, note: str, now: datetime) -> FeatureState:
    """Hand off the run: add its outcome, and a progress entry with the same note."""
    run = next_run(state, now)
    outcome = RunOutcome(
        run=run.number,
        status=status,
        note=note,
        started_at=run.started_at,
        completed_at=now,
        turns=run.turns,
        retries=run.retries,
        processed_feature_ids=run.features,
        validated_feature_ids=run.validated,
        no_pending_features=not any(one.status is FeatureStatus.PENDING for one in state.standings),
    )
    state = add_progress(evolve(state, run=run), note, now)
    return evolve(state, run=None, runs=(*state.runs, outcome)[-MAX_PROGRESS:])


def find_outcome(before: FeatureState, after: FeatureState) -> RunOutcome | None:
    """Return the outcome that was added between two states; None if the run continues."""
    if not after.runs or (before.runs and before.runs[-1].run == after.runs[-1].run):
        return None
    return after.runs[-1]


def _accept(
    state: FeatureState,
    policy: RunPolicy,
    at: int,
    run: RunCounts,
    tried: Standing,
    result: TurnResult | None,
    verdict: Verdict,
    commit: str | None,
    now: datetime,
) -> FeatureState:
    version = state.version + 1
    standing = evolve(
        tried,
        status=FeatureStatus.PASSED,
        verified_at=version,
        accepted_at=version,
        last_failure=None,
        evidence=_shorten_verdict(verdict),
        accepted=None if result is None else _shorten_result(result),
    )
    manifest = manifest_of(state)
    if commit is not None:
        manifest = evolve(manifest, last_known_good_commit=commit)
    run = evolve(run, validated=_move_to_end(run.validated, tried.feature_id))
    state = _replace(evolve(state, run=run, version=version, manifest=manifest), at, standing, passes=True)
    return _close_if_over(add_progress(state, f"feature {tried.feature_id}: validated (try {tried.turns})", now), policy, now)


def _count_failure(tried: Standing, policy: RunPolicy, why: str, version: int) -> Standing:
    if tried.turns < policy.tries_per_feature:
        return evolve(tried, last_failure=why)
    if policy.on_exhausted is OnExhausted.STOP:
        return evolve(tried, last_failure=why, turns=0)
    return evolve(tried, last_failure=why, status=FeatureStatus.BLOCKED, blocked_at=version)


def _close_if_over(state: FeatureState, policy: RunPolicy, now: datetime) -> FeatureState:
    end = ending(state, policy)
    return state if end is None else close_run(state, end.status, end.note, now)


def _replace(state: FeatureState, at: int, standing: Standing, *, passes: bool | None = None) -> FeatureState:
    """Return the state with the progress of one feature replaced."""
    standings = (*state.standings[:at], standing, *state.standings[at + 1 :])
    feature = state.features[at]
    if passes is None or feature.passes is passes:
        return evolve(state, standings=standings)
    features = (*state.features[:at], evolve(feature, passes=passes), *state.features[at + 1 :])
    return evolve(state, standings=standings, features=features)


def place_of(state: FeatureState, feature_id: str) -> int:
    """Return the index of a feature in the list."""
    for at, standing in enumerate(state.standings):
        if standing.feature_id == feature_id:
            return at
    raise InvalidRequest(
        f"feature {feature_id!r} does not exist: expected an id of the list, was {feature_id!r}; correct the id"
    )


def _find_with_status(state: FeatureState, feature_id: str, status: FeatureStatus, order: str) -> int:
    at = place_of(state, feature_id)
    if (was := state.standings[at].status) is not status:
        raise InvalidRequest(
            f"feature {feature_id!r} is not {status}: expected {status} to {order} it, was {str(was)!r}; leave it"
        )
    return at


def _require_run(state: FeatureState) -> RunCounts:
    if state.run is None:
        raise HarnessMisuse("no run is open: expected one that this belongs to, was none; call open_run() first")
    return state.run


def _shorten_verdict(verdict: Verdict) -> Verdict:
    return evolve(verdict, evidence=last_part(verdict.evidence))


def _shorten_result(result: TurnResult) -> TurnResult:
    paths = [path for path in result.touched if len(path) <= MAX_PATH]
    return evolve(
        result,
        message=last_part(result.message),
        session=_storable_session(result.session),
        stop_reason=last_part(result.stop_reason, MAX_PATH),
        touched=paths[:MAX_TOUCHED],
    )


def _storable_session(session: str | None) -> str | None:
    """Return a conversation id unchanged if it can be stored, otherwise None."""
    return session if session is None or len(session) <= MAX_PATH else None


def _move_to_end(ids: tuple[str, ...], id: str) -> tuple[str, ...]:
    """Move an id to the end of a list, or append it."""
    return (*(other for other in ids if other != id), id)


def _because(why: str) -> str:
    lines = dict.fromkeys((gist(why), failure_line(why)))
    return "".join(f": {line}" for line in lines if line)
