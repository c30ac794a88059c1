"""The harness base class and the ready-made harnesses. This package does not depend on the orchestrator."""

from typing import TYPE_CHECKING

from harnesses.lazy_exports import lazy as _lazy
from harnesses.renamed import install as _install_renamed

if TYPE_CHECKING:
    from harnesses.agent import Agent, AgentRun
    from harnesses.base import BaseHarness
    from harnesses.budgets.budget import Budget, Spend
    from harnesses.budgets.usage import Usage
    from harnesses.config import HarnessConfig
    from harnesses.control import Control, Ending
    from harnesses.data.migrations import migrates
    from harnesses.effects.approval import Action, Category, Grant
    from harnesses.effects.effect import Confirmed, Effect, EffectOutcome, NotDone, Undecided
    from harnesses.errors import (
        ApprovalDenied,
        ApprovalExpired,
        ApprovalInvalid,
        AskTimeout,
        BudgetExhausted,
        DeadlineExceeded,
        EffectFailed,
        EffectInterrupted,
        HarnessError,
        HarnessMisuse,
        Latched,
        MailboxFull,
        NoRestart,
        NotReady,
        OrchestratorError,
        Refused,
        ScopeError,
        StateError,
        StepTimeout,
        Stopping,
        UnknownOutcome,
        Unstorable,
        Waiting,
    )
    from harnesses.governor import Finding, Governor
    from harnesses.messages.requests import Request, query
    from harnesses.runtime import LocalRuntime, Runtime
    from harnesses.state import PersistentState
    from harnesses.step import Constraints, LoadedContext, StateDelta, Step, StepYield
else:
    __getattr__, __dir__ = _lazy(
        __name__,
        {
            "harnesses.agent": "Agent AgentRun",
            "harnesses.base": "BaseHarness",
            "harnesses.budgets.budget": "Budget Spend",
            "harnesses.budgets.usage": "Usage",
            "harnesses.config": "HarnessConfig",
            "harnesses.control": "Control Ending",
            "harnesses.data.migrations": "migrates",
            "harnesses.effects.approval": "Action Category Grant",
            "harnesses.effects.effect": "Confirmed Effect EffectOutcome NotDone Undecided",
            "harnesses.errors": (
                "ApprovalDenied ApprovalExpired ApprovalInvalid AskTimeout BudgetExhausted DeadlineExceeded "
                "EffectFailed EffectInterrupted HarnessError HarnessMisuse Latched MailboxFull NoRestart NotReady "
                "OrchestratorError Refused ScopeError StateError StepTimeout Stopping UnknownOutcome Unstorable "
                "Waiting"
            ),
            "harnesses.governor": "Finding Governor",
            "harnesses.messages.requests": "Request query",
            "harnesses.runtime": "LocalRuntime Runtime",
            "harnesses.state": "PersistentState",
            "harnesses.step": "Constraints LoadedContext StateDelta Step StepYield",
        },
    )

_install_renamed()

__all__ = [
    "Action",
    "Agent",
    "AgentRun",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalInvalid",
    "AskTimeout",
    "BaseHarness",
    "Budget",
    "BudgetExhausted",
    "Category",
    "Confirmed",
    "Constraints",
    "Control",
    "DeadlineExceeded",
    "Effect",
    "EffectFailed",
    "EffectInterrupted",
    "EffectOutcome",
    "Ending",
    "Finding",
    "Governor",
    "Grant",
    "HarnessConfig",
    "HarnessError",
    "HarnessMisuse",
    "Latched",
    "LoadedContext",
    "LocalRuntime",
    "MailboxFull",
    "NoRestart",
    "NotDone",
    "NotReady",
    "OrchestratorError",
    "PersistentState",
    "Refused",
    "Request",
    "Runtime",
    "ScopeError",
    "Spend",
    "StateDelta",
    "StateError",
    "Step",
    "StepTimeout",
    "StepYield",
    "Stopping",
    "Undecided",
    "UnknownOutcome",
    "Unstorable",
    "Usage",
    "Waiting",
    "migrates",
    "query",
]
