"""The structure of the code: imports point down, packages are ordered, pure modules stay pure, folders and ladders stay small.

Imports within functions and under `TYPE_CHECKING` count like any other. Each rule is a function from a tree of sources to what
breaks it; the tests apply it to this project, and to a small project with one violation planted.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pytest
from attrs import field, frozen

from tests import ROOT

FORBIDDEN = {
    "harnesses": ("orchestrator",),
    "harnesses.effects": ("harnesses.agents", "harnesses.features", "harnesses.governance", "harnesses.memory"),
    "harnesses.guard": ("harnesses.governance", "harnesses.agents"),
    "harnesses.trading": (
        *(f"harnesses.{name}" for name in ("features", "coding", "pipeline")),
        *(f"harnesses.agents.{name}" for name in ("chat", "command", "model", "sandbox", "scripted_agent")),
    ),
    "harnesses.features": ("harnesses.coding", "harnesses.pipeline", "harnesses.trading"),
    "orchestrator.store": ("orchestrator.recording", "orchestrator.runtime", "orchestrator.cli", "orchestrator.analysis"),
    "orchestrator.recording": ("orchestrator.runtime", "orchestrator.mail", "orchestrator.cli"),
    "orchestrator.runtime": ("orchestrator.orchestrator", "orchestrator.cli", "orchestrator.analysis", "orchestrator.history"),
    "orchestrator.history": ("orchestrator.cli", "orchestrator.analysis", "orchestrator.orchestrator"),
    "orchestrator.analysis": ("orchestrator.cli", "orchestrator.runtime", "orchestrator.orchestrator"),
    "orchestrator.telemetry": ("orchestrator.cli", "orchestrator.analysis"),
}
"""What a package may not import, beyond what the order of packages rules out."""
READY_MADE = tuple(f"harnesses.{name}" for name in ("trading", "features", "coding", "pipeline", "run_file_harnesses"))
KNOW_READY_MADE = ("harnesses", "orchestrator.presets", "orchestrator.analysis.presets", "orchestrator.cli")
"""Who may import ready-made harnesses."""
FRONT_DOORS = ("__init__", "__main__")
SPINES = ("harnesses", "orchestrator")
"""Packages whose own modules are each a package in the order: the modules that everything else hangs on."""
MOST_MODULES = 22
MOST_LEVELS = 3
MOST_LEVELS_OF_ERRORS = 5
COMMON_NAMES = ("__init__", "__main__", "errors")


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PURE_IMPORTS = names(
    "__future__ abc array ast attrs bisect builtins collections configparser csv dataclasses datetime decimal difflib "
    "enum fnmatch functools graphlib hashlib hmac importlib inspect io ipaddress itertools json math msgspec operator "
    "pathlib re shlex tomllib types textwrap typing unicodedata uuid weakref"
)
IMPURE_CALLS = names(
    "now utcnow today open print input uuid1 uuid4 urandom getenv exists is_file is_dir iterdir read_text read_bytes stat"
)
CORE = names("attrs msgspec outcome structlog trio")
OF_COMMAND = "cyclopts"
"""The extra of the command: imported in `orchestrator.cli` alone, whose `main` imports the rest of it when it is called."""
EXTRAS = names(
    "anthropic apprise cryptography duckdb duckdb_ext h11 markdown_it mcp openai opentelemetry pandas polars "
    "prometheus_client psycopg pyarrow rich scipy textual tree_sitter tree_sitter_bash vl_convert"
)
"""Packages that come with an extra: imported only within functions."""


@frozen
class Project:
    """Sources by the dotted names of their modules; a package is named by its `__init__`."""

    texts: Mapping[str, str]
    trees: Mapping[str, ast.Module] = field(init=False)
    nodes: Mapping[str, list[ast.AST]] = field(init=False)
    """The imports, classes and calls of each module."""
    own_imports: Mapping[str, frozenset[str]] = field(init=False)
    """The modules of the project that each module imports."""

    @trees.default
    def _parse(self) -> dict[str, ast.Module]:
        return {name: ast.parse(text) for name, text in self.texts.items()}

    @nodes.default
    def _find_nodes(self) -> dict[str, list[ast.AST]]:
        kinds = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Call)
        return {name: [node for node in ast.walk(tree) if isinstance(node, kinds)] for name, tree in self.trees.items()}

    @own_imports.default
    def _find_own_imports(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(self.imports(name)) & self.texts.keys() for name in self.texts}

    def module(self, name: str) -> str | None:
        """Return the module of a dotted name, be it a module or a package."""
        return next((found for found in (name, f"{name}.__init__") if found in self.texts), None)

    def imports(self, name: str) -> Iterator[str]:
        """Yield the modules that a module imports, those of the project by their names in it."""
        for node in self.nodes[name]:
            if isinstance(node, ast.Import):
                yield from (self.module(alias.name) or alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                yield from (self.module(f"{module}.{alias.name}") or self.module(module) or module for alias in node.names)


def _within(name: str, packages: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def package_of(name: str) -> str:
    """Return the place of a module in the order of packages: its folder, or itself where it is a front door or on a spine.

    A ready-made harness is one package with all that is in it.
    """
    folder, _, last = name.rpartition(".")
    ready_made = next((package for package in READY_MADE if _within(folder, (package,))), folder)
    return name if folder in SPINES or (last in FRONT_DOORS and folder == ready_made) else ready_made


def wrong_directions(project: Project) -> Iterator[str]:
    """Find imports that the table forbids, and ready-made harnesses where nobody may know them."""
    for name in project.texts:
        for other in project.own_imports[name]:
            if any(_within(name, (package,)) and _within(other, forbidden) for package, forbidden in FORBIDDEN.items()):
                yield f"{name} imports {other}"
            if _within(other, READY_MADE) and not _within(name, KNOW_READY_MADE):
                yield f"{name} knows the ready-made {other}"


def _ring(edges: Mapping[str, set[str]]) -> list[str]:
    """Return the nodes that are in a cycle, or between two."""
    left = dict(edges)
    while ended := [
        node
        for node, others in left.items()
        if not others & left.keys() or not any(node in imported for imported in left.values())
    ]:
        for node in ended:
            del left[node]
    return sorted(left)


def module_cycles(project: Project) -> Iterator[str]:
    yield from _ring({name: project.own_imports[name] - {name} for name in project.texts})


def package_cycles(project: Project) -> Iterator[str]:
    """Find packages that import each other, directly or round a ring: the order of packages must be partial."""
    edges: dict[str, set[str]] = {}
    for name in project.texts:
        here = package_of(name)
        edges.setdefault(here, set()).update(set(map(package_of, project.own_imports[name])) - {here})
    yield from _ring(edges)


def impurities(project: Project) -> Iterator[str]:
    """Find what a module that calls itself `Pure.` has of the world: I/O, clocks, chance, or modules that have."""
    for name, tree in project.trees.items():
        if _declares_purity(tree):
            for other in set(project.imports(name)):
                if other not in project.texts and other.split(".")[0] not in PURE_IMPORTS:
                    yield f"{name} is pure and imports {other}"
            for node in project.nodes[name]:
                if isinstance(node, ast.Call) and _called(node) in IMPURE_CALLS:
                    yield f"{name} is pure and calls {_called(node)}"


def _declares_purity(tree: ast.Module) -> bool:
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    return bool(re.search(r"\bPure( values)?\.$", first))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def full_folders(project: Project) -> Iterator[str]:
    for folder, count in Counter(name.rpartition(".")[0] for name in project.texts).items():
        if count > MOST_MODULES:
            yield f"{folder} has {count} modules"


def shared_names(project: Project) -> Iterator[str]:
    for base, count in Counter(name.rpartition(".")[2] for name in project.texts).items():
        if count > 1 and base not in COMMON_NAMES:
            yield base


def _origin(project: Project, module: str, name: str) -> str:
    """Return the whole name of what is imported from a module, or from a package that gives it out."""
    for node in project.nodes[found] if (found := project.module(module)) else ():
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return _origin(project, node.module or "", name)
    return f"{module}.{name}"


def deep_classes(project: Project) -> Iterator[str]:
    """Find classes that have too many levels of the project's own classes, themselves included.

    An error may have more of them: its place in the tree says what an `except` catches.
    """
    bases: dict[str, list[str]] = {}
    for name, nodes in project.nodes.items():
        known = {node.name: f"{name}.{node.name}" for node in nodes if isinstance(node, ast.ClassDef)}
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name: _origin(project, node.module or "", alias.name) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                named = (re.sub(r"\[.*", "", ast.unparse(base)) for base in node.bases)
                bases[f"{name}.{node.name}"] = [known.get(base, base) for base in named]

    def levels(name: str) -> int:
        return 1 + max(map(levels, bases[name]), default=0) if name in bases else 0

    def is_error(name: str) -> bool:
        return name in ("Exception", "BaseException", "ExceptionGroup") or any(map(is_error, bases.get(name, ())))

    for name in bases:
        if levels(name) > (MOST_LEVELS_OF_ERRORS if is_error(name) else MOST_LEVELS):
            yield f"{name} has {levels(name)} levels"


SCREENS = frozenset({"orchestrator.cli.read.watch_screen"})
"""Modules whose classes are made of an extra's: imported within functions only, where the extra is there."""
CHECKERS = frozenset({"typing_extensions"})
"""Packages that every type checker brings along: imported under `TYPE_CHECKING`, never when the program runs."""


def undeclared_packages(project: Project) -> Iterator[str]:
    """Find packages of others that are neither the core's nor an extra's, and extras that are imported at once."""
    for name, tree in project.trees.items():
        found = {module.split(".")[0] for module in project.imports(name) if module not in project.texts}
        others = found - sys.stdlib_module_names - set(SPINES)
        commands = {OF_COMMAND} if _within(name, ("orchestrator.cli",)) else set[str]()
        yield from (f"{name} imports {other}" for other in others - CORE - EXTRAS - CHECKERS - commands)
        at_once = {alias.name.split(".")[0] for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
        at_once |= {(node.module or "").split(".")[0] for node in tree.body if isinstance(node, ast.ImportFrom)}
        yield from (f"{name} imports {screen} at once" for screen in SCREENS if _imports_at_once(tree, screen))
        if name not in SCREENS:
            yield from (f"{name} imports the extra {other} at once" for other in at_once & (EXTRAS | CHECKERS))


def _imports_at_once(tree: ast.Module, module: str) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == module for node in tree.body)


RULES = (
    wrong_directions,
    module_cycles,
    package_cycles,
    impurities,
    full_folders,
    shared_names,
    deep_classes,
    undeclared_packages,
)


@pytest.fixture(scope="module")
def project() -> Project:
    texts: dict[str, str] = {}
    for package in SPINES:
        for path in (ROOT / package).rglob("*.py"):
            texts[".".join(path.relative_to(ROOT).with_suffix("").parts)] = path.read_text(encoding="utf-8")
    return Project(texts)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps_every_rule_of_its_structure(project, rule):
    assert sorted(set(rule(project))) == []


PLANTED = {
    "wrong_directions": {"harnesses.step": "from orchestrator import handle", "orchestrator.handle": ""},
    "module_cycles": {
        "harnesses.agents.one": "import harnesses.agents.two",
        "harnesses.agents.two": "def f():\n    from harnesses.agents import one",
    },
    "package_cycles": {
        "harnesses.effects.once": "import harnesses.budgets.pools",
        "harnesses.budgets.spending": "import harnesses.effects.approval",
        "harnesses.budgets.pools": "",
        "harnesses.effects.approval": "",
    },
    "impurities": {"harnesses.step": '"""Steps. Pure."""\nimport trio'},
    "full_folders": {f"harnesses.agents.m{number}": "" for number in range(MOST_MODULES + 1)},
    "shared_names": {"harnesses.agents.model": "", "harnesses.trading.model": ""},
    "deep_classes": {
        "harnesses.base": "class A: pass\nclass B(A): pass",
        "harnesses.__init__": "from harnesses.base import B",
        "harnesses.loop": "from harnesses import B\nclass C(B): pass\nclass D(C[int]): pass\nclass E(Exception): pass",
    },
    "undeclared_packages": {"harnesses.step": "import duckdb"},
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_planted_violation_is_found_by_its_rule_alone(rule):
    planted = Project(PLANTED[rule.__name__])

    assert {other.__name__ for other in RULES if list(other(planted))} == {rule.__name__}


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        (wrong_directions, {"orchestrator.mail.post": "from harnesses.trading import bars", "harnesses.trading.__init__": ""}),
        (impurities, {"harnesses.step": '"""Steps. Pure."""\nopen("x")'}),
        (undeclared_packages, {"harnesses.step": "def f():\n    import requests"}),
        (undeclared_packages, {"orchestrator.handle": "def f():\n    import cyclopts"}),
    ],
)
def test_the_other_half_of_a_rule_is_found_too(rule, texts):
    assert list(rule(Project(texts))) != []
