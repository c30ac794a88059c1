"""Features, attempts at them, and what an attempt makes of the state. Pure.

The laws: a feature passes by a verdict and by nothing else; a feature that has used up its attempts is blocked, and the
work goes on with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from harnesses.errors import HarnessMisuse

MAX_TEXT = 4_000
"""Characters of evidence or summary that are kept, the last ones: a traceback ends with what went wrong."""


@frozen
class Feature:
    """Something to be built."""

    id: str
    description: str
    """What the agent is asked for."""


@frozen
class Solution:
    """What an agent hands in."""

    code: str
    summary: str = ""
    """A sentence for people."""


@frozen
class Verdict:
    """What a validator found."""

    passed: bool
    evidence: str
    """What it saw: the end of the output of the tests."""


@frozen
class Attempt:
    """The input of a step: one try at one feature."""

    feature_id: str
    attempt: int
    """From 1."""
    last_failure: str | None
    """Why the try before failed; None for the first."""


@frozen
class AttemptResult:
    """The output of a step."""

    solution: Solution
    passed: bool
    evidence: str
    duration_s: float
    """Of agent and validator together."""


@frozen
class Assignment:
    """What the agent is asked."""

    feature: Feature
    attempt: int
    last_failure: str | None


@frozen
class CodingState:
    """Everything a coding harness needs to go on. It grows by one id for each feature done with."""

    passed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    """Features that failed `max_attempts` times."""
    feature_id: str | None = None
    """The feature that failed last and is to be tried again."""
    failures: int = 0
    """How often it has failed."""
    last_failure: str | None = None


def check_features(features: Sequence[Feature]) -> tuple[Feature, ...]:
    """Return the features, or raise `HarnessMisuse` if two have the same id."""
    seen: set[str] = set()
    for number, feature in enumerate(features, start=1):
        if feature.id in seen:
            raise HarnessMisuse(f"feature {number}: expected an id of its own, was {feature.id!r} again; rename one of them")
        seen.add(feature.id)
    return tuple(features)


def next_feature(features: Sequence[Feature], state: CodingState) -> Feature | None:
    """Return the first feature that is neither passed nor blocked."""
    done = {*state.passed, *state.blocked}
    return next((feature for feature in features if feature.id not in done), None)


def next_attempt(feature: Feature, state: CodingState) -> Attempt:
    """Return the next try at a feature."""
    if feature.id != state.feature_id:
        return Attempt(feature.id, 1, None)
    return Attempt(feature.id, state.failures + 1, state.last_failure)


def after_attempt(state: CodingState, attempt: Attempt, verdict: Verdict, max_attempts: int) -> CodingState:
    """Return the state after the verdict on an attempt."""
    settled = CodingState(state.passed, state.blocked)
    if verdict.passed:
        return evolve(settled, passed=(*state.passed, attempt.feature_id))
    if attempt.attempt >= max_attempts:
        return evolve(settled, blocked=(*state.blocked, attempt.feature_id))
    return evolve(settled, feature_id=attempt.feature_id, failures=attempt.attempt, last_failure=last_part(verdict.evidence))


def last_part(text: str) -> str:
    """Return at most the last `MAX_TEXT` characters."""
    return text if len(text) <= MAX_TEXT else f"…{text[1 - MAX_TEXT :]}"
