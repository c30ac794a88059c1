"""A harness that works on a list of features until a validator has proven each of them."""

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
from harnesses.features.feature_record import (
    Assignment,
    FeatureState,
    InitializerResult,
    InitPlan,
    InitStep,
    Iteration,
    IterationKind,
    IterationResult,
    IterationStatus,
    ProgressEntry,
    RunCounts,
    RunOutcome,
    RunStatus,
    SessionManifest,
    Shell,
)
from harnesses.features.feature_validators import OutcomeValidator, accept_all, all_of
from harnesses.features.health_checks import CommandHealthCheck, HealthCheck, NoHealthCheck
from harnesses.features.loop.feature_harness import FeatureHarness
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import NoHooks, Phase, PhaseHooks
from harnesses.features.planning.feature_selectors import FeatureSelector, FirstPending
from harnesses.features.run_policy import FailFast, OnExhausted, RunMode, RunPolicy
from harnesses.features.streaming import FeatureAgent, StreamingAgent, TurnObserver
from harnesses.turn_events import TurnEvent, TurnEventKind

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
    "Workplace",
    "accept_all",
    "all_of",
]
