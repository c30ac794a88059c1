"""Makes one test of a function with many small cases: what pytest does around each case takes more time than most cases.

A function that takes nothing but the values of its cases (no fixture, not asynchronous, no marks but `parametrize`) is one
test. It goes through all its cases in order, and fails with every case that fails, each with its values. `--each-case` makes a
test of each, as does anything that pytest alone can do: marks of a case, values for fixtures.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from itertools import product
from typing import Any

import pytest
from _pytest._io.saferepr import saferepr
from _pytest.mark import ParameterSet

_LEAST = 3
"""Cases from which a function is looped over."""


def loop_over_cases(collector: object, test: object) -> Callable[[], None] | None:
    """Return a function that runs a test with each of its cases, or None if pytest has to do it."""
    if type(collector) is not pytest.Module or not inspect.isfunction(test) or inspect.iscoroutinefunction(test):
        return None
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    if {mark.name for mark in marks} != {"parametrize"} or hasattr(test, "hypothesis") or hasattr(collector.obj, "pytestmark"):
        return None
    tables = [_read(mark) for mark in marks]
    if None in tables or _autouse(collector):
        return None
    cases = [_join(row) for row in product(*(table for table in reversed(tables) if table is not None))]
    if len(cases) < _LEAST or set(inspect.signature(test).parameters) != set(cases[0][1]):
        return None

    @wraps(test)
    def loop() -> None:
        _run_each(test, cases)

    loop.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    loop.pytestmark = []  # type: ignore[attr-defined]
    return loop


def _run_each(test: Callable[..., object], cases: list[tuple[str, dict[str, Any]]]) -> None:
    failures: list[Exception] = []
    skipped = None
    ran = False
    for id, values in cases:
        try:
            test(**values)
            ran = True
        except pytest.skip.Exception as skip:
            skipped = skip
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(" ".join(["case:", id, *(f"{name}={saferepr(value, 200)}" for name, value in values.items())]))
            failures.append(error if isinstance(error, Exception) else _as_error(error))
    if failures:
        raise failures[0] if len(failures) == 1 else ExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)
    if skipped and not ran:
        raise skipped


def _as_error(failed: BaseException) -> AssertionError:
    """Return what can be told in a group: `pytest.fail` and a missing exception are no `Exception`."""
    error = AssertionError(str(failed)).with_traceback(failed.__traceback__)
    error.__notes__ = failed.__notes__
    return error


def _autouse(collector: pytest.Module) -> bool:
    return any(collector.session._fixturemanager._getautousenames(collector))  # pyright: ignore[reportPrivateUsage]


_Case = tuple[str, dict[str, Any]]
"""The ids that its tables give it, and its values."""


def _read(mark: pytest.Mark) -> list[_Case] | None:
    """Return the cases of one table, or None if a part of it is for pytest alone."""
    names, given = mark.args
    if set(mark.kwargs) - {"ids"}:
        return None
    words = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    cases = [ParameterSet.extract_from(case, force_tuple=len(words) == 1) for case in given]
    if any(case.marks or len(case.values) != len(words) for case in cases):
        return None
    ids: Any = mark.kwargs.get("ids")
    named: list[Any] = list(ids) if isinstance(ids, list | tuple) else [case.id for case in cases]
    return [
        (id if isinstance(id, str) else "", dict(zip(words, case.values, strict=True)))
        for id, case in zip(named, cases, strict=True)
    ]


def _join(row: tuple[_Case, ...]) -> _Case:
    return " ".join(id for id, _ in row), {name: value for _, values in row for name, value in values.items()}
