"""Governance: work counts as done only with evidence, and limits are enforced by code. Opt-in; no model is called.

contracts           the reports of builders and validators, from and to JSON
completeness        whether work reported as done is complete, and whether its validator is independent
evidence_ledger     evidence entries: graded, bound to file content, stale when that changes
evidence_policy     which evidence a pass needs
attempt_verdict     the attempt in progress, the verdict on it, and the decision that follows
guardrails          limits enforced by code, and how they are read from tables
counted_agent       counts tool calls and messages of an agent, and stops it at the limit
guardrail_watch     a governor that enforces the limits step by step, for any harness
"""

from harnesses.governance.contracts.completeness import completeness, file_checks, independent
from harnesses.governance.contracts.contract import (
    BuilderContract,
    BuilderStatus,
    Check,
    Identity,
    MemorySummary,
    Recommendation,
    StageSummary,
    ValidatorContract,
    ValidatorStatus,
)
from harnesses.governance.contracts.contract_json import read_builder, read_validator, to_json
from harnesses.governance.errors import (
    ContractError,
    EvidenceError,
    GuardrailError,
    GuardrailTripped,
    NoProgressMade,
    NotClaimed,
)
from harnesses.governance.evidence.attempt_verdict import (
    Claim,
    Decision,
    Retry,
    TaskStatus,
    check_claimed,
    decide,
    feedback,
    follow,
    judge,
    quality,
    refused_claim,
    stamped,
    unreadable,
)
from harnesses.governance.evidence.evidence_ledger import (
    Evidence,
    EvidenceStatus,
    Grade,
    read_entry,
    read_ledger,
    read_reported,
    reported,
    stale,
)
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.evidence.file_binding import Bound, bind
from harnesses.governance.limits.counted_agent import (
    AgentStopped,
    LimitedAgent,
    Tally,
    counted,
    limited,
    tallying,
    telemetry_checks,
)
from harnesses.governance.limits.guardrail_watch import Watch, terms
from harnesses.governance.limits.guardrails import Guardrails, NoProgress, read_guardrails, read_together

__all__ = [
    "AgentStopped",
    "Bound",
    "BuilderContract",
    "BuilderStatus",
    "Check",
    "Claim",
    "ContractError",
    "Decision",
    "Evidence",
    "EvidenceError",
    "EvidencePolicy",
    "EvidenceStatus",
    "Grade",
    "GuardrailError",
    "GuardrailTripped",
    "Guardrails",
    "Identity",
    "LimitedAgent",
    "MemorySummary",
    "NoProgress",
    "NoProgressMade",
    "NotClaimed",
    "Recommendation",
    "Retry",
    "StageSummary",
    "Tally",
    "TaskStatus",
    "ValidatorContract",
    "ValidatorStatus",
    "Watch",
    "bind",
    "check_claimed",
    "completeness",
    "counted",
    "decide",
    "feedback",
    "file_checks",
    "follow",
    "independent",
    "judge",
    "limited",
    "quality",
    "read_builder",
    "read_entry",
    "read_guardrails",
    "read_ledger",
    "read_reported",
    "read_together",
    "read_validator",
    "refused_claim",
    "reported",
    "stale",
    "stamped",
    "tallying",
    "telemetry_checks",
    "terms",
    "to_json",
    "unreadable",
]
