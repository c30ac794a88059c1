"""Redirections, and here-documents, whose bodies come after the line that announces them. Pure."""

from __future__ import annotations

import re

from attrs import define

from harnesses.governance.actions.cursor import PROCESS, SINGLE
from harnesses.governance.actions.nouns import Redirect, Unreadable, Word
from harnesses.governance.actions.words import Words


@define
class Redirections(Words):
    """Reading redirections."""

    def _redirect(self) -> Redirect | None:
        match = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(&>>|<<<|<<-|&>|>>|>\||>&|<<|<>|<&|>|<)").match(self.text, self.at)
        if match is None or (self.text[match.end() : match.end() + 1] == "(" and match.group(2) in ("<", ">")):
            return None
        if match.group(2).startswith("&") and match.group(1):
            return None
        operator = match.group(2)
        self.at = match.end()
        self._blanks()
        if self._done() or (self.text[self.at] in SINGLE and self.text[self.at : self.at + 2] not in PROCESS):
            raise Unreadable(f"{operator!r} leads nowhere")
        begins = self.at
        target = self._word(split=False)[0]
        if operator in ("<<", "<<-"):
            return self._here_document(operator, target, quoted=bool(re.search(r"['\"\\]", self.text[begins : self.at])))
        return Redirect(operator, target, body=target if operator == "<<<" else None)

    def _here_document(self, operator: str, delimiter: Word, *, quoted: bool) -> Redirect:
        """Note that a body follows after the end of this line."""
        redirect = Redirect(operator, delimiter)
        self._waiting.append((redirect, quoted))
        return redirect

    def _line_end(self) -> None:
        """Take in the bodies of the here-documents that were announced on the line which has just ended."""
        waiting, self._waiting = self._waiting, []
        for redirect, quoted in waiting:
            text = self._body(redirect, quoted=quoted)
            redirect.body = Word(text) if quoted else self._expanded(text)

    def _body(self, redirect: Redirect, *, quoted: bool) -> str:
        lines: list[str] = []
        while not self._done():
            line = self._line(joined=not quoted)
            if redirect.operator == "<<-":
                line = line.lstrip("\t")
            if line.removesuffix("\n") == redirect.target.text:
                return "".join(lines)
            lines.append(line)
        raise Unreadable(f"a here-document does not end: expected a line {str(redirect.target)!r}")

    def _line(self, *, joined: bool) -> str:
        """Take a line; where a backslash joins it with the next one, both, as a shell does before it looks for the end."""
        pieces: list[str] = []
        while True:
            end = self.text.find("\n", self.at) + 1 or len(self.text)
            line = self.text[self.at : end]
            self.at = end
            bare = line.removesuffix("\n")
            odd = (len(bare) - len(bare.rstrip("\\"))) % 2
            if not joined or not odd or bare == line or self._done():
                return "".join([*pieces, line])
            pieces.append(bare[:-1])

    def _check_bodies(self, before: int) -> None:
        if len(self._waiting) > before:
            raise Unreadable("a here-document has no body")
