"""What can go wrong inside a harness. The class says whose fault it is; the whole tree is drawn in `orchestrator.errors`."""

from __future__ import annotations

from collections.abc import Iterable


class OrchestratorError(Exception):
    """Base of every error this project raises on purpose."""


class UsageError(OrchestratorError):
    """The caller asked for something that cannot be: a name, a file, an option."""


class UnknownHarness(UsageError):
    """There is no harness of that name: not in the store, or not beside one that runs alone."""


class HarnessError(OrchestratorError):
    """A harness broke a rule of the programming model. The harness's author can mend it."""


class NoRestart(HarnessError):
    """What is wrong stays wrong however often the harness is started: it fails at once, whatever its `restart` says."""


class HarnessMisuse(NoRestart):
    """A method was called at a moment, or with a value, that the model does not allow."""


class StateError(NoRestart):
    """`update_state` was given a change that returned no usable state."""


class Unstorable(NoRestart):
    """A state, an input or an output holds something that cannot be put on disk and read back."""


class RecordTooLarge(Unstorable):
    """Something is larger than one record may be, `max_record_bytes`. Nothing of it was written."""


class ScopeError(HarnessError):
    """`execute()` left one of Trio's cancel scopes or nurseries in a condition that cannot go on."""


class StepTimeout(HarnessError):
    """A step took longer than the harness's `step_timeout_s`."""


class DeadlineExceeded(HarnessError):
    """A harness, or the whole run, took longer than its `deadline_s`."""


class MailboxFull(HarnessError):
    """As many messages as its limit allows wait in a mailbox. Nothing was sent."""


class AskTimeout(HarnessError):
    """Nobody has replied in time. The request may still be handled; its reply is dropped then."""


class Refused(HarnessError):
    """The world has said no to an effect: it has not happened, and that is certain. Raise it, or a subclass, in an effect.

    Any other error leaves open whether the effect has happened.
    """


class Waiting(HarnessError):
    """A harness cannot go on until a person has done something. Let it pass: the outcome is then "blocked", not a crash."""


class NotReady(Waiting):
    """Something the harness needs is not installed: a program, a package. It is blocked until a person has installed it."""


class UnknownOutcome(Waiting):
    """It is not known whether an effect has happened, and nobody could say. It is not tried again blindly."""


class Latched(Waiting):
    """The kill switch is on: no effect may begin."""


class ApprovalDenied(Refused):
    """A person has said no to an action. It is not done, and not asked for again in its step. Catch it to do without: a
    harness that lets it pass is blocked, until a person reopens the request and starts the harness again."""


class ApprovalExpired(Waiting):
    """Nobody has answered in time, or what was approved was not done in time. Started again, the harness asks anew."""


class ApprovalInvalid(Waiting):
    """What is on record of an approval is malformed, or not genuine. Nothing is done with it."""


class BudgetExhausted(HarnessError):
    """A budget does not allow a spend. Nothing was spent. Let it pass: the outcome is then "budget spent", not a crash."""


class Stopping(BaseException):
    """Unwinds `execute()` out of one of the harness's own waits (`sleep`, `every`, `receive`) because it is to stop.

    Not an `Exception`, so that `except Exception` in a harness lets it pass. Clean-up that it runs through may await: it
    has the grace period.
    """


_OURS: tuple[type[HarnessError], ...] = (
    HarnessError,
    NoRestart,
    HarnessMisuse,
    MailboxFull,
    AskTimeout,
    StateError,
    Unstorable,
    RecordTooLarge,
    ScopeError,
    StepTimeout,
    DeadlineExceeded,
    Waiting,
    NotReady,
    UnknownOutcome,
    Latched,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalInvalid,
    BudgetExhausted,
)


def located(error: BaseException, where: str) -> BaseException:
    """Return one of our errors with the harness and step it belongs to in its message; any other as it is."""
    if type(error) not in _OURS or str(error).startswith("harness "):
        return error
    text = str(error)
    named = type(error)(f"{where}: {text}")
    named.__cause__, named.__traceback__ = error.__cause__, error.__traceback__
    return named


def one_of(names: Iterable[object], none: str) -> str:
    """Return `expected one of` these.

    Args:
        none: what is said instead where there are none: that, and what to do.
    """
    known = ", ".join(map(str, names))
    return f"expected one of {known}" if known else none
