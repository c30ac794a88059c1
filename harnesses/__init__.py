"""What a harness is, and the ready-made ones. Nothing here knows who runs it."""

from harnesses.agent import Agent, AgentRun
from harnesses.approval import Action, Category, Grant
from harnesses.base import BaseHarness
from harnesses.budget import Budget, Spend
from harnesses.config import HarnessConfig
from harnesses.control import Control, Ending
from harnesses.effects import Confirmed, Effect, EffectOutcome, NotDone, Undecided
from harnesses.errors import (
    ApprovalDenied,
    ApprovalExpired,
    ApprovalInvalid,
    AskTimeout,
    BudgetExhausted,
    DeadlineExceeded,
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
from harnesses.migrations import migrates
from harnesses.requests import Request, query
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import PersistentState
from harnesses.step import Constraints, LoadedContext, StateDelta, Step, StepYield
from harnesses.usage import Usage

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
