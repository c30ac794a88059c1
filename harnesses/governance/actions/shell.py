"""Reading what a shell would run: text in, simple commands out, in their order, those within substitutions too. Pure.

It knows quotes, escapes, pipes, lists, compound commands, functions, here-documents, redirections and expansions, as bash
has them. The law: what it does not understand it does not pass over; it raises `Unreadable`.
"""

from __future__ import annotations

import re

from attrs import define

from harnesses.governance.actions.cursor import MAX_TEXT, REDIRECTS
from harnesses.governance.actions.nouns import NO_COMMAND, Command, Redirect, Unreadable
from harnesses.governance.actions.simple import Simple


def read_shell(text: str) -> tuple[Command, ...]:
    """Return the commands that a shell would run, those of substitutions before the command that they are part of.

    Raises:
        Unreadable: it is too long, or is not what a shell understands.
    """
    if len(text) > MAX_TEXT:
        raise Unreadable(f"it is longer than {MAX_TEXT} characters")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
        raise Unreadable("there are control characters in it")
    first = _Reader(text)
    first.read()
    if not first.once or "IFS" in first.assigned:
        return tuple(first.commands)
    # Read again, now that it is known which variables are set once, and to what.
    once = {name for name in first.once if first.assigned[name] == 1}
    second = _Reader(text, resolvable=frozenset(once))
    second.read()
    return tuple(second.commands)


@define
class _Reader(Simple):
    """Reading lists of commands, and those within others."""

    def read(self) -> None:
        self._script("")
        self._check_bodies(0)

    def _script(self, until: str) -> None:
        """Read commands up to the end of the text, or to an unquoted `until`, which is consumed."""
        feeder: Command | None = None
        conditional = False
        cases = 0
        pattern = False
        while True:
            self._blanks()
            if self._done():
                if until:
                    raise Unreadable(f"a {until!r} is missing")
                return
            if self._looking(until) and until and not pattern:
                self.at += len(until)
                return
            if pattern:
                pattern = self._case_pattern()
                if not pattern:
                    self._blanks()
                continue
            operator = self._operator()
            if operator == "\n":
                self._line_end()
            if operator is None:
                what, command = self._simple(None, conditional)
                if what == "case":
                    cases, pattern = cases + 1, True
                    continue
                if what == "esac":
                    cases -= 1
                feeder = command
                continue
            if operator == "(":
                self._subshell()
                feeder = NO_COMMAND
                continue
            if operator in ("|", "|&"):
                feeder = feeder or NO_COMMAND
                self._blanks(newlines=True)
                if self._done():
                    raise Unreadable("a pipe leads nowhere")
                what, command = self._piped(feeder)
                feeder = command
                continue
            if operator in (";;", ";&", ";;&") and cases:
                pattern = True
            elif operator == ")":
                raise Unreadable("a ')' closes nothing")
            elif operator in REDIRECTS:
                raise Unreadable(f"{operator!r} stands where a command begins")
            conditional = operator in ("&&", "||")
            feeder = None

    def _piped(self, feeder: Command) -> tuple[str, Command]:
        if self._looking("("):
            self.at += 1
            self._subshell()
            return "", NO_COMMAND
        return self._simple(feeder, conditional=True)

    def _subshell(self) -> None:
        if self._looking("("):
            self._arithmetic()
            return
        self._within(")")
        self._trailing_redirects()

    def _trailing_redirects(self) -> None:
        redirects: list[Redirect] = []
        self._blanks()
        while (redirect := self._redirect()) is not None:
            redirects.append(redirect)
            self._blanks()
        if redirects:
            self.commands.append(Command(redirects=tuple(redirects), source="( … )"))

    def _within(self, until: str) -> None:
        self.nesting += 1
        self._deeper()
        waiting = len(self._waiting)
        self._script(until)
        self._check_bodies(waiting)
        self.depth -= 1
        self.nesting -= 1
