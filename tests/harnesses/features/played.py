"""Feature lists, and a harness reduced to its decisions: every move is answered by a word from a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from harnesses.features.feature import Feature, FeatureStatus, TurnResult, Verdict
from harnesses.features.feature_record import FeatureState, InitializerRequest
from harnesses.features.planning import feature_list
from harnesses.features.planning import state_changes as changes
from harnesses.features.planning.feature_selectors import FeatureSelector, FirstPending
from harnesses.features.planning.next_move import Close, Move, Recheck, Turn, next_move
from harnesses.features.run_policy import FailFast, RunMode, RunPolicy

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
LENIENT = FailFast(on_health_check_error=False, on_chat_error=False, on_validation_failure=False)
PASS, FAIL, ERROR, CUT, BROKEN = "pass", "fail", "error", "cut", "broken"
WORDS = (PASS, FAIL, ERROR, CUT, BROKEN)


def unlimited(tries: int = 1, **others: object) -> RunPolicy:
    """Return a policy that works all features, each `tries` times."""
    given: dict[str, object] = {"max_turns_per_feature": tries, "max_retries_per_feature": tries - 1, "fail_fast": LENIENT}
    return RunPolicy(mode=RunMode.UNLIMITED_BATCH, **(given | others))  # type: ignore[arg-type]


def feature(id: str, **fields: object) -> Feature:
    """Return a feature of which only what is told is remarkable."""
    given: dict[str, object] = {"description": f"brings about {id}", "steps": ("look",)} | fields
    return Feature(id, **given)  # type: ignore[arg-type]


def begun(*features: Feature | str) -> FeatureState:
    """Return the first state of a list."""
    listed = [feature(one) if isinstance(one, str) else one for one in features]
    return feature_list.initialise(InitializerRequest(current_objective="a clock", feature_list=listed), "clock", "c0", NOW)


def verdict(passed: bool, evidence: str = "") -> Verdict:
    """Return what a validator finds."""
    return Verdict(passed=passed, evidence=evidence or ("all is well" if passed else "AssertionError: no"))


def answered(state: FeatureState, policy: RunPolicy, move: Move, word: str, now: datetime = NOW) -> FeatureState:
    """Return the state after a move that is answered by a word."""
    if isinstance(move, Close):
        return changes.close_run(state, move.status, move.note, now)
    assert isinstance(move, Turn | Recheck)
    if word == CUT:
        return changes.interrupt_run(state, move.feature_id, now)
    if word == BROKEN:
        return changes.fail_run(state, "Validation: no such program", now)
    state, id = changes.open_run(state, now), move.feature_id
    if isinstance(move, Recheck):
        return changes.finish_recheck(state, policy, id, verdict(word == PASS), now)
    if word == ERROR:
        return changes.finish_turn(state, policy, id, error="ConnectionError: gone", now=now)
    return changes.finish_turn(state, policy, id, result=TurnResult(message="done"), verdict=verdict(word == PASS), now=now)


def played(
    state: FeatureState,
    policy: RunPolicy,
    words: Iterable[str] | Callable[[Move], str],
    *,
    selector: FeatureSelector | None = None,
    most: int = 10_000,
) -> tuple[FeatureState, list[Move]]:
    """Play until the words are used up, or nothing can be done; return the state and all moves, the last one unanswered."""
    moves: list[Move] = []
    script = None if callable(words) else iter(words)
    for number in range(most):
        moves.append(move := next_move(state, policy, selector or FirstPending()))
        if not isinstance(move, Turn | Recheck | Close):
            return state, moves
        word = words(move) if callable(words) else next(script or iter(()), None)
        if word is None:
            return state, moves
        state = answered(state, policy, move, word, NOW + timedelta(seconds=number))
    raise AssertionError(f"no end after {most} moves: {moves[-5:]}")


def statuses(state: FeatureState) -> Sequence[FeatureStatus]:
    """Return where each feature stands, in the order of the list."""
    return [standing.status for standing in state.standings]
