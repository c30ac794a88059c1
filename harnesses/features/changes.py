"""What becomes of the state: one function for each thing that can happen. Pure.

The laws: a feature passes by a verdict that passed, and by nothing else; a run that ends is handed off in the same state as
the step it ends with; lists and texts in the state are bounded.
"""

from __future__ import annotations

from datetime import datetime

from attrs import evolve

from harnesses.errors import HarnessMisuse
from harnesses.features.agreeing import amended, checked_request, initialised, initializer_result, manifest_of, told
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import FeatureStatus, Standing, TurnResult, Verdict
from harnesses.features.planning import ending, next_run
from harnesses.features.policy import OnExhausted, RunPolicy
from harnesses.features.record import MAX_PATH, MAX_PROGRESS, MAX_TOUCHED, FeatureState, RunCounts, RunOutcome, RunStatus
from harnesses.features.texts import gist, last_part

__all__ = [
    "after_turn",
    "amended",
    "blocked",
    "checked_request",
    "closed",
    "ended",
    "failed",
    "initialised",
    "initializer_result",
    "interrupted",
    "opened",
    "rechecked",
    "unblocked",
]


def opened(state: FeatureState, now: datetime) -> FeatureState:
    """Begin a run, if none is open. It goes on with the counts of the run before, if that was interrupted."""
    return state if state.run is not None else evolve(state, run=next_run(state, now))


def after_turn(
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
    """Return the state after a try has ended; the run is handed off in it if it ends with this try.

    Args:
        result: what the agent handed in; None if it failed.
        verdict: what the validator found.
        error: why the agent failed, if it did; then there is no verdict.
        session: the conversation in which it failed, if that is known; else the next try goes on with the one before.
        commit: the new last known good commit, if the work was accepted and there is a repository.
    """
    if (verdict is None) == (error is None):
        raise HarnessMisuse(f"feature {feature_id!r}: expected a verdict or an error, was {verdict!r} and {error!r}; give one")
    run, at = _open_run(state), _place(state, feature_id)
    before = state.standings[at]
    turns = before.turns + 1
    run = evolve(
        run,
        turns=run.turns + 1,
        retries=run.retries + (before.turns > 0 and feature_id in run.features),
        features=_last(run.features, feature_id),
        rechecked=0,
    )
    session = _kept_session(result.session) if result else session or before.session
    tried = evolve(before, turns=turns, tries=before.tries + 1, session=session)
    if verdict is not None and verdict.passed:
        return _accepted(state, policy, at, run, tried, result, verdict, commit, now)
    why = last_part(error if verdict is None else verdict.evidence)  # type: ignore[arg-type]
    failed = _failed(tried, policy, why)
    state = _with(evolve(state, run=run), at, failed, passes=False)
    what = "the agent failed" if verdict is None else "not validated"
    state = told(state, f"feature {feature_id}: {what} (try {turns}){_because(why)}", now)
    fast = policy.fail_fast.on_chat_error if verdict is None else policy.fail_fast.on_validation_failure
    stopped = turns >= policy.tries_per_feature and policy.on_exhausted is OnExhausted.STOP
    if fast or stopped:
        note = f"Run failed: Chat: {gist(why)}" if verdict is None else f"feature {feature_id} not validated"
        return closed(state, RunStatus.FAILED, note, now)
    return _perhaps_closed(state, policy, now)


def rechecked(state: FeatureState, policy: RunPolicy, feature_id: str, verdict: Verdict, now: datetime) -> FeatureState:
    """Return the state after a passing feature was judged anew: it passes still, or it is set back and pending."""
    run, at = _open_run(state), _place(state, feature_id)
    before = state.standings[at]
    state = evolve(state, run=evolve(run, rechecked=run.rechecked + 1))
    if verdict.passed:
        passed = evolve(before, verified_at=state.version, evidence=_kept(verdict))
        return _perhaps_closed(_with(state, at, passed, passes=True), policy, now)
    why = last_part(verdict.evidence)
    set_backs = before.set_backs + 1
    blocked = set_backs > policy.max_set_backs_per_feature
    standing = evolve(
        before,
        status=FeatureStatus.BLOCKED if blocked else FeatureStatus.PENDING,
        turns=0,
        set_backs=set_backs,
        last_failure=why,
        evidence=_kept(verdict),
    )
    validated = tuple(id for id in run.validated if id != feature_id)
    state = _with(evolve(state, run=evolve(_open_run(state), validated=validated)), at, standing, passes=False)
    what = "is blocked, as it was set back too often" if blocked else "is set back"
    state = told(state, f"feature {feature_id}: does not pass any more and {what}{_because(why)}", now)
    return _perhaps_closed(state, policy, now)


def interrupted(state: FeatureState, feature_id: str | None, now: datetime, why: str = "") -> FeatureState:
    """Hand off what was cut off. A try that was cut off is none: its number is given again, and limits go on with the run.

    Args:
        feature_id: which one was worked; None if none was.
        why: what cut it off, in a few words.
    """
    state = opened(state, now)
    note = f"interrupted{f' by {why}' if why else ''}"
    at = None if feature_id is None else _place(state, feature_id)
    if at is not None and state.standings[at].status is FeatureStatus.PASSED:
        note = f"{note}: feature {feature_id} was being judged anew, which is done again"
    elif at is not None:
        standing = state.standings[at]
        state = _with(state, at, evolve(standing, interruptions=standing.interruptions + 1))
        note = f"{note}: feature {feature_id} was cut off in try {standing.turns + 1}, which is made again"
    return closed(state, RunStatus.INTERRUPTED, note, now)


def failed(state: FeatureState, error: str, now: datetime) -> FeatureState:
    """Hand off a run that can not go on: the health check, the validator or a merge failed. No try is counted.

    Args:
        error: beginning with its kind, such as `str()` of a `FeatureError`.
    """
    return closed(opened(state, now), RunStatus.FAILED, f"Run failed: {last_part(error)}", now)


def unblocked(state: FeatureState, feature_id: str, now: datetime) -> FeatureState:
    """Make a blocked feature pending, with all its tries.

    Raises:
        InvalidRequest: there is no such feature, or it is not blocked.
    """
    at = _ordered(state, feature_id, FeatureStatus.BLOCKED, "unblock")
    standing = evolve(state.standings[at], status=FeatureStatus.PENDING, turns=0, set_backs=0)
    return told(_with(state, at, standing), f"feature {feature_id}: unblocked by order", now)


def blocked(state: FeatureState, policy: RunPolicy, feature_id: str, reason: str, now: datetime) -> FeatureState:
    """Block a pending feature; an open run that has nothing else to do is handed off with it.

    Raises:
        InvalidRequest: there is no such feature, or it is not pending.
    """
    at = _ordered(state, feature_id, FeatureStatus.PENDING, "block")
    why = last_part(reason)
    standing = evolve(state.standings[at], status=FeatureStatus.BLOCKED, last_failure=why or state.standings[at].last_failure)
    state = told(_with(state, at, standing), f"feature {feature_id}: blocked by order{_because(why)}", now)
    return _perhaps_closed(state, policy, now)


def closed(state: FeatureState, status: RunStatus, note: str, now: datetime) -> FeatureState:
    """Hand off the run: its outcome, and a progress entry with the same note."""
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
    state = told(evolve(state, run=run), note, now)
    return evolve(state, run=None, runs=(*state.runs, outcome)[-MAX_PROGRESS:])


def ended(before: FeatureState, after: FeatureState) -> RunOutcome | None:
    """Return the hand-off that came between two states; None if the run goes on."""
    if not after.runs or (before.runs and before.runs[-1].run == after.runs[-1].run):
        return None
    return after.runs[-1]


def _accepted(
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
        evidence=_kept(verdict),
        accepted=None if result is None else _kept_result(result),
    )
    manifest = manifest_of(state)
    if commit is not None:
        manifest = evolve(manifest, last_known_good_commit=commit)
    run = evolve(run, validated=_last(run.validated, tried.feature_id))
    state = _with(evolve(state, run=run, version=version, manifest=manifest), at, standing, passes=True)
    return _perhaps_closed(told(state, f"feature {tried.feature_id}: validated (try {tried.turns})", now), policy, now)


def _failed(tried: Standing, policy: RunPolicy, why: str) -> Standing:
    if tried.turns < policy.tries_per_feature:
        return evolve(tried, last_failure=why)
    if policy.on_exhausted is OnExhausted.STOP:
        return evolve(tried, last_failure=why, turns=0)
    return evolve(tried, last_failure=why, status=FeatureStatus.BLOCKED)


def _perhaps_closed(state: FeatureState, policy: RunPolicy, now: datetime) -> FeatureState:
    end = ending(state, policy)
    return state if end is None else closed(state, end.status, end.note, now)


def _with(state: FeatureState, at: int, standing: Standing, *, passes: bool | None = None) -> FeatureState:
    """Replace what is known of one feature."""
    standings = (*state.standings[:at], standing, *state.standings[at + 1 :])
    feature = state.features[at]
    if passes is None or feature.passes is passes:
        return evolve(state, standings=standings)
    features = (*state.features[:at], evolve(feature, passes=passes), *state.features[at + 1 :])
    return evolve(state, standings=standings, features=features)


def _place(state: FeatureState, feature_id: str) -> int:
    for at, standing in enumerate(state.standings):
        if standing.feature_id == feature_id:
            return at
    raise InvalidRequest(f"feature {feature_id!r} is not there: expected an id of the list, was {feature_id!r}; look it up")


def _ordered(state: FeatureState, feature_id: str, status: FeatureStatus, order: str) -> int:
    at = _place(state, feature_id)
    if (was := state.standings[at].status) is not status:
        raise InvalidRequest(
            f"feature {feature_id!r} is not {status}: expected that to {order} it, was {str(was)!r}; leave it"
        )
    return at


def _open_run(state: FeatureState) -> RunCounts:
    if state.run is None:
        raise HarnessMisuse("no run is open: expected one that this belongs to, was none; call opened() before")
    return state.run


def _kept(verdict: Verdict) -> Verdict:
    return evolve(verdict, evidence=last_part(verdict.evidence))


def _kept_result(result: TurnResult) -> TurnResult:
    paths = [path for path in result.touched if len(path) <= MAX_PATH]
    return evolve(
        result,
        message=last_part(result.message),
        session=_kept_session(result.session),
        stop_reason=last_part(result.stop_reason, MAX_PATH),
        touched=paths[:MAX_TOUCHED],
    )


def _kept_session(session: str | None) -> str | None:
    """Keep what a conversation is known by, whole or not at all."""
    return session if session is None or len(session) <= MAX_PATH else None


def _last(ids: tuple[str, ...], id: str) -> tuple[str, ...]:
    """Put an id at the end, once."""
    return (*(other for other in ids if other != id), id)


def _because(why: str) -> str:
    return f": {line}" if (line := gist(why)) else ""
