"""An audit hook that reports actions of judged code that tests do not need. Loaded by judge_plugin.py, never imported.

The hook cannot be removed, and only the interpreter has a reference to it. It reports an action before the action is done.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

import marshal
import os
import stat
import sys
import threading
import time
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple  # noqa: UP035 - judged projects may have an older Python

_STACK = {
    "sys._getframe",
    "sys._current_frames",
    "sys._current_exceptions",
    "gc.get_objects",
    "gc.get_referrers",
    "gc.get_referents",
}
_TRACERS = {"sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"}
_FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}
_MEMORY = {"ctypes.cdata", "ctypes.cdata/buffer", "ctypes.string_at", "ctypes.wstring_at", "ctypes.dlsym"}
_WRITES = {"os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1, "os.remove": 0, "os.truncate": 0}
_PROCESSES = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
_FILES = {"open", "open64", "openat", "fopen", "fopen64", "syscall"}
"""C functions that read files without an audit event."""
_UNMARSHALS = {"marshal.loads", "marshal.load"}
_SETTING = {"object.__setattr__", "object.__delattr__"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LOOKERS = (os.sep + "inspect.py", os.sep + "traceback.py")
"""Modules that inspect frames on behalf of others."""
_IMPORTERS = ("<frozen importlib", "<frozen zipimport", "<frozen runpy")
_TEXTS: Any = (str, bytes, bytearray)
_DEPTH = 2

Note = Callable[..., None]


def watch(note: Note, settings: Dict[str, Any], functions_changed: Callable[[], None]) -> None:  # noqa: UP006
    """Install the hook.

    Args:
        note: called with each reported action.
        functions_changed: called when a function gets other code or other defaults.
    """
    watched = _Watched(settings)
    within: Set[int] = set()  # noqa: UP006
    told: Set[Tuple[str, str, str]] = set()  # noqa: UP006
    looked_at = {*_STACK, *_TRACERS, *_MEMORY, *_WRITES, *_PROCESSES, *_UNMARSHALS}
    looked_at |= {"open", "object.__getattr__", "compile", "code.__new__"}
    this_thread, frame_of = threading.get_ident, sys._getframe  # pyright: ignore[reportPrivateUsage] - documented, and there is no other

    def hook(event: str, arguments: Tuple[Any, ...]) -> None:  # noqa: UP006
        if event in _SETTING:
            functions_changed()
        if event not in looked_at:
            return
        me = this_thread()
        if me in within:
            return
        within.add(me)
        try:
            for what, who, detail in watched.acts(event, arguments, frame_of(1)):
                if (what, who, detail) not in told and len(told) < 100:
                    told.add((what, who, detail))
                    note(kind=what, path=who, detail=detail)
        finally:
            within.discard(me)

    sys.addaudithook(hook)


class _Watched:
    """Knows which code belongs to the program and which to the tests."""

    def __init__(self, settings: Dict[str, Any]) -> None:  # noqa: UP006
        root = settings["root"] + os.sep
        self._root = root
        self._changed = {root + path for path in settings["watched"]}
        self._lookers = {root + path for path in settings["may_look"]}
        self._tests = {root + path for path in settings["tests"]}
        homes = (os.path.realpath(os.environ[name]) + os.sep for name in ("HOME", "TMPDIR"))
        self._allowed = (root, *homes, "/dev/")
        # Files in an open directory can be opened without an event that has their path.
        self._directories = {os.path.dirname(path) for path in self._tests} - {settings["root"]}
        self._exists: Dict[str, bool] = {}  # noqa: UP006
        self._status, self._is_regular, self._began = os.stat, stat.S_ISREG, time.time()

    def acts(self, event: str, arguments: Tuple[Any, ...], frame: Any) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        """Yield the reports for an audit event: the kind, the file of the acting code, and a detail."""
        if event in _STACK or event in _TRACERS:
            yield from self._looks(event, self._caller(frame, _LOOKERS))
        elif event == "object.__getattr__":
            if arguments[1] in _FRAMES:
                # Printing an error reads its frames too; the code that requests this does not itself inspect them.
                yield from self._looks(arguments[1], frame.f_code.co_filename)
        elif event in _MEMORY:
            name = arguments[1] if event == "ctypes.dlsym" else "_Py"
            who = self._nearest_changed(frame)
            if who and isinstance(name, str) and (name.startswith(("Py", "_Py")) or name in _FILES):
                yield "memory", self._named(who), event
        elif event in _PROCESSES:
            yield from self._starts(arguments, frame)
        elif event in _UNMARSHALS:
            yield from self._unmarshals(event, arguments, frame)
        elif event in ("compile", "code.__new__"):
            yield from self._compiles(arguments, frame)
        else:
            yield from self._opens(event, arguments, frame)

    def _looks(self, what: str, who: str) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        if (who in self._changed and who not in self._lookers) or not self._is_there(who):
            yield "stack", self._named(who), what

    def _compiles(self, arguments: Tuple[Any, ...], frame: Any) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        """Yield a report if code is compiled under the name of a file that it is not from."""
        source, name = arguments[:2]
        name = os.fsdecode(name) if isinstance(name, _TEXTS) else ""
        who = self._caller(frame, ())
        if who not in self._changed and self._is_there(who):
            return
        if name.startswith("<frozen") or (
            os.path.isabs(name) and name != who and self._is_there(name) and not _is_read(name, source)
        ):
            yield "named", self._named(who), name

    def _unmarshals(self, event: str, arguments: Tuple[Any, ...], frame: Any) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        """Yield a report if code is loaded without its source, because it may claim any file name."""
        who = self._caller(frame, ())
        if who.startswith(_IMPORTERS):
            path = str(frame.f_locals.get("bytecode_path") or frame.f_locals.get("pathname"))
            if path.startswith(self._root) and any(path.startswith(one) for one in self._changed):
                yield "compiled", self._named(path), "imported"
        elif (who in self._changed or not self._is_there(who)) and (event == "marshal.load" or _has_code(arguments[0])):
            yield "compiled", self._named(who), event

    def _starts(self, arguments: Tuple[Any, ...], frame: Any) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        """Yield a report if a command is started that names a test file."""
        own = self._own(frame)
        who = next((one.f_code.co_filename for one in own if one.f_code.co_filename in self._changed), "")
        text = repr(arguments) if who else ""
        for path in self._tests if text else ():
            if os.sep in path[len(self._root) :] and path[len(self._root) :] in text and not _is_given(own[-1], path):
                yield "read", self._named(who), path[len(self._root) :]

    def _opens(self, event: str, arguments: Tuple[Any, ...], frame: Any) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        writes = event != "open" or (isinstance(arguments[2], int) and bool(arguments[2] & _WRITING))
        path = arguments[_WRITES.get(event, 0)]
        yield from self._touches(path, writes, frame)
        if event in ("os.link", "os.rename"):
            yield from self._touches(arguments[0], event == "os.rename", frame)

    def _touches(self, name: Any, writes: bool, frame: Any) -> Iterator[Tuple[str, str, str]]:  # noqa: UP006
        path = os.path.realpath(os.fsdecode(name)) if hasattr(name, "__fspath__") or isinstance(name, _TEXTS) else ""
        is_outside = writes and path and not (path + os.sep).startswith(self._allowed) and path != "/dev/null"
        is_memory = path.startswith("/proc/") and path.endswith("/mem")
        if not (path in self._tests or path in self._directories or is_outside or is_memory):
            return
        own = self._own(frame)
        who = next((one.f_code.co_filename for one in own if one.f_code.co_filename in self._changed), "")
        if not who:
            return
        if is_memory:
            yield "memory", self._named(who), path
        elif writes:
            yield "wrote", self._named(who), path
        elif not self._is_printing(frame) and not _is_given(own[-1], path):
            yield "read", self._named(who), path[len(self._root) :]

    def _own(self, frame: Any) -> List[Any]:  # noqa: UP006
        """Return the program's frames above the first frame of a test, innermost first."""
        found: List[Any] = []  # noqa: UP006
        while frame is not None and frame.f_code.co_filename not in self._tests:
            if frame.f_code.co_filename.startswith(self._root):
                found.append(frame)
            frame = frame.f_back
        return found

    def _nearest_changed(self, frame: Any) -> str:
        return next((one.f_code.co_filename for one in self._own(frame) if one.f_code.co_filename in self._changed), "")

    def _caller(self, frame: Any, skipped: Tuple[str, ...]) -> str:  # noqa: UP006
        while skipped and frame is not None and frame.f_code.co_filename.endswith(skipped):
            frame = frame.f_back
        return frame.f_code.co_filename if frame is not None else ""

    def _is_there(self, path: str) -> bool:
        """Return whether code is from a file that existed before; code from a string belongs to the code that runs it."""
        if path.startswith(_IMPORTERS):
            return True
        if path not in self._exists:
            try:
                found = self._status(path)
                self._exists[path] = self._is_regular(found.st_mode) and found.st_ctime < self._began
            except (OSError, ValueError):
                self._exists[path] = False
        return self._exists[path]

    @staticmethod
    def _is_printing(frame: Any) -> bool:
        """Return whether source lines are being read to print an error."""
        while frame is not None:
            if frame.f_code.co_filename.endswith(_LOOKERS[1]):
                return True
            frame = frame.f_back
        return False

    def _named(self, path: str) -> str:
        return path[len(self._root) :] if path.startswith(self._root) else path or "a thread"


def _has_code(data: Any) -> bool:
    """Return whether marshalled values contain code."""
    found = [marshal.loads(data)]
    for value in found:
        if isinstance(value, types.CodeType):
            return True
        if isinstance(value, dict):
            found += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            found += value
    return False


def _is_read(path: str, source: Any) -> bool:
    """Return whether a source is the contents of a file."""
    try:
        with open(path, "rb") as file:
            held = file.read()
        return isinstance(source, _TEXTS) and held == (source.encode() if isinstance(source, str) else bytes(source))
    except (OSError, ValueError):
        return False


def _is_given(frame: Any, path: str) -> bool:
    """Return whether a function was given a path, one of its directories, or an object that contains one."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    values = frame.f_locals
    return any(_holds_path(values.get(name), path, _DEPTH) for name in code.co_varnames[:count])


def _holds_path(value: Any, path: str, depth: int) -> bool:
    if isinstance(value, (str, bytes, os.PathLike)):
        try:
            held = os.path.realpath(os.fsdecode(value))
        except (TypeError, ValueError):
            return False
        return bool(value) and (path == held or path.startswith(held + os.sep))
    inside: Optional[Any] = None  # noqa: UP045
    if isinstance(value, (list, tuple)):
        inside = value
    elif isinstance(value, dict):
        inside = value.values()
    elif depth == _DEPTH:
        inside = getattr(value, "__dict__", {}).values()
    return inside is not None and depth > 0 and any(_holds_path(one, path, depth - 1) for one in list(inside)[:100])
