"""What a harness is, and the ready-made ones. Nothing here knows who runs it."""

from harnesses.agent import Agent, AgentRun
from harnesses.base import BaseHarness
from harnesses.budget import Budget, Spend
from harnesses.config import HarnessConfig
from harnesses.control import Control, Ending
from harnesses.effects import Confirmed, Effect, EffectOutcome, NotDone, Undecided
from harnesses.errors import (
    BudgetExhausted,
    DeadlineExceeded,
    HarnessError,
    HarnessMisuse,
    Latched,
    NoRestart,
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
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import PersistentState
from harnesses.step import Constraints, LoadedContext, StateDelta, Step, StepYield

__all__ = [
    "Agent",
    "AgentRun",
    "BaseHarness",
    "Budget",
    "BudgetExhausted",
    "Confirmed",
    "Constraints",
    "Control",
    "DeadlineExceeded",
    "Effect",
    "EffectOutcome",
    "Ending",
    "HarnessConfig",
    "HarnessError",
    "HarnessMisuse",
    "Latched",
    "LoadedContext",
    "LocalRuntime",
    "NoRestart",
    "NotDone",
    "OrchestratorError",
    "PersistentState",
    "Refused",
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
    "Waiting",
]
