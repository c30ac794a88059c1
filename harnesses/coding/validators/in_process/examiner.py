"""Detects changes to pytest, unittest, built-in functions and the tests' imports. Loaded by judge_plugin.py."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

import contextlib
import importlib
import operator
import os
import sys
import time
import types
from typing import Any, Callable, Dict, List, Tuple  # noqa: UP035 - judged projects may have an older Python

Say = Callable[..., None]

_INTERNALS = (
    "_pytest.runner",
    "_pytest.reports",
    "_pytest.python",
    "_pytest.python_api",
    "_pytest.approx",
    "_pytest.raises",
    "_pytest.outcomes",
    "_pytest.nodes",
    "_pytest.main",
    "_pytest.skipping",
    "_pytest.unittest",
    "_pytest.fixtures",
    "_pytest.assertion.rewrite",
    "_pytest.assertion.util",
    "pytest",
    "unittest",
    "unittest.case",
    "unittest.mock",
)
_REPORTING = ("_pytest.runner", "_pytest.reports", "_pytest.python", "_pytest.outcomes")
"""Modules that create the report of a test."""
_TOOLS = ("_pytest", "pluggy", "unittest")
_HOOKS = (
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_pyfunc_call",
)


def _preload(name: str) -> None:
    with contextlib.suppress(Exception):  # its users get the error themselves
        importlib.import_module(name)


class _Known:
    """Original functions and classes, for comparison."""

    def __init__(self, names: Tuple[str, ...], *, of_others: bool = True) -> None:  # noqa: UP006
        """Record the contents of the modules and their classes; with `of_others` also of classes that they import."""
        self._spaces: List[Tuple[Any, Any, Any, Dict[str, Any]]] = []  # noqa: UP006
        self._codes: Dict[int, Tuple[Any, Any, Any]] = {}  # noqa: UP006
        owners: Dict[int, Any] = {}  # noqa: UP006
        for name in names:
            _preload(name)
            module = sys.modules.get(name)
            for owner in (module, *vars(module).values()) if module else ():
                if owner is module or (isinstance(owner, type) and _is_taken(owner.__module__, "" if of_others else name)):
                    owners[id(owner)] = owner
        for owner in owners.values():
            self._hold(owner)

    def _hold(self, owner: Any) -> None:
        kinds: Any = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
        space: Any = owner.__dict__
        held: Dict[str, Any] = {key: value for key, value in space.items() if isinstance(value, kinds)}  # noqa: UP006
        if held:
            # The first name is asked for twice, because for a single one the getter would not return a tuple.
            self._spaces.append((owner, space, operator.itemgetter(*held, next(iter(held))), held))
        for value in held.values():
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                self._codes[id(function)] = (function, function.__code__, function.__defaults__)

    def differing(self, *, functions: bool) -> List[Tuple[str, Any]]:  # noqa: UP006
        """Return what has been replaced, with the replacements.

        Args:
            functions: also compare the code of functions that are in place.
        """
        found: List[Tuple[str, Any]] = []  # noqa: UP006
        for owner, space, get, held in self._spaces:
            # Runs for each test, so it avoids a Python loop over all names.
            try:
                is_other = any(map(operator.is_not, get(space), held.values()))
            except KeyError:
                is_other = True
            if is_other:
                found += [
                    ("%s.%s" % (getattr(owner, "__name__", owner), name), space.get(name))  # noqa: UP031
                    for name, value in held.items()
                    if space.get(name) is not value
                ]
        return found + [
            (function.__qualname__, function)
            for function, code, defaults in (self._codes.values() if functions else ())
            if function.__code__ is not code or function.__defaults__ is not defaults
        ]


def _is_taken(module: str, name: str) -> bool:
    return module == name if name else module.partition(".")[0] in _TOOLS


def _pluggy() -> Tuple[str, ...]:  # noqa: UP006
    """Return the modules that call hooks; their names differ between versions of pluggy."""
    return tuple(name for name in sys.modules if name.partition(".")[0] == "pluggy")


class Examiner:
    """Detects and reports changes that would falsify pytest's results."""

    functions_changed = True
    """Whether any function has got other code or other defaults since the last examination."""

    def __init__(self, say: Say, settings: Dict[str, Any]) -> None:  # noqa: UP006
        self._began = time.time()
        self._say, self._root = say, settings["root"] + os.sep
        self._tests = {self._root + path for path in settings["tests"]}
        self._modules: List[Tuple[Any, Dict[str, Any]]] = []  # noqa: UP006
        self.changed = {self._root + path for path in settings["watched"]}
        self._tools, self._builtins = _Known((*_INTERNALS, *_pluggy())), _Known(("builtins",))
        self._imported = _Known(
            tuple(name for name in settings["preload"] if name.partition(".")[0] not in _TOOLS), of_others=False
        )
        self._reporting = _Known((*_REPORTING, *_pluggy()), of_others=False)
        self._config: Any = None
        self._hooks: Dict[str, List[Any]] = {}  # noqa: UP006
        self._bodies: Dict[str, Any] = {}  # noqa: UP006

    def begin(self, config: Any, items: List[Any]) -> None:  # noqa: UP006
        """Record the state before the first test."""
        self._config, self._hooks = config, _hooks_of(config)
        self._bodies = {item.nodeid: _body_of(item) for item in items}
        modules = [module for module in list(sys.modules.values()) if self._is_test_module(module)]
        self._modules = [(module, dict(vars(module))) for module in modules]

    def look_into_functions(self) -> None:
        """Note that a function may have been changed."""
        self.functions_changed = True

    def examine(self, is_over: bool) -> None:
        """Compare what is in place and, if the interpreter has reported a change, the code of functions.

        Args:
            is_over: whether no test is running, so that everything is compared, including what tests may change temporarily.
        """
        functions, self.functions_changed = self.functions_changed, False
        known = self._tools if is_over or functions else self._reporting
        for name, value in known.differing(functions=functions):
            if not (isinstance(value, types.FunctionType) and self._is_elsewhere(value)):
                self._tell(name)
        for name, value in self._builtins.differing(functions=functions):
            if self._file_of(value) in self.changed or (is_over and not self._is_elsewhere(value)):
                self._tell(name)
        if is_over:
            for name, value in self._imported.differing(functions=functions):
                if self._is_of_program(value):
                    self._tell(name)
            for module, held in self._modules:
                for name, value in vars(module).items():
                    was = held.get(name)
                    if was is not None and value is not was and self._is_of_program(value) and not self._is_of_program(was):
                        self._tell(module.__name__ + "." + name)
        now = _hooks_of(self._config) if self._hooks else {}
        for name, before in self._hooks.items():
            gone = [function for function in before if function not in now[name]]
            come = [function for function in now[name] if function not in before and self._file_of(function) in self.changed]
            if gone or come:
                self._tell(name)

    def examine_item(self, item: Any) -> None:
        """Check the function that a test runs."""
        body = _body_of(item)
        # Plugins for asynchronous tests wrap it in a function of their own.
        if self._bodies.get(item.nodeid, body) is not body and getattr(body, "co_filename", "") in self.changed:
            self._tell(item.nodeid)

    def _tell(self, what: str) -> None:
        self.functions_changed = True
        self._say(kind="tampered", what=what)

    def _file_of(self, value: Any) -> str:
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is not None:
            return str(code.co_filename)
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        return str(getattr(module, "__file__", None) or "")

    def _is_of_program(self, value: Any) -> bool:
        """Return whether an object or its class is defined in a file that the commit changes, or in no file at all."""
        file = self._file_of(value) or self._file_of(type(value))
        return file in self.changed or (bool(file) and not os.path.isfile(file) and not file.startswith("<frozen"))

    def _is_test_module(self, module: Any) -> bool:
        with contextlib.suppress(Exception):
            return isinstance(module, types.ModuleType) and str(module.__file__) in self._tests
        return False

    def _is_elsewhere(self, value: Any) -> bool:
        file = self._file_of(value)
        if not os.path.isabs(file) or file.startswith(self._root):
            return False
        try:
            return os.stat(file).st_ctime < self._began
        except OSError:
            return False


def _hooks_of(config: Any) -> Dict[str, List[Any]]:  # noqa: UP006
    return {name: [impl.function for impl in getattr(config.hook, name).get_hookimpls()] for name in _HOOKS}


def _body_of(item: Any) -> Any:
    return getattr(getattr(item, "function", None), "__code__", None)
