"""A place in a text that a shell reads: blanks, comments and operators. Pure."""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from harnesses.governance.actions.nouns import Command, Redirect, Unreadable

MAX_TEXT = 50_000
"""Characters of a command that are read."""
MAX_DEPTH = 24
"""Substitutions within each other."""
BLANK = " \t"
_OPERATORS = ("&>>", ";;&", "<<<", "<<-", "&&", "||", "|&", ";;", ";&", "&>", ">>", ">|", ">&", "<<", "<>", "<&")
SINGLE = ";&|()<>\n"
PROCESS = ("<(", ">(")
REDIRECTS = frozenset({"&>>", "<<<", "<<-", "&>", ">>", ">|", ">&", "<<", "<>", "<&", ">", "<"})


@define
class Cursor:
    """Where reading is, and what it has found so far."""

    text: str
    resolvable: frozenset[str] = frozenset()
    """Variables whose value is certain where they are set."""
    commands: list[Command] = field(factory=list[Command])
    assigned: Counter[str] = field(factory=Counter[str])
    """How often each variable is set, anywhere in the text."""
    once: set[str] = field(factory=set[str])
    """Variables set where nothing decides whether they are."""
    values: dict[str, str] = field(factory=dict[str, str])
    _waiting: list[tuple[Redirect, bool]] = field(factory=list[tuple[Redirect, bool]])
    """Here-documents whose bodies come after this line, and whether each is taken as it is."""
    at: int = 0
    depth: int = 0
    nesting: int = 0
    """Compound commands that are open."""

    def _done(self) -> bool:
        return self.at >= len(self.text)

    def _looking(self, at: str) -> bool:
        return self.text.startswith(at, self.at)

    def _blanks(self, *, newlines: bool = False) -> None:
        while not self._done():
            char = self.text[self.at]
            if char in BLANK:
                self.at += 1
            elif newlines and char == "\n":
                self.at += 1
                self._line_end()
            elif self._looking("\\\n"):
                self.at += 2
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _operator(self) -> str | None:
        """Consume an operator that is no redirection, if one stands here."""
        if self.text[self.at : self.at + 2] in PROCESS:
            return None
        for operator in _OPERATORS:
            if self._looking(operator):
                if operator in REDIRECTS:
                    return None
                self.at += len(operator)
                return operator
        char = self.text[self.at]
        if char in SINGLE and char not in "<>":
            self.at += 1
            return char
        return None

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deep")

    def _line_end(self) -> None:
        """Take in what was announced on the line which has just ended."""
