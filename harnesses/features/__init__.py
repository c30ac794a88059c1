"""A list of features, worked until every one is proven."""

from harnesses.features.errors import (
    ChatFailed,
    FeatureError,
    FeatureErrorKind,
    HealthCheckFailed,
    InvalidRequest,
    MemoryFailed,
    NotReady,
    ValidationFailed,
)
from harnesses.features.feature import Feature, FeatureStatus, Standing, TurnResult, Verdict
from harnesses.features.harness import FeatureHarness
from harnesses.features.health import CommandHealthCheck, NoHealthCheck
from harnesses.features.hooks import NoHooks, Phase, PhaseHooks
from harnesses.features.manifest import InitializerResult, InitPlan, InitStep, SessionManifest, Shell
from harnesses.features.policy import FailFast, OnExhausted, RunMode, RunPolicy
from harnesses.features.protocols import FeatureSelector, HealthCheck, OutcomeValidator
from harnesses.features.record import (
    Assignment,
    FeatureState,
    Iteration,
    IterationKind,
    IterationResult,
    IterationStatus,
    ProgressEntry,
    RunCounts,
    RunOutcome,
    RunStatus,
)
from harnesses.features.selectors import FirstPending
from harnesses.features.streaming import FeatureAgent, StreamingAgent, TurnEvent, TurnEventKind, TurnObserver
from harnesses.features.validators import accept_all, all_of

__all__ = [
    "Assignment",
    "ChatFailed",
    "CommandHealthCheck",
    "FailFast",
    "Feature",
    "FeatureAgent",
    "FeatureError",
    "FeatureErrorKind",
    "FeatureHarness",
    "FeatureSelector",
    "FeatureState",
    "FeatureStatus",
    "FirstPending",
    "HealthCheck",
    "HealthCheckFailed",
    "InitPlan",
    "InitStep",
    "InitializerResult",
    "InvalidRequest",
    "Iteration",
    "IterationKind",
    "IterationResult",
    "IterationStatus",
    "MemoryFailed",
    "NoHealthCheck",
    "NoHooks",
    "NotReady",
    "OnExhausted",
    "OutcomeValidator",
    "Phase",
    "PhaseHooks",
    "ProgressEntry",
    "RunCounts",
    "RunMode",
    "RunOutcome",
    "RunPolicy",
    "RunStatus",
    "SessionManifest",
    "Shell",
    "Standing",
    "StreamingAgent",
    "TurnEvent",
    "TurnEventKind",
    "TurnObserver",
    "TurnResult",
    "ValidationFailed",
    "Verdict",
    "accept_all",
    "all_of",
]
