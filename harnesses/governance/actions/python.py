"""What Python code does, by its syntax tree. Pure."""

from __future__ import annotations

import ast
import re

from harnesses.governance.actions.nouns import (
    UNKNOWN,
    Category,
    Changes,
    Code,
    Found,
    Run,
    Sayings,
    Shell,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.other_code import other
from harnesses.governance.actions.python_module import Module
from harnesses.governance.actions.python_names import (
    DELETES,
    GIVES_UP,
    HIDDEN_MODULES,
    HIDES,
    ONE,
    PATH_MOVES,
    PATH_WRITES,
    PROGRAMS,
    REMOTE_METHODS,
    RUNS_CODE,
    SHELLS,
    SPAWNS,
    SPREAD,
    TREES,
    WRITES,
)
from harnesses.governance.actions.sql import sql_of


def python(text: str) -> Sayings:
    """Say what Python code does."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield unclear("its Python can not be read")
        yield from other(text.replace(UNKNOWN, " "))
        return
    yield from _Python(tree).sayings()


class _Python:
    """What one module does."""

    def __init__(self, tree: ast.Module) -> None:
        self._in = Module(tree)

    def sayings(self) -> Sayings:
        for node in self._in.nodes:
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from _imports(node)
            elif isinstance(node, ast.Attribute | ast.Name):
                yield from self._mention(node)

    def _mention(self, node: ast.Attribute | ast.Name) -> Sayings:
        """Look at what is named without being called: it may be called under another name."""
        if isinstance(node, ast.Attribute) and node.attr in GIVES_UP:
            yield unclear(f"{node.attr} leads anywhere")
        if id(node) in self._in.called or id(node) in self._in.inner or not isinstance(node.ctx, ast.Load):
            return
        name = self._in.name(node)
        if name in SHELLS | PROGRAMS | SPREAD | SPAWNS | TREES | RUNS_CODE | HIDES or name in (
            "__builtins__",
            "os",
            "subprocess",
            "shutil",
        ):
            yield unclear(f"{name} is handed on, and it is not seen what is done with it")

    def _call(self, node: ast.Call) -> Sayings:
        name = self._in.name(node.func)
        first = node.args[0] if node.args else None
        if name in SHELLS:
            yield Shell(self._in.word(first))
        elif name in PROGRAMS:
            yield from self._program(
                node,
                first
                if not name.startswith("os.exec") and not name.startswith("os.posix")
                else node.args[1]
                if len(node.args) > 1
                else None,
            )
        elif name in SPREAD:
            yield Run(
                tuple(self._in.word(argument) for argument in (node.args if name.startswith("asyncio") else node.args[1:]))
            )
        elif name in SPAWNS:
            yield unclear(f"{name} starts a program")
        elif name in TREES:
            yield Changes(DELETES, "it deletes files")
            yield Found(Category.BROAD_DELETE, f"{name} deletes folders with all that is in them")
        elif name in ONE:
            yield from self._files(node, name)
        elif name in RUNS_CODE:
            yield Code("python", self._in.word(first))
        elif name in HIDES or (
            name in ("getattr", "setattr", "delattr") and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
        ):
            yield unclear(f"{name} can stand for anything")
        elif name == "getattr" and self._in.name(node.args[0]) in ("os", "subprocess", "shutil", "builtins", "__builtins__"):
            yield unclear("getattr hides what is called")
        elif name in ("open", "io.open", "os.open", "codecs.open"):
            yield from self._opens(node, first, 1)
        elif name.startswith("smtplib."):
            yield Found(Category.PUBLISH, "it sends a message")
        elif isinstance(node.func, ast.Attribute):
            yield from self._method(node, node.func, first)
        elif not name:
            yield from ()

    def _program(self, node: ast.Call, first: ast.expr | None) -> Sayings:
        shell = any(
            keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            for keyword in node.keywords
        )
        if any(keyword.arg is None for keyword in node.keywords):
            yield unclear("it is not known how it runs a program")
        if first is None:
            first = next((keyword.value for keyword in node.keywords if keyword.arg in ("args", "command")), None)
        found = self._in.resolved(first)
        if isinstance(found, ast.List | ast.Tuple):
            words = tuple(self._in.word(element) for element in found.elts)
            yield Shell(words[0]) if shell and words else Run(words)
        elif shell:
            yield Shell(self._in.word(first))
        else:
            word = self._in.word(first)
            # `"ls -l".split()` and a program's name alone.
            yield Run(tuple(Word(text) for text in word.text.split()) if word.known else (word,))

    def _files(self, node: ast.Call, name: str) -> Sayings:
        yield Changes(WRITES, f"{name} changes files")
        for place in ONE[name]:
            yield Write(self._in.word(node.args[place] if place < len(node.args) else None))
        if name == "os.chmod" and len(node.args) > 1:
            mode = node.args[1]
            if not isinstance(mode, ast.Constant) or not isinstance(mode.value, int) or mode.value & 0o6002 or not mode.value:
                yield Found(
                    Category.PERM_DESTROY, "it opens the file to everybody, closes it to all, or has it run as its owner"
                )

    def _opens(self, node: ast.Call, path: ast.expr | None, place: int) -> Sayings:
        mode = next((keyword.value for keyword in node.keywords if keyword.arg in ("mode", "flags")), None)
        mode = mode or (node.args[place] if len(node.args) > place else None)
        if mode is None:
            return
        said = self._in.word(mode).text if not isinstance(mode, ast.Attribute | ast.BinOp) else UNKNOWN
        if re.search(r"[wax+]", said) or UNKNOWN in said:
            yield Changes(WRITES, "it writes a file")
            yield Write(self._in.word(path))

    def _method(self, node: ast.Call, function: ast.Attribute, first: ast.expr | None) -> Sayings:
        method, receiver = function.attr, function.value
        if method in ("execute", "executescript", "executemany", "raw", "exec_driver_sql"):
            yield from sql_of(self._in.word(first))
        elif method in ("drop_database", "flushall", "flushdb", "drop_all", "drop_collection", "drop_table"):
            yield Found(Category.DB_DESTROY, f"{method} destroys what is in the database")
        elif method == "delete_many" and isinstance(first, ast.Dict) and not first.keys:
            yield Found(Category.DB_DESTROY, "it deletes all that is in a collection")
        elif method in REMOTE_METHODS:
            yield Found(Category.REMOTE_EXEC, "it runs something on another machine")
        elif method in PATH_WRITES and (method != "mkdir" or self._in.is_path(receiver)):
            yield Changes(WRITES, "it changes files")
            yield Write(self._in.word(receiver))
        elif method in PATH_MOVES and self._in.is_path(receiver):
            yield Changes(WRITES, "it moves files")
            yield Write(self._in.word(receiver))
            yield Write(self._in.word(first))
        elif method == "open" and self._in.is_path(receiver):
            yield from self._opens(node, receiver, 0)
        elif method in ("extractall", "extract"):
            yield Changes(WRITES, "it writes files")
        elif method in ("rmtree", "remove_tree"):
            yield Found(Category.BROAD_DELETE, "it deletes folders with all that is in them")
        elif method in ("system", "popen", "check_output", "check_call", "Popen", "getoutput"):
            yield unclear(f"{method} runs a program, it is not seen which")


def _imports(node: ast.Import | ast.ImportFrom) -> Sayings:
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        if module.partition(".")[0] in HIDDEN_MODULES:
            yield unclear(f"{module} can do anything")
    if (
        isinstance(node, ast.ImportFrom)
        and node.names[0].name == "*"
        and node.module in ("os", "shutil", "subprocess", "builtins")
    ):
        yield unclear(f"all of {node.module} is imported under its bare names")
