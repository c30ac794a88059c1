"""`docs/reference/errors.md`: every class of errors, its cause, and what becomes of the harness that raises it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import harnesses
import orchestrator
from harnesses.errors import ApprovalDenied, BudgetExhausted, HarnessError, OrchestratorError, Stopping, Waiting
from orchestrator.cli.exit_codes import of_error, of_outcome
from orchestrator.errors import OwnershipError, StoreError
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.runtime.failure_events import is_lasting
from tests.docs.error_remedies import REMEDIES
from tests.docs.tables import rows

_HEAD = """\
# Errors

Every error that the project raises on purpose is an `OrchestratorError`. A message says what is wrong, with its place, what
was expected, and what to do. The classes for the author of a harness are in `harnesses.errors`, those for a program that runs
harnesses in `orchestrator.errors`, which has the first ones as well; the others are where the table says.

One of them that nothing catches is printed in one line, with the line of your code where that is known. A crash of your own
code keeps its traceback. `orchestrator run --traceback`, or `ORCHESTRATOR_TRACEBACK=1` in the environment, shows the traceback
of every error; a `harness.failed` line of the log has it in any case.

An error that leaves `execute()` decides what becomes of the harness:

| then | meaning |
|---|---|
| restarted | a crash: the [supervisor](../how-to/supervisors.md) starts another attempt, within `intensity` |
| fails | no restart can mend it: the outcome is `failed` at once |
| blocked | a person has to act: the outcome is `blocked`; `orchestrator start NAME` continues |
| budget spent | the outcome is `budget_spent` |
| - | it is raised to whoever calls, and does not come out of a harness |

Any error that is not in these tables is a crash, too. *Exit* is the [exit code](exit-codes.md) of a command, or of a run
that ends because of it.
"""
_SECTIONS = {
    "Raised by or in a harness": lambda cls: issubclass(cls, (HarnessError, Stopping)) and not issubclass(cls, Waiting),
    "A person has to act": lambda cls: issubclass(cls, Waiting),
    "The store and its owners": lambda cls: issubclass(cls, (StoreError, OwnershipError)),
    "Everything else": lambda cls: True,
}


def classes() -> list[type[BaseException]]:
    """Return every public class of errors, base classes first."""
    for package in (harnesses, orchestrator):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "in_process" not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found: dict[type[BaseException], None] = {}
    _collect(OrchestratorError, found)
    return [*found, Stopping]


def _collect(cls: type[BaseException], found: dict[type[BaseException], None]) -> None:
    if not cls.__name__.startswith("_") and cls.__module__.partition(".")[0] in ("harnesses", "orchestrator"):
        found.setdefault(cls)
    for child in sorted(cls.__subclasses__(), key=_place):
        _collect(child, found)


def _place(cls: type) -> tuple[str, int]:
    """Return where a class is defined, so that the order does not depend on what was imported first."""
    names = list(vars(importlib.import_module(cls.__module__)))
    return cls.__module__, names.index(cls.__name__) if cls.__name__ in names else -1


def page() -> str:
    """Return the page."""
    parts, left = [_HEAD], classes()
    for title, belongs in _SECTIONS.items():
        inside = [cls for cls in left if belongs(cls)]
        left = [cls for cls in left if not belongs(cls)]
        parts.append("\n".join([f"## {title}\n", *rows(("error", "cause", "what to do", "then", "exit"), _lines(inside)), ""]))
    return "\n".join(parts)


def _lines(inside: list[type[BaseException]]) -> Iterator[tuple[str, ...]]:
    for cls in inside:
        home = "" if cls.__module__ in ("harnesses.errors", "orchestrator.errors") else f"<br>`{_home(cls)}`"
        kind, then = _then(cls)
        made = cls.__new__(cls)
        code = "-" if cls is Stopping else str(int(of_error(made) if kind is None else of_outcome(Outcome(kind, error=made))))
        yield f"`{cls.__name__}`{home}", _cause(cls), REMEDIES[cls.__name__], then, code


def _home(cls: type[BaseException]) -> str:
    """Return the shortest package that the class can be imported from."""
    parts = cls.__module__.split(".")
    for length in range(1, len(parts)):
        package = ".".join(parts[:length])
        if getattr(importlib.import_module(package), cls.__name__, None) is cls:
            return package
    return cls.__module__


def _cause(cls: type[BaseException]) -> str:
    text = inspect.getdoc(cls) or ""
    return re.sub(r"\s+", " ", text.partition("\n\n")[0]).strip()


def _then(cls: type[BaseException]) -> tuple[OutcomeKind | None, str]:
    """Return how a harness ends that lets the error pass, and what that is called; None for what no harness raises."""
    if issubclass(cls, BudgetExhausted):
        return OutcomeKind.BUDGET_SPENT, "budget spent"
    if issubclass(cls, Waiting | ApprovalDenied):
        return OutcomeKind.BLOCKED, "blocked"
    if cls.__module__.startswith("harnesses.") and is_lasting(cls.__new__(cls)):
        return OutcomeKind.FAILED, "fails"
    if cls.__module__.startswith("harnesses.") and cls not in (Stopping, OrchestratorError):
        return OutcomeKind.FAILED, "restarted"
    return None, "-"
