"""What code does that is given to an interpreter on its command line: Python by its syntax tree, other languages by what is
named in them. Pure.

A path or a command is followed as far as it is spelt out. What is not is said to be unknown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from harnesses.governance.actions.data import mongo, sql
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
from harnesses.governance.actions.options import names

_WRITES, _DELETES = "destructive-shell", "destructive-shell"
_SHELLS = names(
    "os.system os.popen subprocess.getoutput subprocess.getstatusoutput asyncio.create_subprocess_shell commands.getoutput"
)
_PROGRAMS = names(
    "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen trio.run_process "
    "os.execv os.execve os.execvp os.execvpe os.posix_spawn os.posix_spawnp pty.spawn sh.Command anyio.run_process"
)
_SPREAD = names("os.execl os.execle os.execlp os.execlpe asyncio.create_subprocess_exec")
_SPAWNS = names(
    "os.spawnl os.spawnle os.spawnlp os.spawnlpe os.spawnv os.spawnve os.spawnvp os.spawnvpe os.startfile os.fork os.forkpty"
)
_TREES = names("shutil.rmtree os.removedirs send2trash.send2trash distutils.dir_util.remove_tree")
_ONE = {
    "os.remove": (0,),
    "os.unlink": (0,),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "os.mkdir": (0,),
    "os.makedirs": (0,),
    "os.rename": (0, 1),
    "os.renames": (0, 1),
    "os.replace": (0, 1),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.mknod": (0,),
    "shutil.move": (0, 1),
    "shutil.copy": (1,),
    "shutil.copy2": (1,),
    "shutil.copyfile": (1,),
    "shutil.copytree": (1,),
    "shutil.copymode": (1,),
    "shutil.chown": (0,),
    "shutil.unpack_archive": (1,),
    "shutil.make_archive": (0,),
    "urllib.request.urlretrieve": (1,),
}
"""Functions that write to, move or remove what is at some of their arguments."""
_RUNS_CODE = names("eval exec compile builtins.eval builtins.exec builtins.compile")
_HIDES = names(
    "__import__ importlib.import_module importlib.__import__ runpy.run_path runpy.run_module code.interact "
    "marshal.loads pickle.loads pickle.load types.FunctionType globals locals vars builtins.__import__ "
    "operator.attrgetter operator.methodcaller"
)
_HIDDEN_MODULES = frozenset({"ctypes", "cffi", "pty", "_posixsubprocess", "posix", "imp", "runpy", "code", "codeop"})
_REMOTE_METHODS = frozenset({"exec_command", "invoke_shell"})
_PATH_WRITES = frozenset(
    {"write_text", "write_bytes", "unlink", "rmdir", "touch", "symlink_to", "hardlink_to", "chmod", "mkdir"}
)
_PATH_MOVES = frozenset({"rename", "replace"})
_GIVES_UP = frozenset({"__subclasses__", "__globals__", "__builtins__", "__code__", "__getattribute__", "__reduce__"})


def code(language: str, text: str) -> Sayings:
    """Say what code does."""
    if language == "sql":
        yield from sql(text)
    elif language == "mongo":
        yield from mongo(text)
    elif language == "python":
        yield from python(text)
    else:
        yield from _other(text)


def python(text: str) -> Sayings:
    """Say what Python code does."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield unclear("its Python can not be read")
        yield from _other(text.replace(UNKNOWN, " "))
        return
    yield from _Python(tree).sayings()


class _Python:
    """The names of one module, and what it calls."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._aliases: dict[str, str] = {}
        self._values: dict[str, ast.expr | None] = {}
        self._called = {id(node.func) for node in self._nodes if isinstance(node, ast.Call)}
        self._inner = {id(node.value) for node in self._nodes if isinstance(node, ast.Attribute)}
        self._note_names()

    def sayings(self) -> Sayings:
        for node in self._nodes:
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from _imports(node)
            elif isinstance(node, ast.Attribute | ast.Name):
                yield from self._mention(node)

    def _note_names(self) -> None:
        for node in self._nodes:
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
        for node in self._nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                assigned.setdefault(node.targets[0].id, []).append(node.value)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                assigned.setdefault(node.target.id, []).append(_first_of(node.iter))
        stores = [node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        for name, values in assigned.items():
            if len(values) == 1 and stores.count(name) == 1:
                self._values[name] = values[0]

    def _name(self, node: ast.expr) -> str:
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
            first = self._name(value) or first
        return ".".join([first, *reversed(parts)]).removeprefix("builtins.")

    def _mention(self, node: ast.Attribute | ast.Name) -> Sayings:
        """Look at what is named without being called: it may be called under another name."""
        if isinstance(node, ast.Attribute) and node.attr in _GIVES_UP:
            yield unclear(f"{node.attr} leads anywhere")
        if id(node) in self._called or id(node) in self._inner or not isinstance(node.ctx, ast.Load):
            return
        name = self._name(node)
        if name in _SHELLS | _PROGRAMS | _SPREAD | _SPAWNS | _TREES | _RUNS_CODE | _HIDES or name in (
            "__builtins__",
            "os",
            "subprocess",
            "shutil",
        ):
            yield unclear(f"{name} is handed on, and it is not seen what is done with it")

    def _call(self, node: ast.Call) -> Sayings:
        name = self._name(node.func)
        first = node.args[0] if node.args else None
        if name in _SHELLS:
            yield Shell(self._word(first))
        elif name in _PROGRAMS:
            yield from self._program(
                node,
                first
                if not name.startswith("os.exec") and not name.startswith("os.posix")
                else node.args[1]
                if len(node.args) > 1
                else None,
            )
        elif name in _SPREAD:
            yield Run(tuple(self._word(argument) for argument in (node.args if name.startswith("asyncio") else node.args[1:])))
        elif name in _SPAWNS:
            yield unclear(f"{name} starts a program")
        elif name in _TREES:
            yield Changes(_DELETES, "it deletes files")
            yield Found(Category.BROAD_DELETE, f"{name} deletes folders with all that is in them")
        elif name in _ONE:
            yield from self._files(node, name)
        elif name in _RUNS_CODE:
            yield Code("python", self._word(first))
        elif name in _HIDES or (
            name in ("getattr", "setattr", "delattr") and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
        ):
            yield unclear(f"{name} can stand for anything")
        elif name == "getattr" and self._name(node.args[0]) in ("os", "subprocess", "shutil", "builtins", "__builtins__"):
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
        found = self._resolved(first)
        if isinstance(found, ast.List | ast.Tuple):
            words = tuple(self._word(element) for element in found.elts)
            yield Shell(words[0]) if shell and words else Run(words)
        elif shell:
            yield Shell(self._word(first))
        else:
            word = self._word(first)
            # `"ls -l".split()` and a program's name alone.
            yield Run(tuple(Word(text) for text in word.text.split()) if word.known else (word,))

    def _files(self, node: ast.Call, name: str) -> Sayings:
        yield Changes(_WRITES, f"{name} changes files")
        for place in _ONE[name]:
            yield Write(self._word(node.args[place] if place < len(node.args) else None))
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
        said = self._word(mode).text if not isinstance(mode, ast.Attribute | ast.BinOp) else UNKNOWN
        if re.search(r"[wax+]", said) or UNKNOWN in said:
            yield Changes(_WRITES, "it writes a file")
            yield Write(self._word(path))

    def _method(self, node: ast.Call, function: ast.Attribute, first: ast.expr | None) -> Sayings:
        method, receiver = function.attr, function.value
        if method in ("execute", "executescript", "executemany", "raw", "exec_driver_sql"):
            yield from _sql_of(self._word(first))
        elif method in ("drop_database", "flushall", "flushdb", "drop_all", "drop_collection", "drop_table"):
            yield Found(Category.DB_DESTROY, f"{method} destroys what is in the database")
        elif method == "delete_many" and isinstance(first, ast.Dict) and not first.keys:
            yield Found(Category.DB_DESTROY, "it deletes all that is in a collection")
        elif method in _REMOTE_METHODS:
            yield Found(Category.REMOTE_EXEC, "it runs something on another machine")
        elif method in _PATH_WRITES and (method != "mkdir" or self._is_path(receiver)):
            yield Changes(_WRITES, "it changes files")
            yield Write(self._word(receiver))
        elif method in _PATH_MOVES and self._is_path(receiver):
            yield Changes(_WRITES, "it moves files")
            yield Write(self._word(receiver))
            yield Write(self._word(first))
        elif method == "open" and self._is_path(receiver):
            yield from self._opens(node, receiver, 0)
        elif method in ("extractall", "extract"):
            yield Changes(_WRITES, "it writes files")
        elif method in ("rmtree", "remove_tree"):
            yield Found(Category.BROAD_DELETE, "it deletes folders with all that is in them")
        elif method in ("system", "popen", "check_output", "check_call", "Popen", "getoutput"):
            yield unclear(f"{method} runs a program, it is not seen which")

    def _is_path(self, node: ast.expr) -> bool:
        found = self._resolved(node)
        if isinstance(found, ast.Call):
            return self._name(found.func).rpartition(".")[2] in ("Path", "PosixPath", "PurePath", "cwd", "home") or (
                isinstance(found.func, ast.Attribute)
                and found.func.attr
                in ("glob", "rglob", "iterdir", "resolve", "with_suffix", "with_name", "joinpath", "absolute", "expanduser")
            )
        return (isinstance(found, ast.BinOp) and isinstance(found.op, ast.Div)) or (
            isinstance(found, ast.Attribute) and found.attr in ("parent",)
        )

    def _resolved(self, node: ast.expr | None) -> ast.expr | None:
        for _ in range(10):
            if not isinstance(node, ast.Name) or self._values.get(node.id) is None:
                break
            node = self._values[node.id]
        return node

    def _word(self, node: ast.expr | None, depth: int = 0) -> Word:
        """Return a text as far as it is spelt out."""
        found = self._resolved(node)
        if depth > 20 or found is None:
            return Word(UNKNOWN)
        match found:
            case ast.Constant(value=str() as value):
                return Word(value)
            case ast.Constant(value=bytes() as value):
                return Word(value.decode("utf-8", "replace"))
            case ast.JoinedStr(values=values):
                return Word("".join(self._word(value, depth + 1).text for value in values))
            case ast.FormattedValue(value=value):
                return self._word(value, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return Word(self._word(left, depth + 1).text + self._word(right, depth + 1).text)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return Word(f"{self._word(left, depth + 1).text}/{self._word(right, depth + 1).text}")
            case ast.Call():
                return self._word_of_call(found, depth)
            case _:
                return Word(UNKNOWN)

    def _word_of_call(self, node: ast.Call, depth: int) -> Word:
        last = self._name(node.func).rpartition(".")[2]
        if (
            last in ("Path", "PosixPath", "PurePath", "str", "fspath", "abspath", "realpath", "expanduser", "normpath")
            and node.args
        ):
            return Word("/".join(self._word(argument, depth + 1).text for argument in node.args))
        if last == "home":
            return Word("~")
        if last == "cwd":
            return Word(".")
        if self._name(node.func) == "os.path.join":
            return Word("/".join(self._word(argument, depth + 1).text for argument in node.args))
        if isinstance(node.func, ast.Attribute):
            base = node.func.value
            if node.func.attr in ("glob", "rglob") and node.args:
                pattern = self._word(node.args[0], depth + 1)
                return Word(f"{self._word(base, depth + 1).text}/{pattern.text}", glob=pattern.known)
            if node.func.attr in ("resolve", "absolute", "expanduser", "strip", "as_posix", "split"):
                return self._word(base, depth + 1)
            if node.func.attr == "joinpath":
                return Word("/".join(self._word(part, depth + 1).text for part in (base, *node.args)))
        return Word(UNKNOWN)


def _sql_of(word: Word) -> Sayings:
    if UNKNOWN in word.text and not re.match(r"(?i)\s*(select|insert|pragma|show|explain)", word.text):
        yield unclear("the SQL is not known")
    yield from sql(word.text)


def _first_of(node: ast.expr) -> ast.expr | None:
    """Return what stands for each that a loop goes through: a search for files stands for itself."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("sorted", "list") and node.args:
        node = node.args[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("glob", "rglob"):
        return node
    return None


def _imports(node: ast.Import | ast.ImportFrom) -> Sayings:
    modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    for module in modules:
        if module.partition(".")[0] in _HIDDEN_MODULES:
            yield unclear(f"{module} can do anything")
    if (
        isinstance(node, ast.ImportFrom)
        and node.names[0].name == "*"
        and node.module in ("os", "shutil", "subprocess", "builtins")
    ):
        yield unclear(f"all of {node.module} is imported under its bare names")


_NAMED: Sequence[tuple[str, Callable[[str], Found]]] = (
    (
        r"rmSync|\brimraf\b|\brmdirSync?\s*\(|\bfs(\.promises)?\.rm\b|fs/promises|rm_rf|rm_r\b|"
        r"remove_entry|remove_dir|File::Path|rmtree|remove_tree|emptyDir|deltree|Deno\.remove",
        lambda found: Found(Category.BROAD_DELETE, f"{found} deletes folders with all that is in them"),
    ),
    (
        r"child_process|\bexec(Sync|File|FileSync|v|vp|l)?\s*\(|\bexec\s+['\"]|\bspawn(Sync)?[\s(]|"
        r"\bsystem\s*[('\"\[]|\bpopen\d?\b|Open3|%x[\[{(]|\bqx\b|`|shell_exec|passthru|proc_open|"
        r"pcntl_exec|os\.execute|Deno\.(run|Command)|Bun\.(spawn|\$)|\bfork\b|Process\.spawn|"
        r"do shell script|Runtime\.getRuntime|start-process|invoke-expression|\biex\b|dlopen",
        lambda found: unclear(f"{found} runs a program, it is not seen which"),
    ),
    (
        r"\beval\b|\bFunction\s*\(|instance_eval|class_eval|loadstring|\bload\s*\(|\batob\b|"
        r"Buffer\.from|unpack\s*\(|base64|\\x[0-9a-fA-F]{2}|fromCharCode|\bsend\s*\(|__import__|"
        r"importlib|frombase64string|process\.binding|vm\.run",
        lambda found: unclear(f"{found} can hide what it does"),
    ),
    (
        r"(?i)\bdropDatabase\b|\bflushall\b|\bdrop\s+(table|database|schema)\b|\btruncate\s+table\b|"
        r"\bdelete\s+from\s+\w+\s*['\"`;]",
        lambda found: Found(Category.DB_DESTROY, f"{found} destroys what is in the database"),
    ),
)
_FILE_CALLS = re.compile(
    r"(?:writeFile(?:Sync)?|appendFile(?:Sync)?|createWriteStream|unlink(?:Sync)?|"
    r"rename(?:Sync)?|copyFile(?:Sync)?|truncate(?:Sync)?"
    r"|chmod(?:Sync)?|File\.(?:write|delete|rename|open|new|unlink)|IO\.write|FileUtils\.\w+|"
    r"file_put_contents|fopen|writeTextFile(?:Sync)?|Bun\.write|io\.open|set-content)"
    r"\s*[( ]\s*(?P<path>'[^']*'|\"[^\"]*\"|[^,)\s;]+)?(?P<rest>[^;\n)]*)"
)
_READ_MODE = re.compile(r"^\s*,\s*['\"]r[bt]?['\"]|^\s*$")


def _other(text: str) -> Sayings:
    """Say what code of another language does, by what is named in it."""
    for pattern, said in _NAMED:
        found = re.search(pattern, text)
        if found:
            yield Changes(_WRITES, "it may change files")
            yield said(found.group().strip())
    for path in _paths(text):
        yield Changes(_WRITES, "it writes files")
        yield Write(path)
    if UNKNOWN in text:
        yield unclear("part of the code is not known")


def _paths(text: str) -> Iterator[Word]:
    for call in _FILE_CALLS.finditer(text):
        name = call.group().partition("(")[0].strip()
        if name.endswith(("open", "File.new")) and _READ_MODE.match(call.group("rest")):
            continue
        path = call.group("path") or ""
        yield Word(path[1:-1]) if path[:1] in "'\"" and path else Word(UNKNOWN)
    for path in re.findall(r"open\s*\(?\s*(?:my\s+)?\$?\w+\s*,\s*['\"]\+?>{1,2}(?:['\"]\s*,\s*['\"])?\s*([^'\"]*)['\"]", text):
        yield Word(path or UNKNOWN)


LANGUAGES: Mapping[str, str] = {
    "python": "python",
    "pypy": "python",
    "ipython": "python",
    "node": "javascript",
    "nodejs": "javascript",
    "deno": "javascript",
    "bun": "javascript",
    "ruby": "ruby",
    "irb": "ruby",
    "perl": "perl",
    "php": "php",
    "lua": "lua",
    "luajit": "lua",
    "rscript": "r",
    "osascript": "applescript",
    "groovy": "groovy",
    "julia": "julia",
    "tclsh": "tcl",
    "expect": "tcl",
}
"""Interpreters, and the language that each reads."""
