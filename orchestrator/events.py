"""Lifecycle events of a harness. Plain values: the recorder adds time and `seq`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeAlias, get_args

from attrs import frozen
from msgspec import Struct, field

USUAL_CONTEXT = 10
"""Default of `max_context_steps`; also the meaning of a record without that field."""


class Started(Struct, frozen=True, omit_defaults=True):
    """An attempt began. `max_context_steps` is recorded only if it differs from the default."""

    kind: ClassVar[str] = "started"
    # omit_defaults never omits a field with a default_factory, so this one is always recorded.
    after_step: int = field(default_factory=int)
    """The last recorded step, after which the attempt continues."""
    max_context_steps: int = USUAL_CONTEXT
    """How many of its last steps the harness uses as context; pruning keeps at least as many."""
    paused: bool = False
    """Whether the attempt starts paused, because of an earlier pause."""
    supervisor: str = ""
    """Path of the supervisor that it is below, such as `desk/fx`; empty for the root."""


@frozen
class Paused:
    """An operator asked the harness to wait at its next step boundary."""

    kind: ClassVar[str] = "paused"


@frozen
class Resumed:
    """An operator resumed the harness."""

    kind: ClassVar[str] = "resumed"


@frozen
class Failed:
    """An attempt ended with an error."""

    kind: ClassVar[str] = "failed"
    error: str
    """Name of the error's class."""
    cause: str
    """The error message."""
    traceback: str = ""
    paused: bool = False
    """Whether the harness was paused, and starts paused next time."""


@frozen
class Restarting:
    """The supervisor will start another attempt."""

    kind: ClassVar[str] = "restarting"
    cause: str
    delay_s: float
    due: float
    """Wall time of the next attempt, seconds since 1970; a restarted program uses it."""
    restarts: tuple[float, ...] = ()
    """Wall times of the restarts that count towards the intensity, oldest first, including this one."""
    paused: bool = False
    """Whether the next attempt starts paused."""


class Completed(Struct, frozen=True, omit_defaults=True):
    """`is_complete()` returned true."""

    kind: ClassVar[str] = "completed"
    cause: str = ""
    """What came of the work; see `BaseHarness.conclusion`."""


class Finished(Struct, frozen=True, omit_defaults=True):
    """`execute()` returned."""

    kind: ClassVar[str] = "finished"
    cause: str = ""
    """What came of the work; see `BaseHarness.conclusion`."""


@frozen
class Stopped:
    """The harness was told to stop, and did."""

    kind: ClassVar[str] = "stopped"
    cause: str = ""
    paused: bool = False
    """Whether the harness was paused, and starts paused next time."""
    program_ended: bool = False
    """Whether the whole program ended. The next run then keeps the harness's restart count and its remaining back-off."""


@frozen
class GaveUp:
    """The harness crashed more often than its intensity allows."""

    kind: ClassVar[str] = "gave_up"
    cause: str
    restarts: int
    period_s: float


@frozen
class Blocked:
    """The harness cannot continue without human action."""

    kind: ClassVar[str] = "blocked"
    cause: str = ""


@frozen
class BudgetSpent:
    """The harness used up its budget."""

    kind: ClassVar[str] = "budget_spent"
    cause: str = ""


@frozen
class Forked:
    """The harness was created with steps of another one, up to a given step, as its history. It has not been started yet."""

    kind: ClassVar[str] = "forked"
    origin: str
    """Name of the harness that was forked."""
    origin_step: int
    """The last step that was copied; 0 if none was."""
    origin_seq: int = 0
    """`seq` of the record of that step."""
    origin_run: str = ""
    """The run that recorded that step."""
    origin_store: str = ""
    """Path of the store that holds the forked harness; empty if it is the same store."""
    cause: str = ""
    model: str = ""
    """The model that its model agents ask instead of their own; empty for their own."""
    rounds: int = 0
    """How many model calls of the step after `origin_step` were copied, and are not made again."""


Event: TypeAlias = (
    Started | Paused | Resumed | Failed | Restarting | Completed | Finished | Stopped | GaveUp | Blocked | BudgetSpent | Forked
)

EVENTS: tuple[type[Event], ...] = get_args(Event)
Exhausted = Finished
"""Earlier name of `Finished`."""
EARLIER_KINDS: Mapping[str, str] = {"exhausted": Finished.kind}
"""Kinds that earlier versions wrote, each with its current word. Records stay as they were written, since seals cover them."""


def current_kind(kind: str) -> str:
    """Return the current word for the kind of a record, whichever version wrote the record."""
    return EARLIER_KINDS.get(kind, kind)


def stored_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return these kinds together with their earlier words, for queries on stored records."""
    wanted = tuple(kinds)
    return (*wanted, *(earlier for earlier, kind in EARLIER_KINDS.items() if kind in wanted))
