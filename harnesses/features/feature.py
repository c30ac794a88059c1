"""A feature, what is known of it, and what a validator says. Nouns."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import field, frozen

from harnesses.budgets.usage import Usage


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


@frozen
class Feature:
    """Something to be brought about, and whether it is. All but `passes` is its specification, which is locked."""

    id: str
    description: str
    category: str = field(default="functional", kw_only=True)
    steps: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    """How one sees that it works; at least one."""
    passes: bool = field(default=False, kw_only=True)
    """Whether a validator has proven it. Nothing else sets it."""
    priority: int = field(default=0, kw_only=True)
    """Higher goes first; among equals the order of the list decides."""
    depends_on: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    """Ids of the features that have to pass before this one is worked."""
    required: bool = field(default=True, kw_only=True)
    """Whether the work is incomplete without it."""


class FeatureStatus(StrEnum):
    """Where a feature stands. There is no word for "being worked": only what has ended is on record."""

    PENDING = "pending"
    PASSED = "passed"
    BLOCKED = "blocked"
    """Its tries are used up; it needs a person."""


@frozen(kw_only=True)
class Verdict:
    """What a validator found."""

    passed: bool
    evidence: str
    """What it saw: commands, exit codes, the end of their output."""
    validator: str = ""
    """Which one, in a few words."""
    commit: str | None = None
    """What was judged, where that is a commit."""
    duration_s: float = 0.0


@frozen(kw_only=True)
class TurnResult:
    """What an agent hands in at the end of a turn: its word, and its work."""

    message: str = ""
    """What it says. It is never believed."""
    artifact: str | None = None
    """The work itself, where that is a text, such as source code."""
    session: str | None = None
    """What the agent knows this conversation by, so that the next turn can go on with it."""
    stop_reason: str = "end_turn"
    tokens: int = 0
    """All that were used in the turn."""
    usage: Usage | None = None
    """What was used in the turn: tokens by kind, tool calls, money. Within a harness it is what was charged for it."""
    base: str | None = None
    """The commit that the work began from, where it is done in a repository."""
    commit: str | None = None
    """The commit that holds the work."""
    branch: str | None = None
    """The branch that holds the commit."""
    touched: tuple[str, ...] = field(default=(), converter=_texts)
    """Paths that the work changes."""


@frozen(kw_only=True)
class Standing:
    """What is known of one feature beside its specification."""

    feature_id: str
    status: FeatureStatus = FeatureStatus.PENDING
    turns: int = 0
    """Tries that have ended since it became pending."""
    tries: int = 0
    """Tries that have ended, all told: it never goes back, so that no two tries have one number."""
    interruptions: int = 0
    """Tries that were cut off; they do not count as tries."""
    set_backs: int = 0
    """How often it passed and was found not to pass any more."""
    verified_at: int = 0
    """The version of the whole work at which a validator saw it pass last."""
    last_failure: str | None = None
    """Why the last try failed, or why it was set back or blocked: the next try is told."""
    session: str | None = None
    """The agent's, of the last try."""
    prompt: str | None = None
    """What its agent is asked instead of the usual words, if a person has ordered that."""
    evidence: Verdict | None = None
    """What proves that it passes."""
    accepted: TurnResult | None = None
    """The work that passed."""
    accepted_at: int = 0
    """The version of the whole work that it made, when it was accepted last."""
