"""Judging the call of a tool, as coding agents hand it to a hook before they make it.

{"tool_name": "Bash", "tool_input": {"command": "git push --force"}, "cwd": "/work"}
{"tool": "write_file", "arguments": {"path": ".env", "content": "…"}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from harnesses.governance.actions.findings import classify
from harnesses.governance.actions.nouns import UNREADABLE, Finding, names
from harnesses.governance.actions.paths import protected_path

_NAMES = ("tool_name", "toolName", "tool", "name", "function")
_INPUTS = ("tool_input", "toolInput", "input", "arguments", "args", "parameters", "params")
_COMMANDS = ("command", "cmd", "commands", "script", "bash_command", "shell_command")
_PATHS = (
    *("file_path", "filePath", "path", "notebook_path", "target_file", "filename", "file", "target", "destination"),
    *("new_path", "old_path", "source", "relative_path", "abs_path", "paths", "files"),
)
_PATCHES = ("patch", "diff", "input", "content")
WRITE_TOOLS = names(
    "write edit multiedit notebookedit write_file edit_file create_file delete_file move_file rename_file copy_file "
    "apply_patch applypatch str_replace str_replace_editor str_replace_based_edit_tool replace insert create "
    "save_file overwrite update_file append_file patch multi_edit notebook_edit create_directory delete move rename"
)
"""Tools that write, by their names in lower case. Whoever may only look gets none of them."""
READ_TOOLS = names(
    "read read_file read_many_files view open_file grep find ls list list_files list_directory glob search "
    "search_files search_file_content websearch web_search webfetch web_fetch todowrite todoread task think "
    "notebookread codebase_search get_diagnostics askuserquestion exitplanmode bashoutput killshell"
)
"""Tools that only look."""
SHELL_TOOLS = names(
    "bash sh shell terminal exec execute command powershell run_command run_shell_command run_terminal_cmd "
    "run_in_terminal execute_command execute_bash shell_command local_shell container.exec bash_tool"
)
"""Tools that run what they are given in a shell."""
_TELLING = re.compile(
    r"(?i)(^|[_.\-/:])(delete|drop|destroy|remove|purge|publish|deploy|merge|push|release|send|execute|exec|eval|run|write|put|"
    r"terminate|revoke|grant|apply|rollback|upload)"
)


def classify_call(
    call: object, *, disposable: Collection[str] = (), root: str = "", allow: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return why the call of a tool needs an approval; nothing if it may be made without.

    Args:
        root: the folder where the agent works, if the call does not say.
    """
    if not isinstance(call, Mapping):
        return (Finding(UNREADABLE, "it is no JSON object that names a tool and its input", repr(call)[:200]),)
    fields = cast(Mapping[str, Any], call)
    name = next((str(fields[key]) for key in _NAMES if isinstance(fields.get(key), str)), "")
    given = _input_of(fields)
    folder = fields.get("cwd")
    root = folder if isinstance(folder, str) else root
    found = dict.fromkeys(_judged(name.lower().rpartition("__")[2], given, disposable, root))
    return tuple(one for one in found if one.category not in allow)


def _input_of(fields: Mapping[str, Any]) -> object:
    for key in _INPUTS:
        value = fields.get(key)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return {"input": value}
        if value is not None:
            return value
    return {key: value for key, value in fields.items() if key not in (*_NAMES, "cwd")}


def _judged(name: str, given: object, disposable: Collection[str], root: str) -> Iterator[Finding]:
    if not isinstance(given, Mapping):
        yield Finding(UNREADABLE, f"the input of {name or 'the tool'} is no JSON object", repr(given)[:200])
        return
    fields = cast(Mapping[str, Any], given)
    commands = [fields[key] for key in _COMMANDS if key in fields]
    if name in READ_TOOLS:
        return
    if name in WRITE_TOOLS:
        # Its `command` says which kind of change, as in {"command": "create", "path": …}.
        if fields.get("command") == "view":
            return
        yield from _written(name, fields, root)
        return
    for command in commands:
        yield from _of_command(command, disposable, root)
    if "code" in fields and isinstance(fields["code"], str):
        yield from classify(["python", "-c", fields["code"]], disposable=disposable, root=root)
        commands.append("")
    if not commands:
        if not name or name in SHELL_TOOLS:
            yield Finding(UNREADABLE, "it names no command" if name else "it names no tool and no command", "")
        elif _TELLING.search(name):
            yield Finding(
                UNREADABLE, f"what the tool {name} does is not known, and its name says that it changes something", ""
            )


def _of_command(command: object, disposable: Collection[str], root: str) -> Iterator[Finding]:
    if isinstance(command, str):
        yield from classify(command, disposable=disposable, root=root)
        return
    shown = repr(command)[:200]
    words: list[object] = cast(Any, command) if isinstance(command, list) else []
    texts = [word for word in words if isinstance(word, str)]
    if words and len(texts) == len(words):
        yield from classify(texts, disposable=disposable, root=root)
    else:
        yield Finding(UNREADABLE, "its command is neither text nor a list of words", shown)


def _written(name: str, fields: Mapping[str, Any], root: str) -> Iterator[Finding]:
    paths = list(_paths(fields))
    if not paths:
        paths = [path for key in _PATCHES if isinstance(fields.get(key), str) for path in _patched(fields[key])]
    if not paths:
        yield Finding(UNREADABLE, f"it is not known what {name} writes to", "")
    for path in paths:
        found = protected_path(path, root=root)
        if found is not None:
            yield found


def _paths(fields: Mapping[str, Any]) -> Iterator[str]:
    for key in _PATHS:
        value = fields.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for one in cast(list[object], value):
                yield from _paths(cast(Mapping[str, Any], one)) if isinstance(one, Mapping) else [str(one)]
    edits = fields.get("edits")
    for edit in cast(list[object], edits) if isinstance(edits, list) else ():
        if isinstance(edit, Mapping):
            yield from _paths(cast(Mapping[str, Any], edit))


def _patched(text: str) -> Iterator[str]:
    """Yield the files that a patch changes."""
    yield from re.findall(r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", text)
    for path in re.findall(r"(?m)^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)", text):
        if path != "/dev/null":
            yield path
