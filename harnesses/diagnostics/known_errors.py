"""Recognises errors of Python, Trio and libraries that no restart can fix, and explains the remedy.

    NotReady         a module is not installed; a program to run does not exist
    HarnessMisuse    asyncio was called under Trio; a frozen state was assigned to

Invariant: only certain cases are converted. A missing file that is not a program, for example, stays a crash and is restarted.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import FrozenInstanceError as FrozenDataclassError
from itertools import islice
from types import FrameType
from typing import Any, cast

import trio
from attrs.exceptions import FrozenInstanceError

from harnesses.diagnostics.author_frames import place_of
from harnesses.diagnostics.error_groups import is_one, leaves
from harnesses.diagnostics.program_interpreter import missing_interpreter
from harnesses.errors import BudgetExhausted, HarnessError, HarnessMisuse, NoRestart, NotReady, Waiting

_MOST = 100
"""Maximum number of errors examined in a group."""
_SPAWNING = ("_execute_child", "_posix_spawn")
"""Functions of `subprocess` that start a program; an error from them concerns the program, or its working directory."""
_STATE = re.compile(r"(?:property 'state' of '.*' object has no setter|can't set attribute 'state')")
_ASYNCIO = ("no running event loop", "no current event loop", "should be used inside a task", "unrecognized yield message")
"""Messages of Python, asyncio and Trio when an asyncio coroutine is awaited under Trio."""


def diagnosed(error: BaseException, state: object) -> HarnessError | None:
    """Return the error to raise for one from `execute()`; None if it is an ordinary crash or explains itself.

    Args:
        state: the harness's state.
    """
    inside = list(islice(leaves(error), _MOST))
    if any(is_one(leaf, kind) for leaf in inside for kind in (NoRestart, Waiting, BudgetExhausted)):
        return None
    return next((found for leaf in inside if (found := _diagnosed(leaf, state)) is not None), None)


def _diagnosed(error: BaseException, state: object) -> HarnessError | None:
    # Exact types only: an author's own class may carry any message and is left alone.
    cls = type(error)
    if cls is ModuleNotFoundError:
        return _missing_module(cast(ModuleNotFoundError, error))
    if cls in (FileNotFoundError, PermissionError):
        return _missing_program(cast(OSError, error))
    if cls in (FrozenInstanceError, FrozenDataclassError):
        return _frozen_state(error, state)
    if cls is AttributeError and _STATE.fullmatch(str(error)):
        return HarnessMisuse(
            f"execute() assigned to self.state{_at(error)}: expected a change by update_state; "
            "call self.update_state(lambda state: …), which returns the new one"
        )
    if cls is RuntimeError and "run() from inside a run()" in str(error):
        return HarnessMisuse(
            f"execute() called trio.run{_at(error)}: expected `await`, for Trio runs already; await the function itself, or "
            "start it in a nursery"
        )
    if (cls in (RuntimeError, TypeError) and any(part in str(error) for part in _ASYNCIO)) or _is_of_asyncio(error, cls):
        said = str(error)[:60] or cls.__name__
        return HarnessMisuse(
            f"execute() called asyncio{_at(error)}: expected Trio, which harnesses run under, got {said!r}; "
            "use trio.sleep and the like, trio.to_thread.run_sync for what blocks, or the package trio-asyncio"
        )
    return None


def _is_of_asyncio(error: BaseException, cls: type[BaseException]) -> bool:
    # Matched by name, so that asyncio is not imported for harnesses that do not use it.
    if (cls.__module__, cls.__qualname__) == ("asyncio.exceptions", "CancelledError"):
        return True
    if cls is not AttributeError or "'NoneType'" not in str(error):
        return False
    # A queue, an event or a lock of asyncio, which looks for its event loop.
    frame = _last_frame(error)
    return frame is not None and os.path.dirname(frame.f_code.co_filename).endswith(f"{os.sep}asyncio")


def check_trio(what: str, instead: str) -> None:
    """Raise `HarnessMisuse` if the caller does not run under Trio.

    Args:
        what: was awaited.
        instead: how it is run.
    """
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        asyncio: Any = sys.modules.get("asyncio.events")
        got = "asyncio.run(…)" if asyncio is not None and asyncio._get_running_loop() is not None else "no Trio loop"
        raise HarnessMisuse(f"{what} was awaited outside of Trio: expected {instead}, got {got}; write {instead}") from None


def _missing_module(error: ModuleNotFoundError) -> NotReady:
    name = str(error.name or error)[:200]
    return NotReady(
        f"module {name!r} is not installed{_at(error)}: expected it in {sys.executable}; "
        f"run `pip install` for the package that has it, or correct the import"
    )


def _missing_program(error: OSError) -> NotReady | None:
    """Return an error that names the program that could not be started; None if another file is missing."""
    frame = _last_frame(error)
    if frame is None or frame.f_code.co_name not in _SPAWNING or not frame.f_code.co_filename.endswith("subprocess.py"):
        return None
    program: Any = frame.f_locals.get("orig_executable", frame.f_locals.get("executable"))
    if error.filename is None or error.filename != program:
        return None  # The working directory is missing.
    name = os.fsdecode(program)
    if isinstance(error, PermissionError):
        return NotReady(f"program {name!r} may not be run{_at(error)}: expected a file with the right to be run; chmod +x it")
    interpreter = missing_interpreter(name)
    if interpreter or (os.path.exists(name) and os.sep in name):
        named = f"the interpreter {interpreter!r} that its first line names" if interpreter else "its interpreter"
        return NotReady(f"program {name!r} cannot be run{_at(error)}: expected {named}, got none; install or correct that")
    return NotReady(f"program {name!r} was not found{_at(error)}: expected it on PATH; install it, or correct name or PATH")


def _frozen_state(error: BaseException, state: object) -> HarnessMisuse | None:
    """Return an error for an assignment to a field of the state; None if it was to another frozen object."""
    frame = _last_frame(error)
    if frame is None or not isinstance(frame.f_locals.get("self"), type(state)):
        return None
    return read_only_state(f"{type(state).__qualname__}.{frame.f_locals.get('name', '…')}", _at(error))


def read_only_state(what: str, where: str = "") -> HarnessMisuse:
    """Return the error for an in-place change of a value from `self.state`."""
    return HarnessMisuse(
        f"the state is read-only: expected a change by update_state, got {what} in place{where}; "
        "call self.update_state(change), where change gets the state and returns the new one; what is made of self.state by "
        "replace, evolve or {**…} shares its lists and dicts, what change gets is its own"
    )


def _last_frame(error: BaseException) -> FrameType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame


def _at(error: BaseException) -> str:
    place = place_of(error)
    return "" if place is None else f" ({place})"
