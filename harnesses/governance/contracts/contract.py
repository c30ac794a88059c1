"""Value types of contracts: a builder's report on its work, and a validator's report on that. Pure.

A contract contains claims only. Nothing in it counts as evidence; observed facts are in the evidence ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from attrs import field, frozen

Json: TypeAlias = Mapping[str, object]
EvidenceItem: TypeAlias = str | Json
"""A path, a sentence, or an object that contains one."""


class BuilderStatus(StrEnum):
    """A builder's report on its own work."""

    PASS = "PASS"
    FAIL = "FAIL"
    BLOCKED = "BLOCKED"
    DONE_WITH_CONCERNS = "DONE_WITH_CONCERNS"

    @property
    def passing(self) -> bool:
        """Whether it reports the work as done, so that it must be complete."""
        return self in (BuilderStatus.PASS, BuilderStatus.DONE_WITH_CONCERNS)


class ValidatorStatus(StrEnum):
    """The result of a validation, or of one check in it."""

    PASS = "PASS"
    FAIL = "FAIL"


class Recommendation(StrEnum):
    """What a validator recommends next."""

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
    """Identity of a builder or validator."""

    name: str
    harness: str = ""
    """The agent program, such as "claude-code"."""
    model: str = ""
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)
    """Unknown fields: kept, written back, never acted on."""


@frozen
class Check:
    """The result of one check."""

    name: str
    status: ValidatorStatus = field(converter=ValidatorStatus)
    evidence: str = ""
    """What was observed."""
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)

    @property
    def ok(self) -> bool:
        """Whether the check passed."""
        return self.status is ValidatorStatus.PASS


def passed(name: str, evidence: str = "") -> Check:
    """Make a check that passed."""
    return Check(name, ValidatorStatus.PASS, evidence)


def failed(name: str, evidence: str) -> Check:
    """Make a check that failed, with the reason."""
    return Check(name, ValidatorStatus.FAIL, evidence)


@frozen
class StageSummary:
    """What was done in one stage."""

    stage_id: str
    agent_id: str = ""
    work_done: str = ""
    evidence: tuple[EvidenceItem, ...] = field(default=(), converter=_items)
    context_to_keep: tuple[str, ...] = field(default=(), converter=_texts)
    context_to_drop: tuple[str, ...] = field(default=(), converter=_texts)
    more: Json = field(factory=dict[str, object], converter=_more, kw_only=True)


@frozen
class MemorySummary:
    """Summary for later agents, in place of the whole transcript."""

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
    """A builder's report on its work."""

    task_id: str
    agent: str
    """Name of the builder, as it reports itself."""
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
    """Resources used, as the agent reports them: `tool_calls`, `messages`, `tools_used`."""
    cost: Json | None = field(default=None, converter=_maybe)
    """Cost with the fields `estimated_usd`, `actual_usd`, `currency`, `tokens`. A bare number is read as `actual_usd`."""
    context: Json | None = field(default=None, converter=_maybe)
    routing: Json | None = field(default=None, converter=_maybe)
    nonce: str = ""
    """Nonce of the claim under which it was built."""
    more: Json = field(factory=dict[str, object], converter=_more)


@frozen(kw_only=True)
class ValidatorContract:
    """A validator's report on a builder's work."""

    task_id: str
    validator: str
    status: ValidatorStatus = field(converter=ValidatorStatus)
    checks: tuple[Check, ...] = field(default=(), converter=_checks)
    issues: tuple[str, ...] = field(default=(), converter=_texts)
    retry_recommendation: Recommendation = field(default=Recommendation.NONE, converter=Recommendation)
    identity: Identity | None = None
    nonce: str = ""
    more: Json = field(factory=dict[str, object], converter=_more)
