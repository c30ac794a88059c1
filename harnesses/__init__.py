"""What a harness is, and the ready-made ones. Nothing here knows who runs it."""

from harnesses.agent import Agent, AgentRun
from harnesses.base import BaseHarness
from harnesses.config import HarnessConfig
from harnesses.control import Control, Ending
from harnesses.errors import (
    DeadlineExceeded,
    HarnessError,
    HarnessMisuse,
    OrchestratorError,
    ScopeError,
    StateError,
    StepTimeout,
    Stopping,
    Unstorable,
)
from harnesses.runtime import LocalRuntime, Runtime
from harnesses.state import PersistentState
from harnesses.step import Constraints, LoadedContext, StateDelta, Step, StepYield

__all__ = [
    "Agent",
    "AgentRun",
    "BaseHarness",
    "Constraints",
    "Control",
    "DeadlineExceeded",
    "Ending",
    "HarnessConfig",
    "HarnessError",
    "HarnessMisuse",
    "LoadedContext",
    "LocalRuntime",
    "OrchestratorError",
    "PersistentState",
    "Runtime",
    "ScopeError",
    "StateDelta",
    "StateError",
    "Step",
    "StepTimeout",
    "StepYield",
    "Stopping",
    "Unstorable",
]
