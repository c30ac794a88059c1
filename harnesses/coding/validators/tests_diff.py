"""Compares two versions of a test module, statement by statement. No I/O.

Invariant: every statement of the first version is still there, unchanged, in the same order and in its class; only tests,
helpers, constants and imports were added, under unused names, and nothing that changes how the other tests run. Comments,
layout and docstrings may change; imports may be merged and moved.

In case of doubt a change is refused: a test that was rewritten for the better is refused too, because only a person can tell.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_HOOKS = frozenset(
    {"setUpModule", "tearDownModule", "setup_module", "teardown_module", "setup_function", "teardown_function", "setup"}
    | {"teardown", "load_tests", "setUp", "tearDown", "setUpClass", "tearDownClass", "asyncSetUp", "asyncTearDown"}
    | {"setup_method", "teardown_method", "setup_class", "teardown_class", "runTest", "run"}
)
_SETTINGS = frozenset({"pytestmark", "collect_ignore", "collect_ignore_glob", "pytest_plugins"})
_BUILTINS = frozenset(dir(builtins))


def changes_to_tests(before: str, after: str, *, arguments: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the changes that make a test module weaker, or could; empty if there are none.

    Args:
        arguments: names that tests in other modules request from this module's fixtures.
    """
    try:
        old = _plain(ast.parse(before))
    except (SyntaxError, ValueError):
        return () if before == after else ("was changed, although it could not be parsed before: restore it",)
    try:
        new = _plain(ast.parse(after))
    except (SyntaxError, ValueError) as error:
        return (f"does not parse: {error}",)
    used = _names_used(old)
    return tuple(_compare(old.body, new.body, "", used | _BUILTINS, used | frozenset(arguments)))


def arguments_of(source: str) -> frozenset[str]:
    """Return the names of all parameters in a module, which include the fixtures that its tests request."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(node.arg for node in ast.walk(tree) if isinstance(node, ast.arg))


def _plain(tree: ast.Module) -> ast.Module:
    """Return a module without docstrings; docstrings with examples are tests and are kept."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | _Function) and node.body and _is_docstring(node.body[0]):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and ">>>" not in node.value.value
    )


def _names_used(tree: ast.AST) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.ClassDef | _Function):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            # `usefixtures("name")`, `getattr(module, "name")`
            names.add(node.value)
    return frozenset(names)


def _compare(
    old: list[ast.stmt], new: list[ast.stmt], where: str, taken: frozenset[str], fixtures: frozenset[str]
) -> Iterator[str]:
    imports, added_imports = _imports(old), _imports(new)
    for gone in sorted(imports - added_imports):
        yield f"{where}the import of {gone[1] or gone[0]} was removed: restore it"
    yield from _new_imports(added_imports - imports, where, taken)
    rest = [node for node in old if not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass)]
    place = 0
    for node in new:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
            continue
        found = next(
            (index for index in range(place, len(rest)) if _same(rest[index], node) or _same_class(rest[index], node)), None
        )
        if found is not None:
            yield from (_missing(gone, new, where) for gone in rest[place:found])
            if not _same(rest[found], node):
                yield from _inside(rest[found], node, taken, fixtures)
            place = found + 1
        elif not _is_another_version(node, rest[place:]):
            yield from _added(node, where, taken, fixtures)
    yield from (_missing(gone, new, where) for gone in rest[place:])


def _inside(old: ast.stmt, new: ast.stmt, taken: frozenset[str], fixtures: frozenset[str]) -> Iterator[str]:
    assert isinstance(old, ast.ClassDef)
    assert isinstance(new, ast.ClassDef)
    names = _names_used(old)
    yield from _compare(old.body, new.body, f"class {old.name}: ", names | (taken & _SETTINGS), fixtures)


def _same(old: ast.stmt, new: ast.stmt) -> bool:
    return ast.dump(old) == ast.dump(new)


def _same_class(old: ast.stmt, new: ast.stmt) -> bool:
    if not (isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef)) or old.name != new.name:
        return False
    return [ast.dump(part) for part in (*old.bases, *old.keywords, *old.decorator_list)] == [
        ast.dump(part) for part in (*new.bases, *new.keywords, *new.decorator_list)
    ]


def _is_another_version(node: ast.stmt, rest: list[ast.stmt]) -> bool:
    """Return whether a statement is a changed version of a missing one, which is then reported instead."""
    return isinstance(node, ast.ClassDef | _Function) and any(
        isinstance(other, ast.ClassDef | _Function) and other.name == node.name for other in rest
    )


def _imports(body: list[ast.stmt]) -> set[tuple[str, str, str]]:
    found: set[tuple[str, str, str]] = set()
    for node in body:
        if isinstance(node, ast.Import):
            found.update((alias.name, "", alias.asname or "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.update((module, alias.name, alias.asname or alias.name) for alias in node.names)
    return found


def _new_imports(added: set[tuple[str, str, str]], where: str, taken: frozenset[str]) -> Iterator[str]:
    for module, name, bound in sorted(added):
        meaning = bound or module.partition(".")[0]
        if name == "*":
            yield f"{where}`from {module} import *` may change the meaning of names: import them by name"
        elif (module, name) == ("__future__", "annotations"):
            continue
        elif meaning in taken and not (not name and not bound):
            yield f"{where}the import of {meaning} from {module} changes the meaning of a name in use: use another name"
        elif module.partition(".")[0] in ("_pytest", "pluggy", "builtins"):
            yield f"{where}imports {module}, which tests must not use: do without it"


def _added(node: ast.stmt, where: str, taken: frozenset[str], fixtures: frozenset[str]) -> Iterator[str]:
    at = f"{where}line {node.lineno}: "
    if isinstance(node, ast.ClassDef | _Function):
        yield from _added_definition(node, at, taken, fixtures)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if not isinstance(target, ast.Name):
                yield f"{at}`{ast.unparse(target)}` was changed: only additions are allowed in tests"
            elif target.id in taken | _SETTINGS or _is_dunder(target.id):
                yield f"{at}`{target.id}` was assigned: only additions under new names are allowed in tests"
    elif not isinstance(node, ast.Pass) and not _is_text(node):
        yield f"{at}`{ast.unparse(node).splitlines()[0][:80]}` was added: only tests, helpers, constants and imports may be"


def _added_definition(
    node: ast.ClassDef | _Function, at: str, taken: frozenset[str], fixtures: frozenset[str]
) -> Iterator[str]:
    if node.name in taken:
        yield f"{at}`{node.name}` changes the meaning of a name in use: use another name"
    if node.name in _HOOKS or node.name.startswith("pytest_") or _is_dunder(node.name):
        yield f"{at}`{node.name}` changes how the other tests run: do without it"
    for decorator in node.decorator_list:
        yield from _added_fixture(decorator, node.name, at, fixtures)


def _added_fixture(decorator: ast.expr, name: str, at: str, fixtures: frozenset[str]) -> Iterator[str]:
    call = decorator if isinstance(decorator, ast.Call) else None
    if not ast.unparse(call.func if call else decorator).endswith("fixture"):
        return
    keywords = {keyword.arg: keyword.value for keyword in call.keywords} if call else {}
    given = keywords.get("name")
    names = {name} if given is None else {given.value if isinstance(given, ast.Constant) else None}
    auto = keywords.get("autouse")
    if None in keywords or (auto is not None and not (isinstance(auto, ast.Constant) and auto.value is False)):
        yield f"{at}the fixture `{name}` is used by every test: request it in the new tests instead"
    if names & fixtures or None in names:
        yield f"{at}the fixture `{name}` replaces one that tests request: use another name"


def _missing(gone: ast.stmt, new: list[ast.stmt], where: str) -> str:
    if not isinstance(gone, ast.ClassDef | _Function):
        text = ast.unparse(gone).splitlines()[0][:80]
        return f"{where}`{text}` (line {gone.lineno}) was removed, changed or moved: restore it"
    same_name = [node for node in new if isinstance(node, ast.ClassDef | _Function) and node.name == gone.name]
    if not same_name:
        return f"{where}`{gone.name}` was removed: restore it"
    marks = {ast.unparse(mark) for mark in same_name[0].decorator_list} - {ast.unparse(mark) for mark in gone.decorator_list}
    added = f" (now with @{', @'.join(sorted(marks))})" if marks else ""
    return f"{where}`{gone.name}` was changed or moved{added}: restore it; add new tests next to it"


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
