"""Runs pytest inside the judged process, and reports the outcome of every test. It is run as a file, never imported.

    judge ──settings (a file, removed when read)──►  this  ──lines, each sealed with a key──►  judge

Invariants: pytest, and everything that the tests import from other packages, is loaded before the worktree is on the import
path; reports go into a file that no longer has a name. If nothing differs from the base, nothing is checked: the code is the
owner's.

The code under test runs in this process and could fake a test's outcome: running the tests inverted (`turn_round`) shows that.
This module checks for what is the same in both runs: values that also equal other values (`equality`), code that inspects its
caller or the expected results (`audit_hook`), changes to what tests rely on (`examiner`).
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false

from __future__ import annotations

import sys

if __name__ == "__main__":
    # The directory of this file, whose modules are named after what they judge.
    sys.path.pop(0)

import ast
import contextlib
import copy
import faulthandler
import hmac
import importlib
import importlib.util
import itertools
import json
import logging
import operator
import os
import pdb
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple  # noqa: UP035 - judged projects may have an older Python

Say = Callable[..., None]

_TEXT = 3_000
_OPERATORS: Dict[type, Tuple[str, Callable[[Any, Any], Any]]] = {  # noqa: UP006
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("==", operator.ne),
    ast.In: ("in", lambda left, right: left in right),
    ast.NotIn: ("in", lambda left, right: left not in right),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<", operator.le),
    ast.Gt: ("<", operator.gt),
    ast.GtE: ("<", operator.ge),
    ast.Sub: ("==", operator.sub),
}
"""By operator of a test module: the check to make before it is applied, and its function."""
_EXPLAINED = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Call, ast.keyword, ast.Attribute, ast.Compare, ast.Starred)
"""Expressions of an assertion whose parts pytest explains."""
_UNITTEST = {
    **dict.fromkeys(("assertEqual", "assertNotEqual", "assertAlmostEqual", "assertListEqual", "assertDictEqual"), "=="),
    **dict.fromkeys(("assertSequenceEqual", "assertCountEqual", "assertSetEqual", "assertTupleEqual"), "=="),
    **dict.fromkeys(("assertLess", "assertLessEqual", "assertGreater", "assertGreaterEqual"), "<"),
    "assertIn": "in",
}


def main(settings_path: str) -> int:
    """Run pytest with the settings in a file."""
    with open(settings_path, encoding="utf-8") as file:
        settings: Dict[str, Any] = json.load(file)  # noqa: UP006
    os.unlink(settings_path)
    say, note = _sayers(os.open(settings["report"], os.O_WRONLY | os.O_APPEND), settings["key"])
    os.unlink(settings["report"])
    root = settings["root"]
    os.chdir(root)
    sys.argv = ["pytest"]
    for name in settings["preload"]:
        _preload(name)
    pytest = importlib.import_module("pytest")
    runner: Any = importlib.import_module("_pytest.runner")
    # A program under test that checks for it must behave as it does for its users.
    runner._update_current_test_var = _nothing
    # The program must not be able to import this module.
    sys.modules["__main__"] = types.ModuleType("__main__")
    examiner = None
    if not settings["trusted"]:
        _compare_first(note, settings, _part("equality"))
        examiner = _part("examiner").Examiner(say, settings)
    if settings["early_path"]:
        _extend_path(settings)
    arguments = [*settings["arguments"], *_quietened()]
    if examiner is not None:
        _part("audit_hook").watch(note, settings, examiner.look_into_functions)
    plugins = [make(pytest, say, settings, examiner) for make in (_collection, _reports)]
    code = int(pytest.main(arguments, plugins=plugins))
    say(kind="end", code=code)
    return code


def _nothing(*_: object) -> None:
    pass


def _part(name: str) -> Any:
    """Load a module in this directory, without a name by which it could be found."""
    spec: Any = importlib.util.spec_from_file_location(
        name, os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _sayers(report: int, key: str) -> Tuple[Say, Say]:  # noqa: UP006
    """Return functions that report and that note texts; the second uses nothing that Python code could replace."""
    seal = hmac.new(key.encode(), digestmod="sha256")
    write, quoted, numbers = os.write, json.encoder.encode_basestring_ascii, itertools.count()

    def put(text: str) -> None:
        mine = seal.copy()
        mine.update(text.encode())
        write(report, ("%s %s\n" % (mine.hexdigest(), text)).encode())  # noqa: UP031

    def say(**line: object) -> None:
        put(json.dumps({"n": next(numbers), **line}))

    def note(**line: str) -> None:
        parts = ", ".join([quoted(name) + ": " + quoted(text) for name, text in line.items()])
        put('{"n": %d, %s}' % (next(numbers), parts))  # noqa: UP031

    return say, note


def _compare_first(note: Say, settings: Dict[str, Any], equality: Any) -> None:  # noqa: UP006
    """Check both values before each comparison in a test; see `equality`."""
    tests = {os.path.join(settings["root"], path) for path in settings["tests"]}
    names, scalars = frozenset(settings["test_names"]), equality.SCALARS

    def compare(operator: str, left: Any, right: Any) -> None:
        if id(type(left)) in scalars and id(type(right)) in scalars:
            return  # Tests compare often.
        with contextlib.suppress(Exception):
            for one in equality.liars(operator, left, right):
                kind = type(one)
                if not is_of_tests(kind):
                    note(kind="equal", path=str(kind.__module__), what=str(kind.__qualname__))

    def is_of_tests(kind: type) -> bool:
        """Return whether the tests define a value that equals many others, or name it themselves, like `mock.ANY`."""
        _, equal = equality.defined(kind, "__eq__")
        file = equal.__code__.co_filename if type(equal) is types.FunctionType else ""
        is_others = os.path.isfile(file) and not file.startswith(settings["root"] + os.sep)
        name = kind.__name__.strip("_")
        return file in tests or (is_others and name in names and not name.endswith("Mock"))

    rewriting: Any = importlib.import_module("_pytest.assertion.rewrite")
    unittest: Any = importlib.import_module("unittest")
    rewriter: Any = rewriting.AssertionRewriter
    visit, run = rewriter.visit_Compare, rewriter.run

    def visit_compare(self: Any, comparison: Any) -> Any:
        begin = len(self.statements)
        result = visit(self, comparison)
        for statement in self.statements[begin:]:
            found = getattr(statement, "value", None)
            if isinstance(statement, ast.Assign) and isinstance(found, ast.Compare) and type(found.ops[0]) in _OPERATORS:
                sides = [copy.deepcopy(side) for side in (found.left, found.comparators[0])]
                asked = self.helper("_compare_first", ast.Constant(_OPERATORS[type(found.ops[0])][0]), *sides)
                self.statements.insert(self.statements.index(statement), ast.Expr(asked))
        return result

    def run_asking(self: Any, module: Any) -> None:
        if not rewriter.is_rewrite_disabled(ast.get_docstring(module) or ""):
            _Asking().visit(module)
        run(self, module)

    def apply(name: str, left: Any, right: Any) -> Any:
        what, does = _OPERATORS[getattr(ast, name)]
        compare(what, left, right)
        return does(left, right)

    def asking(what: str, asserts: Any) -> Any:
        def method(self: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> None:
            compare(what, first, second)
            asserts(self, first, second, *args, **kwargs)

        return method

    rewriting._compare_first, rewriting._apply = compare, apply
    rewriter.visit_Compare, rewriter.run = visit_compare, run_asking
    for name, what in _UNITTEST.items():
        setattr(unittest.TestCase, name, asking(what, getattr(unittest.TestCase, name)))


class _Asking(ast.NodeTransformer):
    """Inserts the check before comparisons outside of assertions, and before all subtractions."""

    _explained = False
    """Whether pytest explains the comparisons here, and so makes the check itself."""

    def visit(self, node: ast.AST) -> Any:
        before = self._explained
        self._explained = isinstance(node, ast.Assert) or (before and isinstance(node, _EXPLAINED))
        result = super().visit(node)
        self._explained = before
        return result

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        is_left = self._explained or len(node.ops) > 1 or type(node.ops[0]) not in _OPERATORS
        return node if is_left else self._applied(node, node.ops[0], node.left, node.comparators[0])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return self._applied(node, node.op, node.left, node.right) if isinstance(node.op, ast.Sub) else node

    @staticmethod
    def _applied(node: ast.AST, how: ast.AST, *sides: ast.expr) -> ast.AST:
        function = ast.Attribute(ast.Name("@pytest_ar", ast.Load()), "_apply", ast.Load())
        call = ast.Call(function, [ast.Constant(type(how).__name__), *sides], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def _preload(name: str) -> None:
    with contextlib.suppress(Exception):  # its users get the error themselves
        importlib.import_module(name)


def _extend_path(settings: Dict[str, Any], plugins: Any = ()) -> None:  # noqa: UP006
    for place in reversed(settings["path"]):
        if place not in sys.path:
            sys.path.insert(0, place)
    # Plugins may have loaded an installed copy of what is to be tested. One that is a plugin itself is in use.
    used = {getattr(plugin, "__name__", type(plugin).__module__).partition(".")[0] for plugin in plugins}
    for name in [name for name in sys.modules if name.partition(".")[0] in set(settings["own"]) - used]:
        del sys.modules[name]
    # For Python processes started by the tests.
    os.environ["PYTHONPATH"] = os.pathsep.join([*settings["path"], os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def _quietened() -> List[str]:  # noqa: UP006
    """Return arguments that disable workers and coverage, which the configuration may enable."""
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return []
    found = importlib.util.find_spec
    return [*(["-n0"] if found("xdist") else []), *(["--no-cov"] if found("pytest_cov") else [])]


def _collection(pytest: Any, say: Say, settings: Dict[str, Any], examiner: Optional[Any]) -> Any:  # noqa: UP006, UP045
    """Return the plugin that reports collected tests. Its state is in closures, because tests could reach its attributes."""
    state: Dict[str, Any] = {}  # noqa: UP006
    set_trace = pdb.set_trace

    class MustFail(pytest.Item):  # type: ignore[misc]
        """A test that must fail: if it is reported to pass, no report can be trusted."""

        def runtest(self) -> None:
            raise AssertionError("this must fail")

        def repr_failure(self, excinfo: Any, style: Any = None) -> str:
            return "this must fail"  # pytest would read the source of each frame

        def reportinfo(self) -> Any:
            return self.path, None, self.name

    class Collection:
        @pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]
        def pytest_load_initial_conftests(self, early_config: Any) -> None:
            os.environ.pop("PYTEST_VERSION", None)
            if not settings["early_path"]:
                _extend_path(settings, early_config.pluginmanager.get_plugins())
            state["config"] = early_config
            paths = [os.path.splitext(path)[0].split("/") for path in settings["tests"] if path.endswith(".py")]
            helpers = {".".join(parts[at:]) for parts in paths for at in range(len(parts))}
            early_config.pluginmanager.rewrite_hook.mark_rewrite(*(helpers - set(sys.modules)))

        @pytest.hookimpl(trylast=True)  # type: ignore[untyped-decorator]
        def pytest_collection_modifyitems(self, session: Any, items: List[Any]) -> None:  # noqa: UP006
            say(kind="collected", ids=[item.nodeid for item in items])
            if examiner is not None:
                examiner.begin(state["config"], items)
            if settings["bare"]:
                faulthandler.disable()
                pdb.set_trace = set_trace
            if items:
                state["canary"] = MustFail.from_parent(session, name=settings["canary"])
                items.append(state["canary"])

        def pytest_collectreport(self, report: Any) -> None:
            if not report.passed:
                say(kind="collect", id=report.nodeid, outcome=report.outcome, text=_tail(report))

    return Collection()


def _reports(pytest: Any, say: Say, settings: Dict[str, Any], examiner: Optional[Any]) -> Any:  # noqa: UP006, UP045
    """Return the plugin that reports the outcome of each test."""
    first: Callable[[Any], Any] = pytest.hookimpl(tryfirst=True)
    last: Callable[[Any], Any] = pytest.hookimpl(trylast=True)

    class Reports:
        @pytest.hookimpl(hookwrapper=True, trylast=True)  # type: ignore[untyped-decorator]
        def pytest_runtest_call(self, item: Any) -> Iterator[None]:
            if settings["bare"] and "caplog" not in getattr(item, "fixturenames", ()):
                handlers = logging.getLogger().handlers
                handlers[:] = [one for one in handlers if not type(one).__module__.startswith("_pytest")]
            yield

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

    return Reports()


def _tail(report: Any) -> str:
    text = getattr(report, "longreprtext", "") or str(getattr(report, "longrepr", ""))
    return str(text)[-_TEXT:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
