"""What the names in a Python module stand for, and the texts and paths that are spelt out in it. Pure."""

from __future__ import annotations

import ast
from collections import Counter

from harnesses.governance.actions.nouns import UNKNOWN, Word

_MAX_NAMES = 20
"""Names that stand for each other."""
_MAX_WORDS = 10_000
"""Parts of texts that are put together for one module; what comes after them is not known."""


class Module:
    """The names of one module, and what is said with them."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = list(ast.walk(tree))
        self._aliases: dict[str, str] = {}
        self._values: dict[str, ast.expr | None] = {}
        self.called = {id(node.func) for node in self.nodes if isinstance(node, ast.Call)}
        self.inner = {id(node.value) for node in self.nodes if isinstance(node, ast.Attribute)}
        self._words = 0
        self._note_names()

    def _note_names(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._aliases[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self._aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._values[node.id] = None
        assigned: dict[str, list[ast.expr | None]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                assigned.setdefault(node.target.id, []).append(_first_of(node.iter))
        stores = Counter(node.id for node in self.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        for name, values in assigned.items():
            if len(values) == 1 and stores[name] == 1:
                self._values[name] = values[0]

    def name(self, node: ast.expr, depth: int = 0) -> str:
        """Return the dotted name of what is called, by the names of the modules that it comes from; empty if there is none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        first = self._aliases.get(node.id, node.id)
        value = self._values.get(node.id)
        if isinstance(value, ast.Attribute | ast.Name) and node.id not in self._aliases and value is not node:
            first = (self.name(value, depth + 1) if depth < _MAX_NAMES else "") or first
        return ".".join([first, *reversed(parts)]).removeprefix("builtins.")

    def resolved(self, node: ast.expr | None) -> ast.expr | None:
        for _ in range(10):
            if not isinstance(node, ast.Name) or self._values.get(node.id) is None:
                break
            node = self._values[node.id]
        return node

    def word(self, node: ast.expr | None, depth: int = 0) -> Word:
        """Return a text as far as it is spelt out."""
        found = self.resolved(node)
        self._words += 1
        if depth > 20 or self._words > _MAX_WORDS or found is None:
            return Word(UNKNOWN)
        match found:
            case ast.Constant(value=str() as value):
                return Word(value)
            case ast.Constant(value=bytes() as value):
                return Word(value.decode("utf-8", "replace"))
            case ast.JoinedStr(values=values):
                return Word("".join(self.word(value, depth + 1).text for value in values))
            case ast.FormattedValue(value=value):
                return self.word(value, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return Word(self.word(left, depth + 1).text + self.word(right, depth + 1).text)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return Word(f"{self.word(left, depth + 1).text}/{self.word(right, depth + 1).text}")
            case ast.Call():
                return self._word_of_call(found, depth)
            case _:
                return Word(UNKNOWN)

    def _word_of_call(self, node: ast.Call, depth: int) -> Word:
        last = self.name(node.func).rpartition(".")[2]
        if (
            last in ("Path", "PosixPath", "PurePath", "str", "fspath", "abspath", "realpath", "expanduser", "normpath")
            and node.args
        ):
            return Word("/".join(self.word(argument, depth + 1).text for argument in node.args))
        if last == "home":
            return Word("~")
        if last == "cwd":
            return Word(".")
        if self.name(node.func) == "os.path.join":
            return Word("/".join(self.word(argument, depth + 1).text for argument in node.args))
        if isinstance(node.func, ast.Attribute):
            base = node.func.value
            if node.func.attr in ("glob", "rglob") and node.args:
                pattern = self.word(node.args[0], depth + 1)
                return Word(f"{self.word(base, depth + 1).text}/{pattern.text}", glob=pattern.known)
            if node.func.attr in ("resolve", "absolute", "expanduser", "strip", "as_posix", "split"):
                return self.word(base, depth + 1)
            if node.func.attr == "joinpath":
                return Word("/".join(self.word(part, depth + 1).text for part in (base, *node.args)))
        return Word(UNKNOWN)

    def is_path(self, node: ast.expr) -> bool:
        found = self.resolved(node)
        if isinstance(found, ast.Call):
            return self.name(found.func).rpartition(".")[2] in ("Path", "PosixPath", "PurePath", "cwd", "home") or (
                isinstance(found.func, ast.Attribute)
                and found.func.attr
                in ("glob", "rglob", "iterdir", "resolve", "with_suffix", "with_name", "joinpath", "absolute", "expanduser")
            )
        return (isinstance(found, ast.BinOp) and isinstance(found.op, ast.Div)) or (
            isinstance(found, ast.Attribute) and found.attr in ("parent",)
        )


def _first_of(node: ast.expr) -> ast.expr | None:
    """Return what stands for each that a loop goes through: a search for files stands for itself."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("sorted", "list") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("glob", "rglob"):
        return node
    return None
