"""Governance: nothing counts as done on words alone. Opt-in for each harness; nothing here calls a model.

contracts      what builders and validators hand in, from and to JSON
completeness   whether work that is said to be done is complete, and who may say so
evidence       entries of the ledger: graded, bound to content, stale when that changes
policy         which evidence a pass needs
claiming       the attempt under way: what may be handed in for it, and whether another may begin
judging        the verdict on it
retry          what follows from the verdict
guardrails     limits that are held by code; guardrail_tables reads them
counting       tool calls and messages of an agent, counted by us and stopped at the limit
watching       a governor that holds them, step by step, for any harness
"""

from harnesses.governance.contracts.completeness import completeness, file_checks, independent
from harnesses.governance.contracts.contract_json import (
    BuilderContract,
    BuilderStatus,
    Check,
    Identity,
    MemorySummary,
    Recommendation,
    StageSummary,
    ValidatorContract,
    ValidatorStatus,
    read_builder,
    read_validator,
    to_json,
)
from harnesses.governance.errors import (
    ContractError,
    EvidenceError,
    GuardrailError,
    GuardrailTripped,
    NoProgressMade,
    NotClaimed,
)
from harnesses.governance.evidence.attempt_verdict import judge, quality, unreadable
from harnesses.governance.evidence.claims import Claim, check_claimed, refused_claim, stamped
from harnesses.governance.evidence.evidence_ledger import (
    Bound,
    Evidence,
    EvidenceStatus,
    Grade,
    bind,
    read_entry,
    read_ledger,
    read_reported,
    reported,
    stale,
)
from harnesses.governance.evidence.evidence_policy import EvidencePolicy
from harnesses.governance.evidence.retry_rule import Decision, Retry, TaskStatus, decide, feedback, follow
from harnesses.governance.limits.agent_counts import AgentStopped, Tally, tallying, telemetry_checks
from harnesses.governance.limits.counted_agent import LimitedAgent, counted, limited
from harnesses.governance.limits.guardrail_tables import read_guardrails, read_together
from harnesses.governance.limits.guardrail_watch import Watch, terms
from harnesses.governance.limits.guardrails import Guardrails, NoProgress

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
