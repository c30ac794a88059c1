"""Values: a feature, its progress, the result of an agent's turn, and a validator's verdict."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import field, frozen

from harnesses.budgets.usage import Usage


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


@frozen
class Feature:
    """A goal to achieve, and whether it is achieved. All fields except `passes` are its specification, which is locked."""

    id: str
    description: str
    category: str = field(default="functional", kw_only=True)
    steps: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    """Steps that verify that it works; at least one."""
    passes: bool = field(default=False, kw_only=True)
    """Whether a validator has proven it. Only a verdict sets it."""
    priority: int = field(default=0, kw_only=True)
    """Features with a higher number are worked first; equal ones in the order of the list."""
    depends_on: tuple[str, ...] = field(default=(), converter=_texts, kw_only=True)
    """Ids of the features that must pass before this one is worked."""
    required: bool = field(default=True, kw_only=True)
    """Whether the list is incomplete until it passes."""


class FeatureStatus(StrEnum):
    """Status of a feature. There is no "in progress", because only finished tries are recorded."""

    PENDING = "pending"
    PASSED = "passed"
    BLOCKED = "blocked"
    """Its tries are used up; a person must decide."""


@frozen(kw_only=True)
class Verdict:
    """The result of a validation."""

    passed: bool
    evidence: str
    """What was observed: commands, exit codes, the end of their output."""
    validator: str = ""
    """Short description of the validator."""
    commit: str | None = None
    """The validated commit, if the work is a commit."""
    duration_s: float = 0.0


@frozen(kw_only=True)
class TurnResult:
    """The result of an agent's turn: its message and its work."""

    message: str = ""
    """The agent's message; never used as evidence."""
    artifact: str | None = None
    """The work itself, if it is a text such as source code."""
    session: str | None = None
    """The agent's id of the conversation, so that the next turn can resume it."""
    stop_reason: str = "end_turn"
    tokens: int = 0
    """Total tokens used in the turn."""
    usage: Usage | None = None
    """Usage of the turn: tokens by kind, tool calls, money. Within a harness, the usage charged for the turn."""
    base: str | None = None
    """The commit that the work started from, if it is done in a repository."""
    commit: str | None = None
    """The commit that contains the work."""
    branch: str | None = None
    """The branch that contains the commit."""
    touched: tuple[str, ...] = field(default=(), converter=_texts)
    """Paths that the work changed."""
    before: str = ""
    """What the validator saw at `base` before the agent was asked; empty if it was not asked then."""
    sandbox: str = ""
    """The level of the sandbox that was in force, and its network, such as "bubblewrap, no network"; empty without one."""
    confined: bool = False
    """Whether the agent could write only to its worktree and what its program keeps. Set by the agent's own code, not by its
    model."""


@frozen(kw_only=True)
class Standing:
    """The progress of one feature."""

    feature_id: str
    status: FeatureStatus = FeatureStatus.PENDING
    turns: int = 0
    """Number of finished tries since it became pending."""
    tries: int = 0
    """Number of finished tries in total; never reset, so that each try has its own number."""
    interruptions: int = 0
    """Number of interrupted tries; these do not count as tries."""
    set_backs: int = 0
    """How often it passed and was later found not to pass."""
    verified_at: int = 0
    """Version of the whole work at which a validator last saw it pass."""
    blocked_at: int | None = None
    """Version of the whole work at which it was last judged, if its failures blocked it; None if a person has blocked it."""
    last_failure: str | None = None
    """Why the last try failed, or why it was set back or blocked; included in the next prompt."""
    session: str | None = None
    """The agent's conversation id of the last try."""
    prompt: str | None = None
    """A prompt set by a person, used instead of the default one."""
    evidence: Verdict | None = None
    """The verdict that proves it."""
    accepted: TurnResult | None = None
    """The accepted work."""
    accepted_at: int = 0
    """Version of the whole work created by its last acceptance."""
