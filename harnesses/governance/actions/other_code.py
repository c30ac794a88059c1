"""What code does of languages that are not parsed, by what is named in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from harnesses.governance.actions.nouns import UNKNOWN, Category, Changes, Found, Sayings, Word, Write, unclear
from harnesses.governance.actions.python_names import WRITES

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


def other(text: str) -> Sayings:
    """Say what code of another language does, by what is named in it."""
    for pattern, said in _NAMED:
        found = re.search(pattern, text)
        if found:
            yield Changes(WRITES, "it may change files")
            yield said(found.group().strip())
    for path in _paths(text):
        yield Changes(WRITES, "it writes files")
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
