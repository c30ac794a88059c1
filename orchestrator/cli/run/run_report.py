"""What is said when a run has ended: a table, what failed and where, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote

from attrs import define, field

from harnesses.diagnostics.uncaught_errors import crash_behind, crash_text, line_of
from orchestrator.cli.exit_codes import ExitCode, of_error, of_outcome, of_run
from orchestrator.cli.std_streams import say
from orchestrator.errors import (
    ApprovalDenied,
    BudgetExhausted,
    HarnessFailed,
    Latched,
    NoRestart,
    OrchestratorError,
    OwnershipError,
    StoreError,
    UnknownOutcome,
    UsageError,
    Waiting,
)
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.text.command_hints import for_store, store_option
from orchestrator.text.terminal_text import CAUSE_WIDTH, inert, one_line
from orchestrator.text.value_lines import columns

_ROWS = 40
_RESUMABLE = frozenset((ExitCode.STOPPED, ExitCode.FAILED, ExitCode.BLOCKED, ExitCode.UNKNOWN))
_TRACEBACKS = 3
_EXPLAINED = (OwnershipError, StoreError, UsageError, NoRestart, Waiting, ApprovalDenied, BudgetExhausted)
"""Errors whose message says what is wrong and what to do; the traceback of a harness's is in the store."""


def say_error(error: BaseException, *, with_traceback: bool) -> None:
    """Say what is wrong with a program, in a line, and after it the traceback if that is wanted."""
    say(f"orchestrator: {one_line(line_of(error), 2000)}")
    if with_traceback:
        say(inert(crash_text(error)))


@define
class Result:
    """How a run ended."""

    outcomes: dict[str, Outcome] = field(factory=dict[str, Outcome])
    errors: list[BaseException] = field(factory=list[BaseException])
    """What the orchestrator raised, without groups around it."""
    signalled: int | None = None
    script_error: BaseException | None = None
    """What a script's `supervise()` raised."""
    script_exit: SystemExit | None = None
    """It raised this: it wants an exit code of its own."""

    @property
    def besides(self) -> list[BaseException]:
        """What failed and is in no outcome."""
        told = {id(outcome.error) for outcome in self.outcomes.values()}
        return [error for error in self.errors if id(error) not in told and not isinstance(error, HarnessFailed)]

    @property
    def code(self) -> int:
        """The exit code."""
        codes = [of_error(error) for error in self.besides]
        if self.script_error is not None:
            own = of_error(self.script_error)
            # Whatever a script raises is a failure of its code, however it was called.
            codes.append(ExitCode.FAILED if own is ExitCode.USAGE else own)
        return of_run(self.outcomes.values(), codes, self.signalled)


def report(result: Result, *, quiet: bool, file: Path, store: Path, tracebacks: bool = False, is_worker: bool = False) -> int:
    """Say how the run ended and return the exit code.

    Args:
        tracebacks: whether to show those of errors whose message says what to do, too.
        is_worker: whether the program above says how all harnesses ended.
    """
    if quiet or not is_worker:
        for text in failures(result.outcomes) if quiet else summary(result.outcomes):
            say(for_store(text, store))
    for error in result.besides:
        if isinstance(error, OrchestratorError):
            say(for_store(f"orchestrator: {one_line(str(error), 2000)}", store))
    script_error = result.script_error
    if script_error is not None and crash_behind(script_error) is None:
        say(for_store(f"orchestrator: {one_line(line_of(script_error), 2000)}", store))
    for error in _all_errors(result) if tracebacks else _with_tracebacks(result):
        say(inert(crash_text(error)))
    if not quiet and not is_worker:
        for text in ways_on(result.outcomes, file, store):
            say(text)
    return result.code


def summary(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield a table of how the harnesses ended; of very many, those that did not end well first."""
    if not outcomes:
        yield "no harness was started"
        return
    rows = list(outcomes.items())
    if len(rows) > _ROWS:
        rows.sort(key=lambda row: of_outcome(row[1]) == ExitCode.OK)
    yield from columns(("HARNESS", "OUTCOME", "STEP", "ATTEMPT", "CAUSE"), (_cells(*row) for row in rows[:_ROWS]))
    if len(rows) > _ROWS:
        yield f"and {len(rows) - _ROWS} more: see `orchestrator status`"


def ways_on(outcomes: Mapping[str, Outcome], file: Path, store: Path) -> Iterator[str]:
    """Yield what a person does so that harnesses go on which did not come to their end."""
    where = store_option(store)
    errors = [outcome.error for outcome in outcomes.values()]
    if any(isinstance(error, UnknownOutcome) for error in errors):
        yield f"to find out what became of effects: orchestrator effects{where}"
        yield f"and to say so: orchestrator effects settle{where} NAME KEY --as done|not-done --reason TEXT"
    if any(isinstance(error, ApprovalDenied) for error in errors):
        yield f"to have asked anew what was denied: orchestrator approvals{where} --all, then its `reopen ID`"
    if any(isinstance(error, Latched) for error in errors):
        yield f"to let effects begin again: orchestrator kill-switch{where}, then orchestrator kill-switch off{where}"
    if any(outcome.kind is OutcomeKind.BUDGET_SPENT for outcome in outcomes.values()):
        yield f"to go on with a budget that is spent: raise it in {quote(str(file))}"
    if {of_outcome(outcome) for outcome in outcomes.values()} & _RESUMABLE:
        yield f"to go on: orchestrator run {quote(str(file))}{where}"


def failures(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Yield a line for each harness that failed, or that waits for a person."""
    for name, outcome in outcomes.items():
        if not outcome.ok or outcome.kind is OutcomeKind.BLOCKED:
            yield f"orchestrator: harness {name!r} {one_line(str(outcome), 2000)}"


def _cells(name: str, outcome: Outcome) -> tuple[str, ...]:
    kind = outcome.kind.replace("_", " ")
    return name, kind, str(outcome.step), str(outcome.attempt), one_line(outcome.cause, CAUSE_WIDTH)


def _with_tracebacks(result: Result) -> Iterator[BaseException]:
    """Yield the errors of code: what the first few harnesses raised, what `supervise` did, and what is a defect of ours."""
    errors = [outcome.error for outcome in result.outcomes.values() if outcome.error is not None]
    yield from [error for error in errors if not isinstance(error, _EXPLAINED)][:_TRACEBACKS]
    yield from (error for error in result.besides if not isinstance(error, OrchestratorError))
    if result.script_error is not None and crash_behind(result.script_error) is not None:
        yield result.script_error


def _all_errors(result: Result) -> Iterator[BaseException]:
    errors = [outcome.error for outcome in result.outcomes.values() if outcome.error is not None]
    yield from errors[:_TRACEBACKS]
    yield from result.besides
    if result.script_error is not None:
        yield result.script_error
