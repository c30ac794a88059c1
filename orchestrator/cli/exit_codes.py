"""What the `orchestrator` command's exit code says. Pure.

0    ok                                     5     the store contradicts itself
1    a harness failed, or the world did     6     nobody knows whether an effect has happened
2    usage: nothing of it can be done       75    a living process runs the harness
3    stopped, and can be resumed            130   ended by SIGINT
4    waiting for a person                   143   ended by SIGTERM
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from orchestrator.errors import OwnershipError, StoreCorrupt, StoreLost, StoreUnusable, UnknownOutcome, UsageError
from orchestrator.outcome import Outcome, OutcomeKind


class EndedBySignal(SystemExit):
    """A signal that nobody else heeds ends the program."""

    def __init__(self, number: int) -> None:
        super().__init__(of_signal(number))


class ExitCode(IntEnum):
    """The codes that do not come from a signal."""

    OK = 0
    FAILED = 1
    USAGE = 2
    STOPPED = 3
    BLOCKED = 4
    INTEGRITY = 5
    UNKNOWN = 6
    OWNED_ELSEWHERE = 75


_KINDS = {
    OutcomeKind.COMPLETED: ExitCode.OK,
    OutcomeKind.FINISHED: ExitCode.OK,
    OutcomeKind.STOPPED: ExitCode.STOPPED,
    OutcomeKind.BUDGET_SPENT: ExitCode.STOPPED,
    OutcomeKind.BLOCKED: ExitCode.BLOCKED,
    OutcomeKind.FAILED: ExitCode.FAILED,
    OutcomeKind.GAVE_UP: ExitCode.FAILED,
}
_FIRST = (ExitCode.OWNED_ELSEWHERE, ExitCode.INTEGRITY, ExitCode.UNKNOWN)
"""What a signal does not hide: whoever ended the run knows that it was ended, and not that one of these is so."""
_THEN = (ExitCode.USAGE, ExitCode.FAILED, ExitCode.BLOCKED, ExitCode.STOPPED)


def of_signal(number: int) -> int:
    """Return the code of a program that a signal ended, as shells give it."""
    return 128 + number


def of_error(error: BaseException) -> ExitCode:
    """Return the code that an error stands for; of a chain, the first link that has one of its own."""
    seen, was_open = 0, False
    link: BaseException | None = error
    while link is not None and seen < 20:
        if isinstance(link, OwnershipError):
            return ExitCode.OWNED_ELSEWHERE
        if isinstance(link, StoreCorrupt):
            return ExitCode.INTEGRITY
        # A store that was lost while the run went on could be used to begin with.
        was_open = was_open or isinstance(link, StoreLost)
        if isinstance(link, StoreUnusable | UsageError) and not was_open:
            return ExitCode.USAGE
        link, seen = link.__cause__, seen + 1
    return ExitCode.FAILED


def of_outcome(outcome: Outcome) -> ExitCode:
    """Return the code that the end of one harness stands for."""
    if isinstance(outcome.error, UnknownOutcome):
        return ExitCode.UNKNOWN
    if outcome.ok or outcome.error is None:
        return _KINDS[outcome.kind]
    return of_error(outcome.error)


def of_run(outcomes: Iterable[Outcome], besides: Iterable[ExitCode] = (), signalled: int | None = None) -> int:
    """Return the code of a whole run: of all that apply, the one that must not be overlooked.

    Args:
        besides: what else went wrong.
        signalled: the signal that ended the run, if one did.
    """
    codes = {*map(of_outcome, outcomes), *besides}
    for code in _FIRST:
        if code in codes:
            return code
    if signalled is not None:
        return of_signal(signalled)
    return next((code for code in _THEN if code in codes), ExitCode.OK)
