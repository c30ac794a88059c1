"""Runs pytest inside the judged process, and reports what came of every test. It is run as a file, never imported.

    judge ──settings (a file, removed when read)──►  this  ──lines, each sealed with a key──►  judge

The law: pytest, and all that the tests import from elsewhere, is loaded before the worktree is on the import path; what is
reported goes into a file that no longer has a name; and what would bend pytest's word is looked for before every report is
made. Where nothing differs from the base nothing is looked for: what is there is its owner's.

The code under test runs in this very process, so nothing here is out of its reach for good. What it has to do to get here,
namely to look at the stack, at the garbage collector or at pytest's internals, is what is watched.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # The directory of this file, where modules are named after what they judge.
    sys.path.pop(0)

import ast
import contextlib
import copy
import hmac
import importlib
import importlib.util
import json
import operator
import os
import threading
import types
from typing import Any, Callable, Dict, List, Optional, Set, Tuple  # noqa: UP035 - judged projects may have an older Python

Say = Callable[..., None]

_LOOKERS = (os.sep + "inspect.py",)
_STACK = {"sys._getframe", "sys._current_frames", "gc.get_objects", "gc.get_referrers", "gc.get_referents"}
_WRITES = {"os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1, "os.remove": 0, "os.truncate": 0}
_SETTING = {"object.__setattr__", "object.__delattr__"}
_LOOKED_AT = {*_STACK, *_WRITES, *_SETTING, "open", "object.__getattr__"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TEXT = 3_000
_LISTS: Any = (list, tuple)
_DICT: Any = dict
_INTERNALS = (
    "_pytest.runner",
    "_pytest.reports",
    "_pytest.python",
    "_pytest.python_api",
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
"""What makes a report of what a test did."""
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


def main(settings_path: str) -> int:
    """Run pytest as the settings say."""
    with open(settings_path, encoding="utf-8") as file:
        settings: Dict[str, Any] = json.load(file)  # noqa: UP006
    os.unlink(settings_path)
    say = _sayer(os.open(settings["report"], os.O_WRONLY | os.O_APPEND), settings["key"])
    os.unlink(settings["report"])
    root = settings["root"]
    os.chdir(root)
    sys.argv = ["pytest"]
    for name in settings["preload"]:
        _preload(name)
    pytest = importlib.import_module("pytest")
    runner: Any = importlib.import_module("_pytest.runner")
    # A program under test that asks for it would behave as it does for its users.
    runner._update_current_test_var = _nothing
    examiner = None
    if not settings["trusted"]:
        _ask_twice(say, settings)
        examiner = _Examiner(say, settings)
    if settings["early_path"]:
        _extend_path(settings)
    arguments = [*settings["arguments"], *_quietened()]
    if examiner is not None:
        _watch(say, settings, examiner)
    code = int(pytest.main(arguments, plugins=[_plugin(pytest, say, settings, examiner)]))
    say(kind="end", code=code)
    return code


def _nothing(*_: object) -> None:
    pass


def _sayer(report: int, key: str) -> Say:
    seal = hmac.new(key.encode(), digestmod="sha256")

    def say(**line: object) -> None:
        text = json.dumps(line)
        mine = seal.copy()
        mine.update(text.encode())
        os.write(report, ("%s %s\n" % (mine.hexdigest(), text)).encode())  # noqa: UP031

    return say


def _preload(name: str) -> None:
    with contextlib.suppress(Exception):  # whoever needs it will hear of it
        importlib.import_module(name)


def _extend_path(settings: Dict[str, Any]) -> None:  # noqa: UP006
    for place in reversed(settings["path"]):
        if place not in sys.path:
            sys.path.insert(0, place)
    # For the Python processes that tests start.
    os.environ["PYTHONPATH"] = os.pathsep.join([*settings["path"], os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def _quietened() -> List[str]:  # noqa: UP006
    """Return arguments that undo what a configuration may say about workers and coverage."""
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return []
    found = importlib.util.find_spec
    return [*(["-n0"] if found("xdist") else []), *(["--no-cov"] if found("pytest_cov") else [])]


def _watch(say: Say, settings: Dict[str, Any], examiner: _Examiner) -> None:  # noqa: UP006
    """Have the interpreter tell of what code of the commit does that tests have no need of."""
    root = settings["root"] + os.sep
    changed = {root + path for path in settings["watched"]}
    lookers = {root + path for path in settings["may_look"]}
    allowed = (root, *(os.path.realpath(os.environ[name]) + os.sep for name in ("HOME", "TMPDIR")))
    within: Set[int] = set()  # noqa: UP006
    told: Set[Tuple[str, str, str]] = set()  # noqa: UP006

    def hook(event: str, arguments: Tuple[Any, ...]) -> None:  # noqa: UP006
        if event not in _LOOKED_AT:
            return
        if event in _SETTING:
            examiner.functions_changed = True
            return
        me = threading.get_ident()
        if me in within:
            return
        within.add(me)
        try:
            look(event, arguments)
        finally:
            within.discard(me)

    def look(event: str, arguments: Tuple[Any, ...]) -> None:  # noqa: UP006
        if event in _STACK or (event == "object.__getattr__" and arguments[1] == "tb_frame"):
            # To print an error takes its frames, too; whoever has that done does not look himself.
            who = caller(_LOOKERS if event in _STACK else ())
            if who in changed - lookers:
                tell("stack", who, event if event in _STACK else "tb_frame")
        elif event != "object.__getattr__":
            path = target(event, arguments)
            if path and not path.startswith(allowed) and not path.startswith("/dev/"):
                who = nearest()
                if who in changed:
                    tell("wrote", who, path)

    def target(event: str, arguments: Tuple[Any, ...]) -> str:  # noqa: UP006
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITING:
                return ""
        else:
            path = arguments[_WRITES[event]]
        return os.path.realpath(os.fsdecode(path)) if isinstance(path, (str, bytes)) else ""

    def caller(skipped: Tuple[str, ...]) -> str:  # noqa: UP006
        frame: Any = sys._getframe(3)  # pyright: ignore[reportPrivateUsage] - documented, and there is no other
        while skipped and frame is not None and frame.f_code.co_filename.endswith(skipped):
            frame = frame.f_back
        return frame.f_code.co_filename if frame is not None else ""

    def nearest() -> str:
        frame: Any = sys._getframe(3)  # pyright: ignore[reportPrivateUsage] - documented, and there is no other
        while frame is not None and not frame.f_code.co_filename.startswith(root):
            frame = frame.f_back
        return frame.f_code.co_filename if frame is not None else ""

    def tell(what: str, who: str, detail: str) -> None:
        if (what, who, detail) not in told and len(told) < 100:
            told.add((what, who, detail))
            say(kind=what, path=who[len(root) :], detail=detail)

    sys.addaudithook(hook)


def _ask_twice(say: Say, settings: Dict[str, Any]) -> None:  # noqa: UP006
    """Where a test finds something of the program's equal to a value, ask whether it is equal to others as well."""
    root = settings["root"] + os.sep
    changed = {root + path for path in settings["watched"]}

    def same(left: Any, right: Any) -> None:
        for one, other in ((left, right), (right, left)):
            with contextlib.suppress(Exception):
                code = getattr(type(one).__eq__, "__code__", None)
                if code is not None and code.co_filename in changed and all(one == it for it in [other, *_others(other)]):
                    say(kind="equal", path=code.co_filename[len(root) :], what=type(one).__qualname__)
        if isinstance(left, _LISTS) and isinstance(right, _LISTS) and len(left) <= 1_000:
            for one, other in zip(left, right):  # noqa: B905
                same(one, other)
        elif isinstance(left, _DICT) and isinstance(right, _DICT) and len(left) <= 1_000:
            for key in left:
                if key in right:
                    same(left[key], right[key])

    rewriting: Any = importlib.import_module("_pytest.assertion.rewrite")
    unittest: Any = importlib.import_module("unittest")
    visit, assert_equal = rewriting.AssertionRewriter.visit_Compare, unittest.TestCase.assertEqual

    def visit_compare(self: Any, comparison: Any) -> Any:
        begin = len(self.statements)
        result = visit(self, comparison)
        for statement in self.statements[begin:]:
            found = getattr(statement, "value", None)
            if isinstance(statement, ast.Assign) and isinstance(found, ast.Compare) and isinstance(found.ops[0], ast.Eq):
                sides = [copy.deepcopy(side) for side in (found.left, found.comparators[0])]
                place = self.statements.index(statement) + 1
                self.statements.insert(place, ast.Expr(self.helper("_same", *sides)))
        return result

    def equal(self: Any, first: Any, second: Any, msg: Any = None) -> None:
        assert_equal(self, first, second, msg)
        same(first, second)

    rewriting._same = same
    rewriting.AssertionRewriter.visit_Compare = visit_compare
    unittest.TestCase.assertEqual = equal


def _others(value: Any) -> List[Any]:  # noqa: UP006
    """Return values of the same kind that are not equal to it."""
    if isinstance(value, (int, float)):
        return [value + 1, value - 17]
    if isinstance(value, (str, bytes, list, tuple)):
        more: Any = {str: "?", bytes: b"?", list: [object()], tuple: (object(),)}
        return [value + more[kind] for kind in more if isinstance(value, kind)]
    return [object()]


class _Known:
    """Functions and classes as they were, to be compared."""

    def __init__(self, names: Tuple[str, ...], *, of_others: bool = True) -> None:  # noqa: UP006
        """Take what the modules and their classes hold; with `of_others` also that of classes that they import."""
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
            # The first is asked for twice: for a single one the getter would not give a tuple.
            self._spaces.append((owner, space, operator.itemgetter(*held, next(iter(held))), held))
        for value in held.values():
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                self._codes[id(function)] = (function, function.__code__, function.__defaults__)

    def differing(self, *, functions: bool) -> List[Tuple[str, Any]]:  # noqa: UP006
        """Return what has been replaced, and by what.

        Args:
            functions: also look into the functions that are in their places.
        """
        found: List[Tuple[str, Any]] = []  # noqa: UP006
        for owner, space, get, held in self._spaces:
            # This is done for each test, so it is done without a step of Python's for each name.
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
    """Return the modules that call hooks: what they are called differs from one version to the next."""
    return tuple(name for name in sys.modules if name.partition(".")[0] == "pluggy")


class _Examiner:
    """Looks for what would bend pytest's word, and tells."""

    functions_changed = True
    """Whether any function has been given other code, or other defaults, since it was looked at."""

    def __init__(self, say: Say, settings: Dict[str, Any]) -> None:  # noqa: UP006
        self._say, self._root = say, settings["root"] + os.sep
        self.changed = {self._root + path for path in settings["watched"]}
        self._tools, self._builtins = _Known((*_INTERNALS, *_pluggy())), _Known(("builtins",))
        self._reporting = _Known((*_REPORTING, *_pluggy()), of_others=False)
        self._config: Any = None
        self._hooks: Dict[str, List[Any]] = {}  # noqa: UP006
        self._bodies: Dict[str, Any] = {}  # noqa: UP006

    def begin(self, config: Any, items: List[Any]) -> None:  # noqa: UP006
        """Take what there is before the first test."""
        self._config, self._hooks = config, _hooks_of(config)
        self._bodies = {item.nodeid: _body_of(item) for item in items}

    def examine(self, is_over: bool) -> None:
        """Look into functions where the interpreter says that one has changed, and else at what is in which place.

        Args:
            is_over: no test is running, so that what tests change for themselves is what it was again; all is looked at.
        """
        functions, self.functions_changed = self.functions_changed, False
        known = self._tools if is_over or functions else self._reporting
        for name, value in known.differing(functions=functions):
            if not (isinstance(value, types.FunctionType) and self._is_elsewhere(value)):
                self._tell(name)
        for name, value in self._builtins.differing(functions=functions):
            if self._file_of(value) in self.changed or (is_over and not self._is_elsewhere(value)):
                self._tell(name)
        now = _hooks_of(self._config) if self._hooks else {}
        for name, before in self._hooks.items():
            gone = [function for function in before if function not in now[name]]
            come = [function for function in now[name] if function not in before and self._file_of(function) in self.changed]
            if gone or come:
                self._tell(name)

    def examine_item(self, item: Any) -> None:
        """Look at what a test runs."""
        body = _body_of(item)
        # Plugins for asynchronous tests put a function of their own around it.
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

    def _is_elsewhere(self, value: Any) -> bool:
        file = self._file_of(value)
        return bool(file) and os.path.isabs(file) and not file.startswith(self._root)


def _hooks_of(config: Any) -> Dict[str, List[Any]]:  # noqa: UP006
    return {name: [impl.function for impl in getattr(config.hook, name).get_hookimpls()] for name in _HOOKS}


def _body_of(item: Any) -> Any:
    return getattr(getattr(item, "function", None), "__code__", None)


def _plugin(pytest: Any, say: Say, settings: Dict[str, Any], examiner: Optional[_Examiner]) -> Any:  # noqa: UP006, UP045
    state: Dict[str, Any] = {}  # noqa: UP006
    first: Callable[[Any], Any] = pytest.hookimpl(tryfirst=True)
    last: Callable[[Any], Any] = pytest.hookimpl(trylast=True)

    class MustFail(pytest.Item):  # type: ignore[misc]
        """A test that fails, among the others: if it is said to pass, nothing that is said is worth anything."""

        def runtest(self) -> None:
            raise AssertionError("this is to fail")

        def reportinfo(self) -> Any:
            return self.path, None, self.name

    class Plugin:
        @first
        def pytest_load_initial_conftests(self, early_config: Any) -> None:
            os.environ.pop("PYTEST_VERSION", None)
            if not settings["early_path"]:
                _extend_path(settings)
            state["config"] = early_config

        @last
        def pytest_collection_modifyitems(self, session: Any, items: List[Any]) -> None:  # noqa: UP006
            say(kind="collected", ids=[item.nodeid for item in items])
            if examiner is not None:
                examiner.begin(state["config"], items)
            if items:
                state["canary"] = MustFail.from_parent(session, name=settings["canary"])
                items.append(state["canary"])

        def pytest_collectreport(self, report: Any) -> None:
            if not report.passed:
                say(kind="collect", id=report.nodeid, outcome=report.outcome, text=_tail(report))

        @first
        def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
            if examiner is not None:
                examiner.examine_item(item)
                examiner.examine(call.when == "teardown")

        @last
        def pytest_runtest_logreport(self, report: Any) -> None:
            say(
                kind="report",
                id=report.nodeid,
                when=report.when,
                outcome=report.outcome,
                expected=hasattr(report, "wasxfail"),
                text="" if report.outcome == "passed" else _tail(report),
            )

        @last
        def pytest_internalerror(self, excrepr: Any) -> None:
            say(kind="internal", text=str(excrepr)[-_TEXT:])

        @last
        def pytest_sessionfinish(self) -> None:
            if examiner is not None:
                examiner.examine(True)

    return Plugin()


def _tail(report: Any) -> str:
    text = getattr(report, "longreprtext", "") or str(getattr(report, "longrepr", ""))
    return str(text)[-_TEXT:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
