"""Tools for coding: read, search, list, edit, write, apply a patch, and run a command, in the agent's directory.

    ModelAgent(…, tools=coding_tools())                      all of them
    ModelAgent(…, tools=coding_tools(read_only=True))        read, search and list

Invariant: files are reached through `ConfinedFolder`, and commands run in the sandbox of the setting, without secrets in their
environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, cast

from msgspec import Meta

from harnesses.agents.argument_checks import FLAG, check
from harnesses.agents.sandbox import Sandbox, environment_within, sandboxed
from harnesses.agents.tools.confined_files import ConfinedFolder
from harnesses.agents.tools.file_patch import FileChange, read_patch
from harnesses.agents.tools.function_tool import FunctionTool, function_tool
from harnesses.agents.tools.nearest_text import numbered, show_nearest
from harnesses.agents.tools.path_forms import forms_of_path
from harnesses.agents.tools.tool import ToolEffect, ToolError, ToolSetting, ToolTimedOut
from harnesses.agents.tools.tree_search import Wanted, search_tree
from harnesses.errors import HarnessMisuse
from harnesses.guard.allowed_paths import protected_path
from harnesses.guard.command_findings import classify
from harnesses.guard.command_model import HELD, HELD_WITHOUT_NETWORK, SECRET_READ, SHELL, Finding
from harnesses.processes.bounded_command import Tail, run_bounded
from harnesses.redaction.redactor import MARK, redact_text

MAX_LINES = 2_000
"""Lines that `read` returns at most."""
MAX_ENTRIES = 1_000
"""Entries that `list` returns at most."""
MAX_OUTPUT = 30_000
"""Bytes of a command's output that are returned: one half from its beginning, one from its end."""
MAX_COMMAND_S = 3_600
"""Most seconds of a command."""


def coding_tools(*, read_only: bool = False) -> tuple[FunctionTool, ...]:
    """Return the tools for coding.

    Args:
        read_only: whether to leave out those that change something.
    """
    check("coding_tools", "read_only", read_only, FLAG)
    reads = ToolEffect.READS
    reading = (
        function_tool(read, effect=reads, guard=_judge_read, paths=["path"], check=_check_read),
        function_tool(search, effect=reads, guard=_judge_read, paths=_root_of, check=_check_read),
        function_tool(list_folder, effect=reads, name="list", guard=_judge_read, paths=_root_of, check=_check_read),
    )
    if read_only:
        return reading
    changes = ToolEffect.CHANGES_FILES
    return (
        *reading,
        function_tool(edit, effect=changes, guard=_judge_write, paths=["path"], check=_check_write),
        function_tool(write, effect=changes, guard=_judge_write, paths=["path"], check=_check_write),
        function_tool(apply_patch, effect=changes, guard=_judge_patch, paths=_patched, check=_check_patch),
        function_tool(run, effect=ToolEffect.ACTS, timeout_s=MAX_COMMAND_S + 60.0, guard=_judge_command, paths=()),
    )


# reading


def read(
    path: str,
    setting: ToolSetting,
    start: Annotated[int, Meta(ge=1)] = 1,
    count: Annotated[int, Meta(ge=1, le=MAX_LINES)] = MAX_LINES,
) -> str:
    """Read a text file. Each line begins with its number and a tab.

    Args:
        path: of the file, relative to the working directory.
        start: number of the first line.
        count: number of lines.
    """
    lines = _decoded(_folder(setting).read(path), path).split("\n")
    if lines[-1] == "":
        lines.pop()
    if start > max(len(lines), 1):
        raise ToolError(f"{path!r} has {len(lines)} lines: expected `start` to be one of them, got {start}")
    shown = lines[start - 1 : start - 1 + count]
    end = start + len(shown) - 1
    more = f"\n[lines {start} to {end} of {len(lines)}; read on with start={end + 1}]" if end < len(lines) else ""
    return numbered(shown, start) + more if lines else "[the file is empty]"


async def search(
    pattern: Annotated[str, Meta(min_length=1, max_length=1_000)],
    setting: ToolSetting,
    path: str = ".",
    glob: str = "",
    ignore_case: bool = False,
    most: Annotated[int, Meta(ge=1, le=1_000)] = 200,
) -> str:
    """Search the lines of files for a regular expression.

    Files that .gitignore excludes are left out, and those that are denied or need approval, such as files with secrets.

    Args:
        pattern: the regular expression.
        path: the folder, or one file, to search in.
        glob: only files whose name matches, such as *.py.
        most: most lines to return.
    """
    wanted = Wanted(pattern, glob, ignore_case=ignore_case, most=most, hides=setting.hides)
    return await search_tree(_folder(setting), path, wanted)


def list_folder(setting: ToolSetting, path: str = ".", depth: Annotated[int, Meta(ge=1, le=10)] = 1) -> str:
    """List the entries of a folder, apart from those that are denied or need approval. Folders end in a slash, links in @.

    Args:
        path: of the folder.
        depth: levels of folders to list.
    """
    folder, lines = _folder(setting), list[str]()
    waiting = [(path, "", 1)]
    while waiting:
        place, prefix, level = waiting.pop(0)
        with folder.folder_of(place) as (_, _, below):
            inner = f"{below}/" if below else ""
        for entry in folder.entries(place):
            if setting.hides(f"{inner}{entry.name}{'/' if entry.kind == 'folder' else ''}"):
                continue
            mark = {"folder": "/", "link": "@", "other": " (a device, FIFO or socket)"}.get(entry.kind, "")
            if len(lines) >= MAX_ENTRIES:
                return "\n".join([*lines, f"[more than {MAX_ENTRIES} entries: list a folder below, or with less depth]"])
            lines.append(f"{prefix}{entry.name}{mark}")
            if entry.kind == "folder" and level < depth:
                waiting.append((f"{place}/{entry.name}", f"{prefix}{entry.name}/", level + 1))
    return "\n".join(lines) or "[the folder is empty]"


# changing files


def edit(path: str, old: Annotated[str, Meta(min_length=1)], new: str, setting: ToolSetting, all: bool = False) -> str:
    """Replace text in a file. The old text must occur exactly once, with its white space, unless `all` is set.

    Args:
        path: of the file.
        old: the text to replace, without line numbers; several lines to make it unique.
        new: the text to put there.
        all: whether to replace every occurrence.
    """
    folder = _folder(setting)
    text = _decoded(folder.read(path), path)
    if old not in text and "\r\n" in text:
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    found = text.count(old)
    if not found:
        raise ToolError(f"the old text is not in {path!r}. {show_nearest(old, text)}")
    if found > 1 and not all:
        lines = [text.count("\n", 0, place) + 1 for place in _places(text, old)]
        raise ToolError(
            f"the old text occurs {found} times in {path!r}, at lines {', '.join(map(str, lines[:20]))}: expected once; "
            "add lines around it, or set `all`"
        )
    after = text.replace(old, new)
    _check_marks(path, text, after)
    folder.write(path, _encoded(after))
    return f"replaced {found} occurrence{'s' if found > 1 else ''} in {path}"


def write(path: str, content: str, setting: ToolSetting) -> str:
    """Create or replace a file with a content, and make the folders that it needs.

    Args:
        path: of the file.
        content: the whole text of the file.
    """
    folder = _folder(setting)
    was = folder.exists(path)
    _check_marks_in(folder, path, content)
    folder.write(path, _encoded(content))
    lines = content.count("\n") + (bool(content) and not content.endswith("\n"))
    return f"{'replaced' if was else 'created'} {path}: {lines} lines"


def apply_patch(patch: str, setting: ToolSetting) -> str:
    """Apply a patch to one or more files: a unified diff, or the form `*** Begin Patch` … `*** End Patch`.

    Nothing is changed unless every part of it fits.

    Args:
        patch: the whole patch.
    """
    folder = _folder(setting)
    after = dict[str, str | None]()
    said = [_apply(change, folder, after) for change in read_patch(patch)]
    changed = {path: text for path, text in after.items() if text is not None or folder.exists(path)}
    for path, text in changed.items():
        _check_marks_in(folder, path, text or "")
    folder.change({path: None if text is None else _encoded(text) for path, text in changed.items()})
    return "\n".join(said)


def _apply(change: FileChange, folder: ConfinedFolder, after: dict[str, str | None]) -> str:
    """Note in `after` what a change makes of its files, in their one spelling; None for a file that is deleted."""
    path, target = change.path, change.moved_to or change.path
    place, to = folder.spelling(path), folder.spelling(target)
    known = after[place] if place in after else _decoded(folder.read(path), path) if folder.exists(path) else None
    if change.kind == "add":
        if known is not None:
            raise ToolError(f"the patch adds {path!r}, which exists: expected an update of it")
        after[place] = change.apply("")
        return f"added {path}"
    if known is None:
        raise ToolError(f"the patch changes {path!r}, which does not exist; list the folder to see what there is")
    is_taken = after[to] is not None if to in after else folder.exists(target)
    if to != place and is_taken:
        raise ToolError(f"the patch moves {path!r} to {target!r}, which exists: expected a new name; delete that file before")
    after[place] = None
    if change.kind == "delete":
        return f"deleted {path}"
    after[to] = change.apply(known)
    _check_marks(path, known, after[to] or "")
    return f"changed {path}" + (f", now {target}" if target != path else "")


def _check_marks_in(folder: ConfinedFolder, path: str, after: str) -> None:
    before = ""
    if MARK in after and folder.exists(path):
        with suppress(ToolError):  # Neither a text nor small enough: no model was shown it.
            before = _decoded(folder.read(path), path)
    _check_marks(path, before, after)


def _check_marks(path: str, before: str, after: str) -> None:
    """Refuse a new text with a mark where the old one has the secret that it stands for: the secret would be lost."""
    if after.count(MARK) > before.count(MARK) and redact_text(before) != before:
        raise ToolError(
            f"{path!r} was not changed: its new text has `{MARK}`, which stands for a secret that you are not shown: expected "
            "the lines with secrets as they are; change other lines only, with `edit`"
        )


def _places(text: str, part: str) -> list[int]:
    places, at = list[int](), text.find(part)
    while at >= 0:
        places.append(at)
        at = text.find(part, at + len(part))
    return places


# commands


async def run(
    command: Annotated[str, Meta(min_length=1, max_length=100_000)],
    setting: ToolSetting,
    timeout_s: Annotated[float, Meta(gt=0, le=MAX_COMMAND_S)] = 120.0,
) -> str:
    """Run a bash command in the working directory and return its exit code and output.

    It has no standard input. All its processes are ended when it ends, and at the time limit.

    Args:
        command: the command.
        timeout_s: time limit in seconds.
    """
    directory = _directory(setting)
    head, tail = _Head(MAX_OUTPUT // 2), Tail(MAX_OUTPUT // 2)
    async with sandboxed(
        [*SHELL, command],
        directory,
        cast(Sandbox | None, setting.sandbox),
        environment=environment_within(os.environ),
        writable=setting.writable,
        readable=setting.readable,
        log=setting.run.log,
    ) as ready:
        ran = await run_bounded(
            ready.command,
            limit_s=timeout_s,
            tail_bytes=0,
            cwd=directory,
            env=ready.environment,
            on_line=lambda line: head.add(line, tail),
            **ready.rights,
        )
    cut = f"[… {tail.cut_bytes} bytes are cut …]\n" if tail.cut_bytes else ""
    output = f"{head}{cut}{tail}"
    left = f"[could not be ended: processes {', '.join(map(str, ran.left))}]\n" if ran.left else ""
    if ran.code is None:
        raise ToolTimedOut(
            f"the command took longer than {timeout_s:g} s and was ended; its output until then:\n{output}{left}"
        )
    return f"exit code {ran.code}\n{output}{left}"


class _Head:
    """Keeps the beginning of an output, and passes the rest on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def __str__(self) -> str:
        return self._kept.decode(errors="replace")

    def add(self, line: str, rest: Tail) -> None:
        data = f"{line}\n".encode()
        free = self._limit - len(self._kept)
        self._kept += data[:free]
        rest.add(data[free:])


# what needs approval


def _root_of(arguments: Mapping[str, Any]) -> list[str]:
    """Return the path at which a call looks through files."""
    return [str(arguments.get("path", "."))]


def _patched(arguments: Mapping[str, Any]) -> list[str]:
    """Return all paths of a patch; none if it cannot be parsed; the model gets the error when the call is made."""
    try:
        return _paths_of(str(arguments.get("patch", "")))
    except ToolError:
        return []


def _paths_of(patch: str) -> list[str]:
    return [path for change in read_patch(patch) for path in (change.path, change.moved_to) if path]


def _judge_read(arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
    path = _path(arguments)
    found = classify(["cat", "--", path], root=str(setting.directory or "")) if path else ()
    return tuple(one for one in found if one.category == SECRET_READ)


def _judge_write(arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
    return _protected([_path(arguments)], setting)


def _judge_patch(arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
    return _protected(_patched(arguments), setting)


def _protected(paths: list[str], setting: ToolSetting) -> tuple[Finding, ...]:
    root = str(setting.directory or "")
    forms = (form for path in paths if path for form in forms_of_path(path, setting.directory).every)
    return tuple(found for form in dict.fromkeys(forms) if (found := protected_path(form, root=root)) is not None)


def _judge_command(arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
    command = arguments.get("command")
    if not isinstance(command, str):
        return ()
    return classify(command, root=str(setting.directory or ""), allow=held_by(setting.sandbox))


def held_by(sandbox: object) -> frozenset[str]:
    """Return the categories of commands that a sandbox contains, so that they need no approval."""
    if not isinstance(sandbox, Sandbox) or not sandbox.confines_fully():
        return frozenset()
    return HELD if sandbox.network else HELD_WITHOUT_NETWORK


def _path(arguments: Mapping[str, Any]) -> str:
    path = arguments.get("path")
    return path if isinstance(path, str) else ""


# what cannot be done; a check tells nothing of the files themselves


def _check_read(arguments: Mapping[str, Any], setting: ToolSetting) -> None:
    for path in _root_of(arguments):
        _folder(setting).check(path)


def _check_write(arguments: Mapping[str, Any], setting: ToolSetting) -> None:
    _folder(setting).check(_path(arguments), changes=True)


def _check_patch(arguments: Mapping[str, Any], setting: ToolSetting) -> None:
    for path in _paths_of(str(arguments["patch"])):
        _folder(setting).check(path, changes=True)


# texts


def _directory(setting: ToolSetting) -> Path:
    if setting.directory is None:
        raise HarnessMisuse("coding tools: expected an agent with a working directory, got none; give it one")
    return setting.directory


def _folder(setting: ToolSetting) -> ConfinedFolder:
    return ConfinedFolder(_directory(setting))


def _decoded(data: bytes, path: str) -> str:
    if b"\0" in data[:8_000]:
        raise ToolError(f"{path!r} is a binary file of {len(data)} bytes: expected text; use a command")
    return data.decode(errors="surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
