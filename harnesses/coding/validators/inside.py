"""Runs pytest inside the judged process, and reports what came of every test. It is run as a file, never imported.

    judge ──settings (a file, removed when read)──►  this  ──lines, each sealed with a key──►  judge

The law: pytest, and all that the tests import from elsewhere, is loaded before the worktree is on the import path; what is
reported goes into a file that no longer has a name; and what would bend pytest's word is looked for at every report.

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
import os
import threading
import types
from typing import Any, Callable, Dict, List, Set, Tuple  # noqa: UP035 - judged projects may have an older Python

Say = Callable[..., None]

_LOOKERS = (os.sep + "inspect.py",)
_STACK = {"sys._getframe", "sys._current_frames", "gc.get_objects", "gc.get_referrers", "gc.get_referents"}
_WRITES = {"os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1, "os.remove": 0, "os.truncate": 0}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TEXT = 3_000
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
    "pluggy",
    "pluggy._callers",
    "pluggy._hooks",
    "pluggy._manager",
    "pluggy._result",
    "pytest",
    "unittest",
    "unittest.case",
    "unittest.mock",
)
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
    runner._update_current_test_var = lambda *_: None
    _ask_twice(say, settings)
    if settings["early_path"]:
        _extend_path(settings)
    arguments = [*settings["arguments"], *_quietened()]
    _watch(say, settings)
    code = int(pytest.main(arguments, plugins=[_plugin(pytest, say, settings)]))
    say(kind="end", code=code)
    return code


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


def _watch(say: Say, settings: Dict[str, Any]) -> None:  # noqa: UP006
    """Have the interpreter tell of what code of the commit does that tests have no need of."""
    root = settings["root"] + os.sep
    changed = {root + path for path in settings["watched"]}
    lookers = {root + path for path in settings["may_look"]}
    allowed = (root, *(os.path.realpath(os.environ[name]) + os.sep for name in ("HOME", "TMPDIR")))
    within: Set[int] = set()  # noqa: UP006
    told: Set[Tuple[str, str, str]] = set()  # noqa: UP006

    def hook(event: str, arguments: Tuple[Any, ...]) -> None:  # noqa: UP006
        if event not in _STACK and event not in _WRITES and event not in ("open", "object.__getattr__"):
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
        frame: Any = sys._getframe(3)
        while skipped and frame is not None and frame.f_code.co_filename.endswith(skipped):
            frame = frame.f_back
        return frame.f_code.co_filename if frame is not None else ""

    def nearest() -> str:
        frame: Any = sys._getframe(3)
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
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)) and len(left) <= 1_000:
            for one, other in zip(left, right):  # noqa: B905
                same(one, other)
        elif isinstance(left, dict) and isinstance(right, dict) and len(left) <= 1_000:
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

    def __init__(self, names: Tuple[str, ...]) -> None:  # noqa: UP006
        self._held: List[Tuple[Any, str, Any]] = []  # noqa: UP006
        self._codes: List[Tuple[Any, Any, Any]] = []  # noqa: UP006
        for name in names:
            _preload(name)
            module = sys.modules.get(name)
            for key, value in list(vars(module).items()) if module else ():
                self._hold(module, key, value)
                if isinstance(value, type) and value.__module__.partition(".")[0] in ("_pytest", "pluggy", "unittest"):
                    for attribute, member in list(vars(value).items()):
                        self._hold(value, attribute, member)

    def _hold(self, owner: Any, name: str, value: Any) -> None:
        kinds = (types.FunctionType, types.BuiltinFunctionType, type, property, classmethod, staticmethod)
        if isinstance(value, kinds):
            self._held.append((owner, name, value))
        if isinstance(value, types.FunctionType):
            self._codes.append((value, value.__code__, value.__defaults__))

    def differing(self) -> List[Tuple[str, Any]]:  # noqa: UP006
        missing = object()
        found = [
            ("%s.%s" % (getattr(owner, "__name__", owner), name), vars(owner).get(name, missing))  # noqa: UP031
            for owner, name, value in self._held
            if vars(owner).get(name, missing) is not value
        ]
        return found + [
            (function.__qualname__, function)
            for function, code, defaults in self._codes
            if function.__code__ is not code or function.__defaults__ is not defaults
        ]


def _plugin(pytest: Any, say: Say, settings: Dict[str, Any]) -> Any:  # noqa: UP006
    root = settings["root"] + os.sep
    changed = {root + path for path in settings["watched"]}
    known, own = _Known(_INTERNALS), _Known(("builtins",))
    state: Dict[str, Any] = {}  # noqa: UP006

    def file_of(value: Any) -> str:
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is not None:
            return str(code.co_filename)
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        return str(getattr(module, "__file__", None) or "")

    def is_elsewhere(value: Any) -> bool:
        file = file_of(value)
        return bool(file) and os.path.isabs(file) and not file.startswith(root)

    def hooks_of(config: Any) -> Dict[str, List[Any]]:  # noqa: UP006
        return {name: [impl.function for impl in getattr(config.hook, name).get_hookimpls()] for name in _HOOKS}

    def examine(item_is_over: bool) -> None:
        for name, value in known.differing():
            if not (isinstance(value, types.FunctionType) and is_elsewhere(value)):
                say(kind="tampered", what=name)
        for name, value in own.differing():
            if file_of(value) in changed or (item_is_over and not is_elsewhere(value)):
                say(kind="tampered", what=name)
        before: Dict[str, List[Any]] = state.get("hooks", {})  # noqa: UP006
        now = hooks_of(state["config"]) if before else {}
        for name in before:
            gone = [function for function in before[name] if function not in now[name]]
            come = [function for function in now[name] if function not in before[name] and file_of(function) in changed]
            if gone or come:
                say(kind="tampered", what=name)

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
            state["bodies"] = {item.nodeid: getattr(getattr(item, "function", None), "__code__", None) for item in items}
            state["hooks"] = hooks_of(state["config"])
            if items:
                state["canary"] = MustFail.from_parent(session, name=settings["canary"])
                items.append(state["canary"])

        def pytest_collectreport(self, report: Any) -> None:
            if not report.passed:
                say(kind="collect", id=report.nodeid, outcome=report.outcome, text=_tail(report))

        def pytest_runtest_makereport(self, item: Any) -> None:
            body = getattr(getattr(item, "function", None), "__code__", None)
            # Plugins for asynchronous tests put a function of their own around it.
            if state.get("bodies", {}).get(item.nodeid, body) is not body and getattr(body, "co_filename", "") in changed:
                say(kind="tampered", what=item.nodeid)

        @last
        def pytest_runtest_logreport(self, report: Any) -> None:
            examine(report.when == "teardown")
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
            examine(True)

    return Plugin()


def _tail(report: Any) -> str:
    text = getattr(report, "longreprtext", "") or str(getattr(report, "longrepr", ""))
    return str(text)[-_TEXT:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
