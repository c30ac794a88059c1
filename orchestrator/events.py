"""What can happen to a harness. Values: they do not look around; the recorder stamps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, TypeAlias, get_args

from attrs import frozen
from msgspec import Struct, field

USUAL_CONTEXT = 10
"""What `max_context_steps` of a harness is unless it is said: a record that does not say so either means the same."""


class Started(Struct, frozen=True, omit_defaults=True):
    """An attempt began. Of its fields `max_context_steps` is on record only if it is not the usual one."""

    kind: ClassVar[str] = "started"
    # What a factory makes is never left out: it always was on record.
    after_step: int = field(default_factory=int)
    """The last recorded step, from which the attempt goes on."""
    max_context_steps: int = USUAL_CONTEXT
    """How many of its last steps the harness looks back at: pruning leaves as many."""
    paused: bool = False
    """Whether it is held from its beginning, by a pause of before."""


@frozen
class Paused:
    """An operator asked the harness to wait at its next step boundary."""

    kind: ClassVar[str] = "paused"


@frozen
class Resumed:
    """An operator let it go on."""

    kind: ClassVar[str] = "resumed"


@frozen
class Failed:
    """An attempt ended with an error."""

    kind: ClassVar[str] = "failed"
    error: str
    """Class of the error."""
    cause: str
    """Its message."""
    traceback: str = ""
    paused: bool = False
    """Whether it was held, and is to be held when it goes on."""


@frozen
class Restarting:
    """The supervisor will start another attempt."""

    kind: ClassVar[str] = "restarting"
    cause: str
    delay_s: float
    due: float
    """Wall time of the next attempt, seconds since 1970: what a restarted program goes by."""
    restarts: tuple[float, ...] = ()
    """Wall times of the restarts that count against the intensity, oldest first, this one included."""
    paused: bool = False
    """Whether it is to be held when it goes on."""


@frozen
class Completed:
    """`is_complete()` was true."""

    kind: ClassVar[str] = "completed"


@frozen
class Finished:
    """`execute()` returned."""

    kind: ClassVar[str] = "finished"


@frozen
class Stopped:
    """It was told to stop, and did."""

    kind: ClassVar[str] = "stopped"
    cause: str = ""
    paused: bool = False
    """Whether it was held, and is to be held when it goes on."""
    program_ended: bool = False
    """Whether the whole program ended: then it goes on as it was, with its restarts counted and its back-off to run."""


@frozen
class GaveUp:
    """It crashed more often than its intensity allows."""

    kind: ClassVar[str] = "gave_up"
    cause: str
    restarts: int
    period_s: float


@frozen
class Blocked:
    """It cannot go on until a person decides."""

    kind: ClassVar[str] = "blocked"
    cause: str = ""


@frozen
class BudgetSpent:
    """It used up what it was given."""

    kind: ClassVar[str] = "budget_spent"
    cause: str = ""


@frozen
class Forked:
    """It was made, with the steps of another harness up to one of them for its past; it has not been started yet."""

    kind: ClassVar[str] = "forked"
    origin: str
    """The name of the other one."""
    origin_step: int
    """The last of its steps that came along; 0 if none did."""
    origin_seq: int = 0
    """Of the record of that step."""
    origin_run: str = ""
    """The life of the program that wrote that step."""
    origin_store: str = ""
    """Where the other one is; empty if it is in the same store."""
    cause: str = ""


Event: TypeAlias = (
    Started | Paused | Resumed | Failed | Restarting | Completed | Finished | Stopped | GaveUp | Blocked | BudgetSpent | Forked
)

EVENTS: tuple[type[Event], ...] = get_args(Event)
Exhausted = Finished
"""Earlier name of `Finished`."""
EARLIER_KINDS: Mapping[str, str] = {"exhausted": Finished.kind}
"""Kinds that earlier versions wrote, each with its current word. Records stay as they were written, since seals cover them."""


def current_kind(kind: str) -> str:
    """Return the kind of a record as it is shown: its current word, whatever version wrote the record."""
    return EARLIER_KINDS.get(kind, kind)


def stored_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return these kinds and the earlier words for them: what to look for among stored records."""
    wanted = tuple(kinds)
    return (*wanted, *(earlier for earlier, kind in EARLIER_KINDS.items() if kind in wanted))
