"""Every exception of the project. The class says whose fault it is, the message what to do.

    OrchestratorError
    ├── HarnessError                 a harness broke a rule: its author can fix it
    │   ├── ScopeError               a cancel scope or nursery left open, or a `yield` during clean-up
    │   ├── NoRestart                no restart can help: the harness fails at once
    │   │   ├── HarnessMisuse        a call at the wrong moment, or with a wrong value
    │   │   │   └── GuardrailError   an invalid guardrail
    │   │   ├── StateError           a change returned no usable state
    │   │   ├── Unstorable           a value that cannot be put on disk and read back
    │   │   │   └── RecordTooLarge   … for one record is larger than `max_record_bytes`
    │   │   ├── InvalidRequest       an invalid feature list or policy; see `harnesses.features.errors`
    │   │   └── PipelineInvalid      invalid stages or tasks
    │   ├── FeatureError             … and the other five kinds of errors of feature lists
    │   ├── ContractError            a builder's or validator's contract is not valid, with the path of each mistake
    │   │   └── NotClaimed           … because it does not belong to the attempt in progress
    │   ├── EvidenceError            an invalid entry of the evidence ledger
    │   ├── NoProgressMade           the same output again and again: the harness is restarted
    │   ├── MemoryUnusable           the file of an episodic memory cannot be used
    │   │   └── EmbedderMissing      … because the package for text embeddings is not installed
    │   ├── Refused                  an effect was refused: it has certainly not happened
    │   │   └── ApprovalDenied       … by a person: a harness that does not catch it is blocked
    │   ├── EffectFailed             an effect with `errors="keep"` has raised: that is its recorded result
    │   │   └── EffectInterrupted    … or was cut off: it may have happened
    │   ├── Waiting                  human action is needed: the harness is blocked
    │   │   ├── NotReady             a program or package is not installed
    │   │   ├── UnknownOutcome       it is unknown whether an effect has happened
    │   │   ├── Latched              the kill switch is on: no effect may begin
    │   │   ├── GuardrailTripped     a guardrail has been reached
    │   │   ├── ApprovalExpired      a request was not answered in time
    │   │   └── ApprovalInvalid      the records of an approval cannot be trusted
    │   ├── BudgetExhausted          a budget does not allow a spend
    │   ├── MailboxFull              a mailbox is at its limit; nothing was sent
    │   ├── AskTimeout               no reply came in time
    │   ├── StepTimeout              no `yield` within `step_timeout_s`
    │   └── DeadlineExceeded         not finished by `deadline_s`
    ├── UsageError                   the caller passed something invalid: a name, a run file, an option
    │   ├── StateChanged             a state class that has changed shape, without a migration
    │   ├── UnknownHarness           there is no harness of that name
    │   └── AlreadyRunning           a harness of that name is running in this orchestrator
    ├── HarnessFailed                a harness crashed and is not restarted (in the `ExceptionGroup` at the end)
    │   └── GaveUp                   … because it crashed too often
    ├── StoreError                   the environment failed: disk, file, lock. Nothing acknowledged is lost
    │   ├── StoreUnusable            not a database, not ours, newer than this program, read-only
    │   ├── StoreCorrupt             the file contradicts itself
    │   ├── StoreBusy                another process held the write lock for too long
    │   └── StoreLost                a commit failed: all harnesses stop
    ├── OwnershipError
    │   ├── OwnedElsewhere           a living process runs that harness
    │   └── OwnershipLost            another process took that harness over
    ├── SystemTaskFailed             a callback or system task of Trio raised: Trio ends the program
    └── IllegalTransition            an event that is not allowed: a defect of this program

The first branch, `UsageError` and `UnknownHarness` are defined in `harnesses.errors`, which does not depend on this package.
"""

from __future__ import annotations

from typing import ClassVar

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
    RecordTooLarge,
    Refused,
    ScopeError,
    StateError,
    StepTimeout,
    Stopping,
    UnknownHarness,
    UnknownOutcome,
    Unstorable,
    UsageError,
    Waiting,
)

__all__ = [
    "AlreadyRunning",
    "ApprovalDenied",
    "ApprovalExpired",
    "ApprovalInvalid",
    "AskTimeout",
    "BudgetExhausted",
    "DeadlineExceeded",
    "EffectFailed",
    "EffectInterrupted",
    "GaveUp",
    "HarnessError",
    "HarnessFailed",
    "HarnessMisuse",
    "IllegalTransition",
    "Latched",
    "MailboxFull",
    "NoRestart",
    "NotReady",
    "OrchestratorError",
    "OwnedElsewhere",
    "OwnershipError",
    "OwnershipLost",
    "RecordTooLarge",
    "Refused",
    "ScopeError",
    "StateChanged",
    "StateError",
    "StepTimeout",
    "Stopping",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreLost",
    "StoreUnusable",
    "SystemTaskFailed",
    "UnknownHarness",
    "UnknownOutcome",
    "Unstorable",
    "UsageError",
    "Waiting",
]


class StateChanged(UsageError):
    """The stored state does not fit its class, and no migration converts it. The record is unchanged."""


class AlreadyRunning(UsageError):
    """A harness of that name is already running in this orchestrator."""


class HarnessFailed(OrchestratorError):
    """A harness crashed and is not restarted. `__cause__` is the error that it raised."""

    is_explained: ClassVar[bool] = False


class GaveUp(HarnessFailed):
    """A harness crashed more often than its intensity allows."""


class StoreError(OrchestratorError):
    """The store cannot carry out an operation."""


class StoreUnusable(StoreError):
    """The file cannot be used as a store. It was left unchanged."""


class StoreCorrupt(StoreError):
    """The file contradicts itself."""


class StoreBusy(StoreError):
    """Another process held the store's write lock for too long. Nothing was written."""


class StoreLost(StoreError):
    """A commit failed while steps waited for it: none of them counts as recorded, and all harnesses stop."""


class OwnershipError(OrchestratorError):
    """Two processes tried to run the same harness."""


class OwnedElsewhere(OwnershipError):
    """A living process runs that harness; this process did not start it."""


class OwnershipLost(OwnershipError):
    """Another process took the harness over; this process can no longer append to it."""


class SystemTaskFailed(OrchestratorError):
    """A `run_sync_soon` callback or a system task raised, so Trio ends the program. `__cause__` is the error it raised."""

    is_explained: ClassVar[bool] = False

    def __init__(self, text: str, told: str = "") -> None:
        super().__init__(text)
        self.told = told or text
        """Which code raised which error, without the remedy."""


class IllegalTransition(OrchestratorError):
    """An event is not allowed in the status that a harness has."""

    is_explained: ClassVar[bool] = False
