"""G4: an error of any shape ends its harness alone, named and cut; what it says of itself is not believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from harnesses.diagnostics.error_groups import leaves, split
from harnesses.errors import HarnessMisuse, NoRestart
from orchestrator import MemoryStore, Orchestrator, OutcomeKind, UsageError
from orchestrator.runtime.failure_events import contained, sentence
from tests.orchestrator.scripted import Scripted, Steps, poll


class Lying(Exception):
    """Raises whatever it is asked."""

    def _raise(self, *_: object) -> Any:
        raise ZeroDivisionError("asked")

    __str__ = __repr__ = __eq__ = __hash__ = __format__ = _raise  # pyright: ignore[reportAssignmentType]
    __class__ = __cause__ = __context__ = __traceback__ = __notes__ = __suppress_context__ = property(_raise)  # type: ignore[assignment]


class Leaving(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Long(Exception):
    def __str__(self) -> str:
        return "x" * 100_000_000


class Several(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Any:
        raise ZeroDivisionError("asked")

    exceptions = property(Lying._raise)  # type: ignore[assignment]  # pyright: ignore[reportPrivateUsage, reportAssignmentType]


def cyclic() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def behind_each_other() -> Exception:
    error = ValueError("0")
    for number in range(20_000):
        further = ValueError(str(number))
        further.__context__ = error
        error = further
    return error


def noted() -> Exception:
    error = ValueError("noted")
    error.add_note("x" * 50_000_000)
    return error


def deep(inner: Exception | None = None) -> Exception:
    error: Exception = inner or ValueError("inner")
    for _ in range(10_000):
        error = ExceptionGroup("deep", [error])
    return error


def wide(inner: Exception | None = None) -> Exception:
    return ExceptionGroup("wide", [*(ValueError(number) for number in range(200_000)), inner or ValueError("last")])


ODD: dict[str, tuple[Callable[[], Exception], str]] = {
    "lying": (Lying, "Lying: its message cannot be read"),
    "leaving": (Leaving, "Leaving: its message cannot be read"),
    "long": (Long, "Long: xxx"),
    "noted": (noted, "ValueError: noted"),
    "ours and long": (lambda: HarnessMisuse("x" * 50_000_000), "HarnessMisuse: harness 'odd', step 2 (tests"),
    "several": (lambda: Several("several", [ValueError("a"), Lying()]), "ValueError: a; OddError: Lying: its message"),
    "cyclic": (cyclic, "ValueError: one"),
    "behind each other": (behind_each_other, "ValueError: 19999"),
    "deep": (deep, "ValueError: inner"),
    "wide": (wide, "and 199,982 more in a group of 200,001"),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_error_of_any_shape_ends_its_harness_alone(name: str, autojump_clock: object) -> None:
    make, told = ODD[name]

    async def script(harness: Scripted) -> Steps:
        yield 1, None
        raise make()

    async with Orchestrator(store := MemoryStore()) as orchestrator:
        odd = orchestrator.start(Scripted(script), name="odd", restart="temporary")
        sibling = orchestrator.start(Scripted(poll, until=3), name="sibling")
        outcomes = [await odd.wait(), await sibling.wait()]
        orchestrator.start(Scripted(poll, until=1), name="odd")

    assert [one.kind for one in outcomes] == [OutcomeKind.FAILED, OutcomeKind.COMPLETED]
    assert told in outcomes[0].cause
    assert outcomes[0].error is not None
    assert len(str(outcomes[0].error)) + len("".join(getattr(outcomes[0].error, "__notes__", []))) < 20_000
    assert len(outcomes[0].cause) <= 2000
    assert sum(len(record.body) for record in store.records()) < 100_000


@pytest.mark.parametrize("make", [deep, wide])
def test_what_becomes_of_a_harness_is_read_from_an_error_of_any_shape(make: Callable[[Exception], Exception]) -> None:
    kept = contained(make(NoRestart("enough")))

    assert any(isinstance(leaf, NoRestart) for leaf in leaves(kept))
    assert "NoRestart: enough" in sentence(kept)


def test_a_cancellation_is_found_in_a_group_that_cannot_be_split() -> None:
    error: BaseException = KeyboardInterrupt()
    for _ in range(10_000):
        error = BaseExceptionGroup("deep", [error])

    assert split(error, trio.Cancelled) == (None, error)
    assert isinstance(split(error, KeyboardInterrupt)[0], KeyboardInterrupt)


def test_an_ordinary_error_is_kept_as_it_is() -> None:
    for error in (ValueError("a"), ExceptionGroup("b", [ValueError("c"), KeyError("d")]), cyclic()):
        assert contained(error) is error


async def test_supervisors_are_nested_so_deep_and_no_deeper() -> None:
    async with Orchestrator() as orchestrator:
        above = None
        for level in range(100):
            above = orchestrator.supervisor(f"s{level}", parent=above)
        with pytest.raises(UsageError, match="'s100': expected at most 100 levels below the root, got level 101"):
            orchestrator.supervisor("s100", parent=above)
        outcome = await orchestrator.start(Scripted(poll, until=1), name="one", supervisor=above).wait()

    assert outcome.ok
