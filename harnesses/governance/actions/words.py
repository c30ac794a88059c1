"""Words as a shell reads them: quotes, escapes, and what is substituted in them. Pure."""

from __future__ import annotations

import re
from typing import Self

from attrs import define

from harnesses.governance.actions.cursor import BLANK, MAX_DEPTH, PROCESS, SINGLE, Cursor
from harnesses.governance.actions.nouns import UNKNOWN, Command, Unreadable, Word
from harnesses.governance.actions.quotes import (
    LITERAL_VARIABLES,
    Piece,
    ansi_c,
    braces_expanded,
    closing_brace,
    word_of,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@define
class Words(Cursor):
    """Reading words."""

    def _word(self, *, split: bool = True) -> list[Word]:
        pieces: list[Piece] = []
        start = self.at
        while not self._done():
            char = self.text[self.at]
            if self.text[self.at : self.at + 2] in PROCESS:
                self.at += 2
                pieces.append(Piece(UNKNOWN, quoted=True, inner=self._captured(")")))
            elif char in BLANK or char in SINGLE:
                if char == "(" and pieces and pieces[-1].text[-1:] in "!@*?+" and not pieces[-1].quoted:
                    raise Unreadable("an extended pattern can not be judged")
                break
            else:
                pieces += self._piece(char)
        if self.at == start:
            raise Unreadable(f"{self.text[self.at : self.at + 1]!r} stands where a word is expected")
        if not split:
            return [word_of(pieces)]
        return [word_of(some) for some in braces_expanded(pieces)]

    def _piece(self, char: str) -> list[Piece]:
        if char == "\\":
            self.at += 2
            following = self.text[self.at - 1 : self.at]
            return [] if following == "\n" else [Piece(following, quoted=True)]
        if char == "'":
            return [Piece(self._single_quoted(), quoted=True)]
        if char == '"':
            self.at += 1
            return [Piece("", quoted=True), *self.quoted_until('"')]
        if char == "$":
            return self._dollar()
        if char == "`":
            return [self._backquoted()]
        self.at += 1
        return [Piece(char)]

    def _single_quoted(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise Unreadable("a single quote is not closed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def quoted_until(self, end: str) -> list[Piece]:
        """Read what stands in double quotes, or, with no `end`, in a here-document."""
        pieces: list[Piece] = []
        plain: list[str] = []

        def flush() -> None:
            if plain:
                pieces.append(Piece("".join(plain), quoted=True))
                plain.clear()

        while True:
            if self._done():
                if end:
                    raise Unreadable("a double quote is not closed")
                flush()
                return pieces
            char = self.text[self.at]
            if char == end:
                self.at += 1
                flush()
                return pieces
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                special = following in ("$", "`", "\\", "\n") or (following == '"' and end == '"')
                plain.append(("" if following == "\n" else following) if special and following else char + following)
                self.at += 2
            elif char == "$":
                flush()
                pieces += [piece.as_quoted() for piece in self._dollar(quoted=True)]
            elif char == "`":
                flush()
                pieces.append(self._backquoted().as_quoted())
            else:
                plain.append(char)
                self.at += 1

    def _dollar(self, *, quoted: bool = False) -> list[Piece]:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            if self.text.startswith("((", self.at + 1) and (end := self._arithmetic_end()) is not None:
                inside = self.text[self.at + 3 : end]
                self._note_arithmetic(inside)
                self._expanded(inside)
                self.at = end + 2
                return [Piece("0", quoted=True)]
            self.at += 2
            return [Piece(UNKNOWN, inner=self._captured(")"))]
        if following == "{":
            return [self._braced()]
        if following == "'" and not quoted:
            closed = re.compile(r"(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at + 2)
            if closed is None:
                raise Unreadable("a $' quote is not closed")
            inside = closed.group()[:-1]
            self.at = closed.end()
            return [Piece(ansi_c(inside), quoted=True, disguised="\\" in inside)]
        if following == '"' and not quoted:
            self.at += 2
            return [Piece("", quoted=True), *self.quoted_until('"')]
        name = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]").match(self.text, self.at + 1)
        if name is None:
            self.at += 1
            return [Piece("$", quoted=True)]
        self.at = name.end()
        return [self._variable(name.group())]

    def _arithmetic_end(self) -> int | None:
        """Return where the `))` of a `$((` is; None if it is a subshell in a substitution."""
        level = 0
        for place in range(self.at + 1, len(self.text)):
            char = self.text[place]
            level += (char == "(") - (char == ")")
            if level == 1 and char == ")":
                return place if self.text.startswith("))", place) else None
        return None

    def _braced(self) -> Piece:
        end = closing_brace(self.text, self.at + 1)
        inside = self.text[self.at + 2 : end]
        self.at = end + 1
        if _NAME.match(inside):
            return self._variable(inside)
        if assigned := re.match(r"([A-Za-z_]\w*):?=", inside):
            self.assigned[assigned.group(1)] += 2
        if re.fullmatch(r"#[A-Za-z_]\w*(\[[@*]\])?|#", inside):
            return Piece("0", quoted=True)
        inner = self._another(inside, values=self.values, depth=self.depth + 1)
        if inner.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deep")
        inner.quoted_until("")
        self.commands += inner.commands
        return Piece(UNKNOWN, inner=tuple(inner.commands), list="@" in inside[:8] or "*" in inside[:8])

    def _variable(self, name: str) -> Piece:
        if name in self.values:
            return Piece(self.values[name], quoted=True)
        if name in ("@", "*"):
            return Piece(UNKNOWN, list=True)
        if not self.assigned[name] and name in LITERAL_VARIABLES:
            return Piece(LITERAL_VARIABLES[name], quoted=True)
        return Piece(UNKNOWN)

    def _backquoted(self) -> Piece:
        end = re.compile(r"(?:[^`\\]|\\.)*`", re.DOTALL).match(self.text, self.at + 1)
        if end is None:
            raise Unreadable("a backquote is not closed")
        inside = re.sub(r"\\([$`\\])", r"\1", end.group()[:-1])
        self.at = end.end()
        return Piece(UNKNOWN, inner=self._nested(inside))

    def _captured(self, until: str) -> tuple[Command, ...]:
        before = len(self.commands)
        self._within(until)
        return tuple(self.commands[before:])

    def _nested(self, text: str) -> tuple[Command, ...]:
        self._deeper()
        inner = self._another(text, values=dict(self.values), depth=self.depth)
        inner.read()
        self.depth -= 1
        self.commands += inner.commands
        self.assigned.update(inner.assigned)
        return tuple(inner.commands)

    def _expanded(self, text: str) -> Word:
        """Return the body of a here-document whose substitutions are made."""
        inner = self._another(text, values=self.values, depth=self.depth + 1)
        if inner.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deep")
        pieces = inner.quoted_until("")
        self.commands += inner.commands
        return word_of(pieces)

    def _note_arithmetic(self, inside: str) -> None:
        for name in re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)(?:\+\+|--)", inside):
            self.assigned[name[0] or name[1]] += 1

    def _another(self, text: str, *, values: dict[str, str], depth: int) -> Self:
        """Return a reader of a text that stands within this one."""
        return type(self)(text, self.resolvable, values=values, depth=depth)

    def read(self) -> None:
        """Read all commands of the text."""
        raise NotImplementedError

    def _within(self, until: str) -> None:
        """Read the commands of a substitution, up to where it ends."""
        raise NotImplementedError
