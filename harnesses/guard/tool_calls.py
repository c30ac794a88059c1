"""Judges a tool call, in the form in which coding agents pass it to a hook before they execute it.

{"tool_name": "Bash", "tool_input": {"command": "git push --force"}, "cwd": "/work"}
{"tool": "write_file", "arguments": {"path": ".env", "content": "…"}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from harnesses.guard.allowed_paths import protected_path
from harnesses.guard.command_findings import classify
from harnesses.guard.command_model import UNREADABLE, Finding

_NAMES = ("tool_name", "toolName", "tool", "name", "function")
_INPUTS = ("tool_input", "toolInput", "input", "arguments", "args", "parameters", "params")
_COMMANDS = ("command", "cmd", "commands", "script", "bash_command", "shell_command")
_PATHS = (
    *("file_path", "filePath", "path", "notebook_path", "target_file", "filename", "file", "target", "destination"),
    *("new_path", "old_path", "source", "relative_path", "abs_path", "paths", "files", "edits"),
)
_PATCHES = ("patch", "diff", "input", "content")
_WRITES = re.compile(
    r"(multi_?|notebook_?)?(write|edit|create|delete|move|rename|copy|save|update|append|patch|overwrite|insert|replace)"
    r"(_file|_directory)?|apply_?patch|str_replace(_editor|_based_edit_tool)?"
)
"""Names of tools that write, in lower case."""
_TELLING = re.compile(
    r"(^|[_.\-/:])(delete|drop|destroy|remove|purge|publish|deploy|merge|push|release|send|execute|exec|eval|run|write|put|"
    r"terminate|revoke|grant|apply|rollback|upload)"
)
_SHELLS = re.compile(r"|(ba)?sh|.*(shell|command|terminal|bash).*|cmd|container\.exec")
"""Names of tools that run their input in a shell: without a command, a call of one is refused."""
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*|(?:\+\+\+|---) (?!/dev/null)(?:[ab]/)?([^\t\n]+).*)$",
    re.MULTILINE,
)
"""File names in a patch."""


def classify_call(
    call: object, *, disposable: Collection[str] = (), root: str = "", allow: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return why a tool call needs an approval; empty if it needs none.

    Args:
        root: the agent's working folder, if the call does not name one.
    """
    if not isinstance(call, Mapping):
        return (Finding(UNREADABLE, "the call is not a JSON object that names a tool and its input", repr(call)[:200]),)
    fields = cast(Mapping[str, Any], call)
    name = next((str(fields[key]) for key in _NAMES if isinstance(fields.get(key), str)), "")
    folder = fields.get("cwd")
    root = folder if isinstance(folder, str) else root
    found = dict.fromkeys(_judge(name.lower().rpartition("__")[2], _input_of(fields), disposable, root))
    return tuple(one for one in found if one.category not in allow)


def _input_of(fields: Mapping[str, Any]) -> object:
    for key in _INPUTS:
        value = fields.get(key)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return {"input": value}
        if value is not None:
            return value
    return {key: value for key, value in fields.items() if key not in (*_NAMES, "cwd")}


def _judge(name: str, given: object, disposable: Collection[str], root: str) -> Iterator[Finding]:
    if not isinstance(given, Mapping):
        yield Finding(UNREADABLE, f"the input of {name or 'the tool'} is not a JSON object", repr(given)[:200])
        return
    fields = cast(Mapping[str, Any], given)
    if _WRITES.fullmatch(name):
        # Its `command` is the kind of change, as in {"command": "create", "path": …}.
        yield from _judge_writes(name, fields, root) if fields.get("command") != "view" else ()
        return
    commands = [fields[key] for key in _COMMANDS if key in fields]
    if isinstance(fields.get("code"), str):
        commands.append(["python", "-c", fields["code"]])
    for command in commands:
        words = cast(list[object], command if isinstance(command, list) else [command])
        if words and all(isinstance(word, str) for word in words):
            yield from classify(cast(Any, command), disposable=disposable, root=root)
        else:
            yield Finding(UNREADABLE, "the command is neither text nor a list of words", repr(words)[:200])
    if not commands and _SHELLS.fullmatch(name):
        yield Finding(UNREADABLE, "the call contains no command" if name else "the call names no tool and no command", "")
    elif not commands and _TELLING.search(name):
        yield Finding(UNREADABLE, f"the tool {name} is unknown, and its name suggests that it changes something", "")


def _judge_writes(name: str, fields: Mapping[str, Any], root: str) -> Iterator[Finding]:
    patches = (fields[key] for key in _PATCHES if isinstance(fields.get(key), str))
    paths = list(_paths(fields)) or [old or new for patch in patches for old, new in _PATCHED.findall(patch)]
    if not paths:
        yield Finding(UNREADABLE, f"the path that {name} writes to is unknown", "")
    for path in paths:
        found = protected_path(path, root=root)
        if found is not None:
            yield found


def _paths(fields: Mapping[str, Any]) -> Iterator[str]:
    for key in _PATHS:
        value = fields.get(key)
        for one in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield one
            elif isinstance(one, Mapping):
                yield from _paths(cast(Mapping[str, Any], one))
