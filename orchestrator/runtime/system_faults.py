"""Errors in code that Trio itself runs: `run_sync_soon` callbacks, system tasks, and whatever breaks Trio's loop.

Trio then cancels every task, and `trio.run` raises a `TrioInternalError` without naming the culprit. This cannot be prevented
from outside. Here the error is named: the function, where it is defined, and the harness, where the traceback leads to one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from traceback import walk_tb
from types import FrameType
from typing import cast

import outcome
import trio
from attrs import frozen

from harnesses.diagnostics.error_groups import is_one, members
from orchestrator.errors import SystemTaskFailed
from orchestrator.runtime.failure_events import sentence

_MOST = 3
"""Limits on the faults named for a program, and on the harnesses named for a fault."""
_MOST_FAULTS, _MOST_FRAMES = 20, 200
"""Limits on the faults, and on the frames of each, that are examined."""
_CORE = os.path.join(os.path.dirname(trio.__file__), "_core", "")
_QUEUE = os.path.join(_CORE, "_entry_queue.py")
_LOOP = (os.path.join(_CORE, "_run.py"), "unrolled_run")
_MACHINERY = (_CORE, os.path.join(os.path.dirname(outcome.__file__), ""))
_TRACEBACK, _CAUSE = (BaseException.__dict__[name].__get__ for name in ("__traceback__", "__cause__"))
_ADVICE = (
    "Trio ends the whole program for it. Every harness continues from its last recorded step when it is started again; "
    "catch errors inside of that function, or run it in a nursery of the harness, which then fails alone"
)


@frozen
class _Fault:
    """An error, and the frames that it passed through, outermost first."""

    error: BaseException
    frames: tuple[FrameType, ...]
    in_loop: bool = False
    """Whether it broke Trio's loop at once: no task was cancelled, and no clean-up ran."""


def raised_so_far() -> list[BaseException]:
    """Return the errors that system tasks and callbacks of the running Trio have raised; Trio cancels everything for one."""
    root = trio.lowlevel.current_root_task()
    nurseries = () if root is None else root.child_nurseries
    # Trio shows such an error only when it ends; if a later version keeps it elsewhere, the name is missing.
    held: Iterator[BaseException] = (error for nursery in nurseries for error in getattr(nursery, "_pending_excs", ()))
    return [error for error in held if not is_one(error, trio.Cancelled)]


def system_fault(errors: Iterable[BaseException], harnesses: Mapping[str, object]) -> SystemTaskFailed | None:
    """Return an error that names those for which Trio ends the program; None if there are none. `__cause__` is the first.

    Args:
        errors: from `raised_so_far`, or the `TrioInternalError`.
        harnesses: candidates, by name.
    """
    faults = list(islice((fault for error in errors for fault in _faults(error)), _MOST_FAULTS))
    if not faults:
        return None
    told = "; ".join(list(dict.fromkeys(_told(fault, harnesses) for fault in faults))[:_MOST])
    named = SystemTaskFailed(f"{told}. {_ADVICE}", told)
    named.__cause__ = faults[0].error
    return named


def _faults(error: BaseException) -> Iterator[_Fault]:
    """Yield the faults behind an error, without Trio's wrappers."""
    waiting = [(error, False)]
    while waiting:
        one, in_loop = waiting.pop()
        frames = tuple(islice((frame for frame, _ in walk_tb(_TRACEBACK(one))), _MOST_FRAMES))
        if is_one(one, trio.TrioInternalError) and (cause := _CAUSE(one)) is not None:
            waiting.append((cause, True))
        elif members(one) and _first_outside(frames) is None:
            waiting.extend((member, False) for member in reversed(members(one)))
        else:
            yield _Fault(one, frames, in_loop or is_one(one, trio.TrioInternalError))


def _first_outside(frames: tuple[FrameType, ...]) -> FrameType | None:
    """Return the first frame below Trio's loop that is not Trio's own."""
    codes = [frame.f_code for frame in frames]
    loops = [number for number, code in enumerate(codes) if (code.co_filename, code.co_name) == _LOOP]
    below = frames[loops[-1] :] if loops else frames
    return next((frame for frame in below if not frame.f_code.co_filename.startswith(_MACHINERY)), None)


def _told(fault: _Fault, harnesses: Mapping[str, object]) -> str:
    is_callback = any(frame.f_code.co_filename == _QUEUE for frame in fault.frames)
    kind = "run_sync_soon callback" if is_callback else "function" if fault.in_loop else "system task"
    how = ", called by Trio's loop," if fault.in_loop else ""
    frame = _first_outside(fault.frames)
    if frame is None:
        what = f"{kind} {_callable(fault.frames)}"
    else:
        what = f"{kind} {frame.f_code.co_qualname!r} ({frame.f_code.co_filename}:{frame.f_code.co_firstlineno})"
    return f"{what}{_owners(fault, frame, harnesses)}{how} raised {sentence(fault.error)}"


def _callable(frames: tuple[FrameType, ...]) -> str:
    """Return the name of a callback that is not written in Python, and so has no frame."""
    function = next((_locals(frame)["sync_fn"] for frame in reversed(frames) if "sync_fn" in _locals(frame)), None)
    try:
        return "that is unknown" if function is None else repr(function)[:200]
    except Exception:
        return f"of type {type(function).__name__!r}"


def _owners(fault: _Fault, frame: FrameType | None, harnesses: Mapping[str, object]) -> str:
    """Return text naming the harness that its frames or its task lead to, or else those defined in the same file."""
    names = {id(harness): name for name, harness in harnesses.items()}
    seen = [value for one in fault.frames for value in _values(one)]
    found = [names[id(value)] for value in seen if id(value) in names]
    found += [
        name for value in seen if isinstance(value, trio.lowlevel.Task) for name in names_above(value) if name in harnesses
    ]
    if found:
        return f" of harness {_listed(found)}"
    if frame is None:
        return ""
    beside = [name for name, harness in harnesses.items() if _file(harness) == frame.f_code.co_filename]
    return f" in the file of harness {_listed(beside)}" if beside else ""


def _listed(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(map(repr, names[:_MOST])) + more


def _locals(frame: FrameType) -> Mapping[str, object]:
    try:
        return dict(frame.f_locals)
    except Exception:
        return {}


def _values(frame: FrameType) -> Iterator[object]:
    """Yield the values of local variables, and the items of argument tuples."""
    for value in _locals(frame).values():
        yield value
        if type(value) is tuple:
            yield from cast(tuple[object, ...], value)


def names_above(task: trio.lowlevel.Task | None) -> Iterator[str]:
    """Yield the names of a task and of its ancestors."""
    while task is not None:
        yield task.name
        task = None if task.parent_nursery is None else task.parent_nursery.parent_task


def _file(harness: object) -> str | None:
    return getattr(sys.modules.get(type(harness).__module__), "__file__", None)
