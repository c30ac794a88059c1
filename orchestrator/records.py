"""What readers return: committed steps, records of any kind, and what is known of a harness."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from attrs import field, frozen

from harnesses.data.large_values import StoredFile
from harnesses.effects.approval import Case
from harnesses.effects.effect import OPEN, EffectOutcome
from harnesses.step import StateDelta
from orchestrator.events import current_kind
from orchestrator.lifecycle import Status

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    RecordInputT = TypeVar("RecordInputT", covariant=True, default=Any)
    RecordOutputT = TypeVar("RecordOutputT", covariant=True, default=Any)
else:
    # Type checkers know defaults of type variables; the `TypeVar` of Python 3.11 has none.
    from typing import TypeVar

    RecordInputT = TypeVar("RecordInputT", covariant=True)
    RecordOutputT = TypeVar("RecordOutputT", covariant=True)


@frozen
class StepRecord(Generic[RecordInputT, RecordOutputT]):
    """A committed step: the fields of `Step`, with its place in the store. Without type arguments they are plain data."""

    harness: str
    attempt: int
    seq: int
    step_number: int
    timestamp: datetime
    input: RecordInputT
    output: RecordOutputT
    state_delta: StateDelta


FIRST_HEADER = ("timestamp", "level", "event", "run", "harness", "attempt", "step", "seq")
"""Fields that every line of the log has, whatever the kind of its record, and the version that wrote it."""
HEADER = (*FIRST_HEADER, "schema", "service", "host", "message")
"""Fields that every line of this version has."""
LIMITS_SET = "limits_set"
"""Kind of the records of time limits that an operator has set for a harness."""
ORDERED = "ordered"
"""Kind of the records of who has given an order that leaves no name by itself."""
SUPERVISOR = "supervisor"
"""Kind of the records of supervisors that a program has."""
RELOADED = "reloaded"
"""Kind of the records of run files that a running program has read again."""


@frozen
class Record:
    """A committed record: a step, a lifecycle event or a message."""

    seq: int
    harness: str
    """Name of the harness; empty if the record concerns all harnesses."""
    attempt: int
    step: int
    time_us: int
    kind: str = field(converter=current_kind)
    """`step`, `message`, `intent`, `outcome`, `output`, `latch`, `limits_set`, `loop_blocked`, or the `kind` of an event."""
    body: str
    """Body of the record, a JSON object."""
    run: str = ""
    """The run that wrote it; empty for messages."""

    @property
    def timestamp(self) -> datetime:
        """Wall time of the record."""
        return datetime.fromtimestamp(self.time_us / 1e6, UTC)


@frozen
class EffectRecord:
    """The known history of one effect."""

    harness: str
    step_number: int
    """Number of the step it belongs to, recorded or in progress."""
    key: str
    attempt: int
    """The attempt that last began it."""
    seq: int
    """`seq` of its newest intent."""
    time_us: int
    outcome: EffectOutcome
    arguments: Any
    result: Any
    reason: str
    idempotent: bool
    keep: bool = False
    """Whether a call of it that is cut off is a result, which blocks nothing."""
    settled_by: str = ""
    """`operator` if a person settled the outcome."""
    file: StoredFile | None = None
    """The file with the result, if that is large; `result` is None then, and `Store.read_file` returns its JSON."""

    @property
    def is_open(self) -> bool:
        """Whether its outcome is unknown; for a running harness, it may be in progress."""
        return self.outcome in OPEN and not self.idempotent and not self.keep


@frozen
class ChildRecord:
    """A harness that another harness started, with the step that started it."""

    harness: str
    """Name of the parent."""
    step_number: int
    seq: int
    name: str
    """The child's durable name; empty if the record is damaged."""
    body: str
    """JSON object: `child`, `factory`, and its other start options."""
    status: Status | None = None
    """Status of the child; None if it has not begun."""
    harness_class: str = ""
    """Class of the child when it was last started."""


def name_in(body: str) -> str:
    """Return the child's name in the body of a `child` record; empty if there is none."""
    try:
        found: object = msgspec.json.decode(body)["child"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


@frozen
class ApprovalRecord:
    """All that is recorded of one approval request. `harnesses.effects.approval.stand` says whether it is valid."""

    id: str
    harness: str
    step_number: int
    """Number of the step that made the request, recorded or in progress."""
    seq: int
    """`seq` of the request."""
    time_us: int
    """Wall time of the request, microseconds since 1970."""
    case: Case


@frozen
class HarnessRecord:
    """The store's knowledge of one harness."""

    name: str
    status: Status
    attempt: int
    current_step: int
    harness_class: str
    owned: bool
    """Whether a living process is running it."""
    last_time_us: int
    event: dict[str, Any]
    """Fields of the last lifecycle event, such as the cause of a failure or the due time of a restart."""
