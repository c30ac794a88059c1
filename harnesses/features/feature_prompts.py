"""Builds the prompt for an agent's turn. No I/O.

Invariant: text that came from agents and validators is fenced, bounded, and labelled as data.
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesses.features.agent_text import fenced, last_part, one_line
from harnesses.features.feature import Feature, Standing
from harnesses.features.feature_record import Assignment, FeatureState, ProgressEntry

MAX_HEALTH = 1_000
"""Maximum characters of the health check's output in a prompt."""
MAX_ENTRIES = 5
"""Maximum progress entries in a prompt, the latest ones."""


def prompt(
    objective: str,
    feature: Feature,
    turn: int,
    *,
    last_failure: str | None = None,
    progress: Sequence[ProgressEntry] = (),
    health: str = "",
) -> str:
    """Return the prompt for one turn.

    Args:
        turn: number of the try at the feature, from 1.
        last_failure: why the previous try failed.
        progress: recent progress, oldest first.
        health: output of the health check.
    """
    parts = [
        f"Objective: {objective}",
        "Work on this one feature only, and leave everything in order for the next turn.",
        f"Feature: {feature.id}\nCategory: {feature.category}\n{feature.description}",
        "It works if:\n" + "\n".join(f"- {step}" for step in feature.steps),
    ]
    if last_failure is not None:
        said = "The last try was not accepted" if turn > 1 else "The feature was accepted before, but no longer passes"
        parts.append(f"This is try {turn}. {said}. Find out why before you change anything. The evidence:")
        parts.append(fenced("last failure", last_part(last_failure)))
    if progress:
        lines = "\n".join(one_line(entry.summary) for entry in progress[-MAX_ENTRIES:])
        parts.append("Recent progress:")
        parts.append(fenced("progress", lines))
    if health:
        parts.append("Output of the health check:")
        parts.append(fenced("health check", last_part(health, MAX_HEALTH)))
    parts.append("The work is validated by running it; your own statements about it are not used as evidence.")
    return "\n\n".join(parts)


def assignment(
    state: FeatureState, feature: Feature, standing: Standing, *, turn: int, health: str, words: str | None
) -> Assignment:
    """Return the assignment for an agent's turn.

    Args:
        turn: number of the try in total, from 1.
        words: prompt used instead of the default one; None uses the default.
    """
    objective = "" if state.manifest is None else state.manifest.current_objective
    usual = prompt(
        objective,
        feature,
        standing.turns + 1,
        last_failure=standing.last_failure,
        progress=state.progress,
        health=health,
    )
    return Assignment(
        feature=feature,
        turn=turn,
        prompt=usual if words is None else words,
        objective=objective,
        last_failure=standing.last_failure,
        session=standing.session,
        progress=state.progress,
        health=health,
        base=None if state.manifest is None else state.manifest.last_known_good_commit,
    )
