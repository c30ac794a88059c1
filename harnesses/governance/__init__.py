"""Governance: nothing counts as done on words alone. Opt-in for each harness; nothing here calls a model.

contracts           what builders and validators hand in, from and to JSON
completeness        whether work that is said to be done is complete, and who may say so
evidence_ledger     entries: graded, bound to content, stale when that changes
evidence_policy     which evidence a pass needs
attempt_verdict     the attempt under way, the verdict on it, and what follows from that
guardrails          limits that are held by code, and how they are read
counted_agent       tool calls and messages of an agent, counted by us and stopped at the limit
guardrail_watch     a governor that holds them, step by step, for any harness
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
