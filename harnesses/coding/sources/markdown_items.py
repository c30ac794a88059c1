"""Parses the lines of a Markdown text into list items, ignoring code, comments and quotations. No I/O.

An item is nested in another one if it is indented by at least two more columns.
"""

from __future__ import annotations

import re
from enum import Enum

from attrs import define, field

from harnesses.coding.sources.problems import Problems

_MARKER = re.compile(r"(?P<indent> *)(?:[-*+]|\d{1,9}[.)])(?:\s+|(?=\[[ xX]?\]\s)|$)(?P<rest>.*)")
_BARE = re.compile(r"(?P<indent> *)(?P<rest>\[[ xX]\]\s.*)")
_BOX = re.compile(r"\[(?P<mark>[^\]\w]?|[xX])\](?:\s+(?P<text>.*)|$)|\[ \](?P<glued>[^\s(\[:].*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?=\s|$)(?P<text>.*)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)\s*")
_BREAK = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*")
_FENCE = re.compile(r"\s*(?P<fence>`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_COMMENT = re.compile(r"<!--.*?(?P<end>-->|$)")
_DEEPER = 2
"""Minimum additional columns of a nested item; one column is tolerated as imprecise indentation."""

_DEEPEST = 50
"""Maximum depth of nested items."""


class Box(Enum):
    """The check box before the text of an item."""

    NONE = "nothing"
    OPEN = "[ ]"
    DONE = "[x]"


@define
class Item:
    """A list item and the content nested in it."""

    line: int
    indent: int
    box: Box
    paragraphs: list[list[str]]
    """Its paragraphs, each a list of lines."""
    heading: str = ""
    """Text of the nearest heading above."""
    items: list[Item] = field(factory=list["Item"])

    @property
    def text(self) -> str:
        """The first paragraph, on one line."""
        return _joined(self.paragraphs[0])

    @property
    def rest(self) -> list[str]:
        """The other paragraphs, each on one line."""
        return [_joined(paragraph) for paragraph in self.paragraphs[1:]]


def items_of(text: str, problems: Problems) -> list[Item]:
    """Return the outermost items, in order."""
    reader = _Reader(problems)
    lines = text.expandtabs(4).splitlines()
    for number, line in enumerate(lines, 1):
        if number > _front_matter(lines):
            reader.read(number, line)
    reader.end()
    return reader.found


def outside_code(text: str) -> str:
    """Return a text of the same length with everything in backticks blanked out."""
    return _CODE.sub(lambda code: "\0" * len(code.group()), text)


def _front_matter(lines: list[str]) -> int:
    """Return the number of metadata lines at the top, between `---` and `---`."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line.rstrip() in ("---", "...")), 0)


@define
class _Reader:
    problems: Problems
    found: list[Item] = field(factory=list[Item])
    heading: str = ""
    stack: list[Item] = field(factory=list[Item])
    """The current item, after the items that it is nested in."""
    prose: list[str] | None = None
    """The paragraph outside of lists that is being read."""
    going_on: bool = False
    """Whether the previous line was text of an item."""
    fence: tuple[str, int, Item | None] | None = None
    """The code block being skipped: its opening mark, its line number and its item."""
    comment: int | None = None
    """The line number at which the comment being skipped began."""

    def read(self, number: int, line: str) -> None:
        if self.fence and not self._fence_is_over(line):
            return
        shown = self._without_comments(number, line)
        if not shown.strip():
            self.going_on, self.prose = False, None
        elif match := _FENCE.match(shown):
            self._leave(_indent(shown))
            self.fence = (match["fence"], number, self.stack[-1] if self.stack else None)
            self.going_on, self.prose = False, None
        elif match := _HEADING.fullmatch(shown):
            self._head(_without_closing(match["text"].strip()))
        elif self.prose and _UNDERLINE.fullmatch(shown):
            self._head(_joined(self.prose))
        elif _BREAK.fullmatch(shown):
            self.stack, self.going_on, self.prose = [], False, None
        elif match := _MARKER.fullmatch(shown) or _BARE.fullmatch(shown):
            self._item(number, len(match["indent"]), match["rest"])
        elif shown.lstrip().startswith(">"):
            self._leave(_indent(shown))
            self.going_on, self.prose = False, None
        else:
            self._text(shown)

    def end(self) -> None:
        if self.fence:
            mark, number, _ = self.fence
            self.problems.add(f"line {number}", f"code block is never closed: expected {mark} after it; add it")
        if self.comment is not None:
            self.problems.add(f"line {self.comment}", "comment is never closed: expected --> after it; add it")

    def _fence_is_over(self, line: str) -> bool:
        """Return whether the code block has ended before this line, so that the line must be parsed."""
        assert self.fence is not None
        mark, _, within = self.fence
        if within is not None and line.strip() and _indent(line) <= within.indent:
            self.fence = None
            return True
        if line.strip() and set(line.strip()) == {mark[0]} and len(line.strip()) >= len(mark):
            self.fence = None
        return False

    def _without_comments(self, number: int, line: str) -> str:
        if self.comment is not None:
            _, end, line = line.partition("-->")
            if not end:
                return ""
            self.comment = None
        shown, after = "", 0
        for match in _COMMENT.finditer(outside_code(line)):
            shown, after = shown + line[after : match.start()], match.end()
            if not match["end"]:
                self.comment = number
        return shown + line[after:]

    def _head(self, text: str) -> None:
        self.heading, self.stack, self.going_on, self.prose = text.strip(), [], False, None

    def _leave(self, indent: int) -> None:
        """Leave all items that content at this column is not nested in."""
        while self.stack and indent < self.stack[-1].indent + _DEEPER:
            self.stack.pop()

    def _item(self, number: int, indent: int, rest: str) -> None:
        self._leave(indent)
        if not self.stack and indent >= 4 and not self.going_on:
            self.prose = None  # indented code
            return
        if len(self.stack) == _DEEPEST:
            self.problems.add(f"line {number}", f"expected items nested at most {_DEEPEST} deep; move it left")
            self.stack.pop()
        box, text = self._box(number, rest)
        item = Item(number, indent, box, [[text]], self.heading)
        (self.stack[-1].items if self.stack else self.found).append(item)
        self.stack.append(item)
        self.going_on, self.prose = True, None

    def _box(self, number: int, rest: str) -> tuple[Box, str]:
        match = _BOX.fullmatch(rest)
        if match is None:
            return Box.NONE, rest
        mark, text = match["mark"], match["text"] or match["glued"] or ""
        if mark in ("x", "X", "✓", "✔"):
            return Box.DONE, text
        if mark and mark != " ":
            self.problems.add(f"line {number}", f"expected [ ] or [x] before {text!r:.60}, was [{mark}]; say if it is done")
        return Box.OPEN, text

    def _text(self, line: str) -> None:
        if self.going_on:
            self.stack[-1].paragraphs[-1].append(line)
            return
        if self.prose is None:
            self._leave(_indent(line))
        if self.stack:
            self.stack[-1].paragraphs.append([line])
            self.going_on = True
        else:
            self.prose = self.prose or []
            self.prose.append(line)


def _without_closing(heading: str) -> str:
    """Return a heading without the optional `#` at its end."""
    bare = heading.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else heading


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
