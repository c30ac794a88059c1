"""Reads patches and applies them to texts: unified diffs, and the form that begins with `*** Begin Patch`. Pure.

    patch ──read_patch──► changes of files ──apply──► new texts

A hunk is applied where its old lines are, nearest to where it says; lines may differ in trailing white space. One that is
nowhere, or of which nothing says where, is an error that shows what is there instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import define, field

from harnesses.agents.tools.nearest_text import show_nearest
from harnesses.agents.tools.tool import ToolError

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_HEADER = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = "*** Move to: "


@define
class Hunk:
    """Lines to replace."""

    old: list[str] = field(factory=list[str])
    new: list[str] = field(factory=list[str])
    line: int | None = None
    """Where the old lines begin, from 1; None if the patch does not say."""
    anchors: tuple[str, ...] = ()
    """Lines that come before, in this order."""
    loses_newline: bool = False
    """Whether the new text ends without a newline."""
    gains_newline: bool = False
    """Whether the old text ends without a newline, and the new one does not."""
    is_at_old: bool = False
    """Whether the last line read is one that is removed."""
    blanks: int = 0
    """Empty lines that belong to the hunk only if another line of it follows."""


@define
class FileChange:
    """The change of one file."""

    path: str
    kind: str
    """`add`, `update` or `delete`."""
    hunks: list[Hunk] = field(factory=list[Hunk])
    moved_to: str = ""

    def apply(self, text: str) -> str:
        """Return the new text of the file.

        Raises:
            ToolError: a hunk does not fit.
        """
        ending = "\r\n" if "\r\n" in text else "\n"
        lines, at, shift = text.split("\n"), 0, 0
        for number, hunk in enumerate(self.hunks, 1):
            begin = _find(lines, hunk, at, shift)
            if begin is None:
                near = show_nearest("\n".join(hunk.old), text)
                raise ToolError(f"hunk {number} for {self.path!r} does not fit: its old lines are not in the file. {near}")
            old = lines[begin : begin + len(hunk.old)]
            new = list(_kept(hunk, old, ending))
            lines[begin : begin + len(hunk.old)] = new
            shift += len(new) - len(hunk.old)
            at = begin + len(new)
            if hunk.loses_newline and lines[-1] == "" and at == len(lines) - 1:
                lines.pop()
            elif hunk.gains_newline and at == len(lines):
                lines.append("")
        return "\n".join(lines)


def _kept(hunk: Hunk, old: Sequence[str], ending: str) -> Iterator[str]:
    """Yield the new lines; those that stay keep their white space, and all of them their line ends."""
    left = dict[str, list[str]]()
    for wanted, found in zip(hunk.old, old, strict=True):
        left.setdefault(wanted, []).append(found)
    for line in hunk.new:
        if stayed := left.get(line):
            yield stayed.pop(0)
        else:
            yield line + ("\r" if ending == "\r\n" and not line.endswith("\r") else "")


def _find(lines: Sequence[str], hunk: Hunk, at: int, shift: int) -> int | None:
    """Return where the old lines of a hunk are, not before line `at`."""
    for anchor in hunk.anchors:
        at = next((place + 1 for place in range(at, len(lines)) if lines[place].strip() == anchor.strip()), at)
    if not hunk.old:
        if hunk.line is not None:
            return min(max(hunk.line + shift, 0), len(lines))
        return len(lines) - 1 if lines[-1] == "" else len(lines)
    hint = at if hunk.line is None else hunk.line - 1 + shift
    for plain in (str, str.rstrip):
        wanted, there = list(map(plain, hunk.old)), list(map(plain, lines))
        places = [place for place in range(at, len(lines) - len(wanted) + 1) if there[place : place + len(wanted)] == wanted]
        if places:
            return min(places, key=lambda place: abs(place - hint))
    return None


# reading


def read_patch(patch: str) -> list[FileChange]:
    """Return the changes in a patch, in its order.

    Raises:
        ToolError: it is no patch; the message is for the model.
    """
    lines = patch.replace("\r\n", "\n").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    begin = next((row for row, line in enumerate(lines) if line.strip() == _BEGIN), None)
    changes = _read_unified(lines) if begin is None else _read_marked(lines[begin + 1 :])
    if not changes:
        raise ToolError(f"the patch has no change: expected a unified diff with `---` and `+++` lines, or `{_BEGIN}`")
    empty = next((one for one in changes if one.kind == "update" and not one.hunks and not one.moved_to), None)
    if empty is not None:
        raise ToolError(f"the patch for {empty.path!r} has no hunk: expected lines after `@@`")
    return changes


def _read_marked(lines: Sequence[str]) -> list[FileChange]:
    changes = list[FileChange]()
    hunk: Hunk | None = None
    for row, line in enumerate(lines, 2):
        if line.strip() == _END:
            return changes
        if found := _HEADER.fullmatch(line.rstrip()):
            changes.append(FileChange(found[2].strip(), found[1].lower()))
            hunk = None
        elif not changes:
            raise ToolError(
                f"line {row} of the patch: expected `*** Add File: …`, `*** Update File: …` or `*** Delete File: …`"
            )
        elif line.startswith(_MOVE):
            changes[-1].moved_to = line.removeprefix(_MOVE).strip()
        elif line.startswith("@@"):
            anchor = line.removeprefix("@@").strip()
            is_more = hunk is not None and not (hunk.old or hunk.new)
            anchors = (*(hunk.anchors if is_more and hunk is not None else ()), *([anchor] if anchor else []))
            if is_more:
                changes[-1].hunks.pop()
            hunk = _add(changes[-1], Hunk(anchors=anchors))
        elif line.strip() != "*** End of File":
            hunk = hunk or _add(changes[-1], Hunk())
            _take(hunk, line, row)
    raise ToolError(f"the patch does not end: expected `{_END}`")


def _read_unified(lines: Sequence[str]) -> list[FileChange]:
    changes = list[FileChange]()
    old = ""
    hunk: Hunk | None = None
    for row, line in enumerate(lines, 1):
        following = lines[row] if row < len(lines) else ""
        if line.startswith("diff --git ") or (line.startswith("--- ") and following.startswith("+++ ")):
            hunk = None
        if hunk is not None and not line.startswith("@@"):
            _take(hunk, line, row)
        elif line.startswith("--- "):
            old = _name(line)
        elif line.startswith("+++ "):
            new = _name(line)
            kind = "add" if not old else "delete" if not new else "update"
            moved = new if kind == "update" and old != new else ""
            changes.append(FileChange(old or new, kind, moved_to=moved))
        elif found := _HUNK.match(line):
            if not changes:
                raise ToolError(
                    f"line {row} of the patch: expected `---` and `+++` with the names of the file before the hunk"
                )
            hunk = _add(changes[-1], Hunk(line=int(found[1])))
        elif line.startswith("rename from "):
            changes.append(FileChange(line.removeprefix("rename from "), "update"))
        elif line.startswith("rename to ") and changes:
            changes[-1].moved_to = line.removeprefix("rename to ")
        elif line.startswith("GIT binary patch"):
            raise ToolError("the patch has binary data: expected text; write the file by a command")
        elif line.startswith("@@"):
            raise ToolError(f"line {row} of the patch: expected `@@ -line,count +line,count @@`, got {line!r:.100}")
    return _merged(changes)


def _merged(changes: list[FileChange]) -> list[FileChange]:
    """Merge a rename with the hunks that follow it under the same names."""
    merged = list[FileChange]()
    for change in changes:
        if merged and not merged[-1].hunks and merged[-1].path == change.path and merged[-1].moved_to == change.moved_to:
            merged.pop()
        merged.append(change)
    return merged


def _add(change: FileChange, hunk: Hunk) -> Hunk:
    change.hunks.append(hunk)
    return hunk


def _take(hunk: Hunk, line: str, row: int) -> None:
    sign, text = line[:1], line[1:]
    if not sign:
        hunk.blanks += 1
        return
    hunk.old += [""] * hunk.blanks
    hunk.new += [""] * hunk.blanks
    hunk.blanks = 0
    if sign == "\\":
        # It is about the line before: one that is removed, or the last of the new text.
        hunk.gains_newline = hunk.is_at_old
        hunk.loses_newline = not hunk.is_at_old
    elif sign == " ":
        hunk.old.append(text)
        hunk.new.append(text)
    elif sign == "-":
        hunk.old.append(text)
    elif sign == "+":
        hunk.new.append(text)
    else:
        raise ToolError(f"line {row} of the patch: expected a line that begins with ` `, `+` or `-`, got {line!r:.100}")
    hunk.is_at_old = sign == "-"


def _name(line: str) -> str:
    """Return the file name in a `---` or `+++` line; empty for /dev/null."""
    name = line[4:].partition("\t")[0].strip().strip('"')
    return "" if name == "/dev/null" else name[2:] if name.startswith(("a/", "b/")) else name
