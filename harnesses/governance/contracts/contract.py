"""The nouns of a contract: what a builder hands in with its work, and what a validator says of it. Pure values.

The law: a contract is what somebody *says*. Nothing in it is believed for being there; what was seen is in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

Json: TypeAlias = Mapping[str, object]
EvidenceItem: TypeAlias = str | Json
"""A path, a sentence, or an object that has one."""


class BuilderStatus(StrEnum):
    """What a builder says of its own work."""

    PASS = "PASS"
    FAIL = "FAIL"
    BLOCKED = "BLOCKED"
    DONE_WITH_CONCERNS = "DONE_WITH_CONCERNS"

    @property
    def passing(self) -> bool:
        """Whether it says that the work is done: only then does it have to be complete."""
        return self in (BuilderStatus.PASS, BuilderStatus.DONE_WITH_CONCERNS)


class ValidatorStatus(StrEnum):
    """What came of judging it, or one check of it."""

    PASS = "PASS"
    FAIL = "FAIL"


class Recommendation(StrEnum):
    """What a validator would have happen next."""

    NONE = "none"
    RETRY_BUILDER = "retry_builder"
    ASK_USER = "ask_user"
    BLOCK = "block"


def _texts(items: Iterable[str]) -> tuple[str, ...]:
    return (items,) if isinstance(items, str) else tuple(items)


def _items(items: Iterable[EvidenceItem]) -> tuple[EvidenceItem, ...]:
    return (items,) if isinstance(items, str) else tuple(items)


def _more(items: Json) -> Json:
    return dict(items)


def _maybe(items: Json | None) -> Json | None:
    return None if items is None else dict(items)


@frozen
class Identity:
    """Who has done something, or judged it."""

    name: str
    harness: str = ""
    """The program, such as "claude-code"."""
    model: str = ""
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)
    """Fields that are not known here: kept, written back, never acted on."""


@frozen
class Check:
    """One thing that was looked at."""

    name: str
    status: ValidatorStatus = field(converter=ValidatorStatus)
    evidence: str = ""
    """What was seen."""
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)

    @property
    def ok(self) -> bool:
        """Whether it was as it should be."""
        return self.status is ValidatorStatus.PASS


def passed(name: str, evidence: str = "") -> Check:
    """Return a check that was passed."""
    return Check(name, ValidatorStatus.PASS, evidence)


def failed(name: str, evidence: str) -> Check:
    """Return a check that failed, and why."""
    return Check(name, ValidatorStatus.FAIL, evidence)


@frozen
class StageSummary:
    """What was done for one stage."""

    stage_id: str
    agent_id: str = ""
    work_done: str = ""
    evidence: tuple[EvidenceItem, ...] = field(default=(), converter=_items)
    context_to_keep: tuple[str, ...] = field(default=(), converter=_texts)
    context_to_drop: tuple[str, ...] = field(default=(), converter=_texts)
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)


@frozen
class MemorySummary:
    """What later agents are to know instead of the whole transcript."""

    work_done: str = ""
    decisions: tuple[str, ...] = field(default=(), converter=_texts)
    evidence: tuple[EvidenceItem, ...] = field(default=(), converter=_items)
    context_to_keep: tuple[str, ...] = field(default=(), converter=_texts)
    context_to_drop: tuple[str, ...] = field(default=(), converter=_texts)
    next_agent_hints: tuple[str, ...] = field(default=(), converter=_texts)
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)


def _stages(items: Iterable[StageSummary]) -> tuple[StageSummary, ...]:
    return tuple(items)


def _checks(items: Iterable[Check]) -> tuple[Check, ...]:
    return tuple(items)


@frozen(kw_only=True)
class BuilderContract:
    """What a builder hands in with its work."""

    task_id: str
    agent: str
    """Who has built it, as it says itself."""
    status: BuilderStatus = field(converter=BuilderStatus)
    summary: str
    files_modified: tuple[str, ...] = field(default=(), converter=_texts)
    tests_run: tuple[str, ...] = field(default=(), converter=_texts)
    risks: tuple[str, ...] = field(default=(), converter=_texts)
    next_steps: tuple[str, ...] = field(default=(), converter=_texts)
    memory_summary: MemorySummary | None = None
    stage_summaries: tuple[StageSummary, ...] = field(default=(), converter=_stages)
    identity: Identity | None = None
    execution: Json | None = field(default=None, converter=_maybe)
    """What it took, as the agent says: `tool_calls`, `messages`, `tools_used`."""
    cost: Json | None = field(default=None, converter=_maybe)
    """`estimated_usd`, `actual_usd`, `currency`, `tokens`. A bare number was an `actual_usd`."""
    context: Json | None = field(default=None, converter=_maybe)
    routing: Json | None = field(default=None, converter=_maybe)
    nonce: str = ""
    """Of the claim that it was built under."""
    more: Json = field(factory=dict[str, object], converter=_more)


@frozen(kw_only=True)
class ValidatorContract:
    """What came of judging a builder's work."""

    task_id: str
    validator: str
    status: ValidatorStatus = field(converter=ValidatorStatus)
    checks: tuple[Check, ...] = field(default=(), converter=_checks)
    issues: tuple[str, ...] = field(default=(), converter=_texts)
    retry_recommendation: Recommendation = field(default=Recommendation.NONE, converter=Recommendation)
    identity: Identity | None = None
    nonce: str = ""
    more: Json = field(factory=dict[str, object], converter=_more)
