"""One simple command, or the words that open or close a compound one. Pure."""

from __future__ import annotations

import re

from attrs import define

from harnesses.governance.actions.cursor import BLANK, PROCESS, SINGLE
from harnesses.governance.actions.heredoc import Redirections
from harnesses.governance.actions.nouns import NO_COMMAND, UNKNOWN, Command, Redirect, Unreadable, Word

MAX_WORDS = 20_000
_MAX_VALUE = 1_000
"""Characters of a variable's value that is followed."""
_OPENERS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc"})
_CLOSERS = frozenset({"fi", "done", "esac", "}"})
_DEEPER = frozenset({"if", "while", "until", "{", "case", "for", "select"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?\+?=")
_DECLARE = frozenset({"export", "readonly", "declare", "typeset", "local"})
_SETTERS = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let", "unset", "eval", "source", ".", "wait"})


@define
class Simple(Redirections):
    """Reading one command."""

    def _simple(self, feeder: Command | None, conditional: bool) -> tuple[str, Command]:
        """Read one simple command, or the words that open or close a compound one; return which, and the command."""
        start = self.at
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirects: list[Redirect] = []
        opened = closed = False
        while True:
            self._blanks()
            if self._done():
                break
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            if self.text[self.at] in SINGLE and self.text[self.at : self.at + 2] not in PROCESS:
                if self.text[self.at] == "(" and len(words) == 1 and not redirects and not assignments:
                    self._function(words[0])
                    return "", NO_COMMAND
                break
            begins = self.at
            if not words and (assignment := self._assignment()) is not None:
                assignments.append(assignment)
                continue
            found = self._word()
            raw = self.text[begins : self.at]
            if not words and not assignments and not closed:
                if raw in _OPENERS:
                    opened = True
                    self.nesting += raw in _DEEPER
                    self._blanks(newlines=True)
                    if self._looking("("):
                        break
                    start = self.at
                    continue
                if raw in _CLOSERS:
                    closed = True
                    self.nesting = max(0, self.nesting - 1)
                    if raw == "esac":
                        return "esac", NO_COMMAND
                    continue
                if raw in ("for", "select"):
                    self.nesting += 1
                    self._for_words()
                    return "", NO_COMMAND
                if raw == "case":
                    self.nesting += 1
                    self._case_head()
                    return "case", NO_COMMAND
                if raw == "function":
                    self._blanks()
                    self._word()
                    self._blanks()
                    if self._looking("("):
                        self._function(Word(""))
                    return "", NO_COMMAND
                if raw == "[[":
                    self._condition()
                    return "", NO_COMMAND
            words += found
            if len(words) > MAX_WORDS:
                raise Unreadable(f"it has more than {MAX_WORDS} words")
        if closed and words:
            raise Unreadable(f"{words[0].text!r} follows the end of a compound command")
        if not words and not assignments and not redirects:
            if not opened and not closed:
                raise Unreadable("there is nothing where a command is expected")
            return "", NO_COMMAND
        command = Command(
            tuple(words),
            tuple(assignments),
            tuple(redirects),
            NO_COMMAND if closed else feeder,
            self.text[start : self.at].strip(),
        )
        self.commands.append(command)
        self._note(command, certain=not conditional and not self.nesting and not self.depth)
        return "", NO_COMMAND if closed else command

    def _note(self, command: Command, *, certain: bool) -> None:
        """Note which variables it sets, and to what if that is certain."""
        words = command.words
        pairs = list(command.assignments)
        if words and words[0].text in _DECLARE:
            for word in words[1:]:
                name, equals, value = word.text.partition("=")
                if equals:
                    pairs.append((name.rstrip("+"), Word(value, word.splits, word.glob)))
        elif words:
            certain = False
            if words[0].text in _SETTERS:
                for word in words[1:]:
                    self.assigned[word.text] += 2
                if words[0].text in ("eval", "source", "."):
                    self.once.clear()
        for name, given in pairs:
            self.assigned[name] += 1
            if certain and command.reads is None:
                self.once.add(name)
                if name in self.resolvable and _is_plain(given):
                    self.values[name] = given.text
                elif name in self.resolvable and _is_temporary(given):
                    self.values[name] = "/tmp/made-by-mktemp"

    def _assignment(self) -> tuple[str, Word] | None:
        match = _ASSIGNMENT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        name = match.group(1)
        if self._looking("("):
            self.at += 1
            self._array()
            self.assigned[name] += 2
            return name, Word(UNKNOWN)
        value = Word("") if self._done() or self.text[self.at] in BLANK + SINGLE else self._word(split=False)[0]
        if match.group(2) or match.group(0).endswith("+="):
            self.assigned[name] += 1
        return name, value

    def _array(self) -> None:
        while True:
            self._blanks(newlines=True)
            if self._done():
                raise Unreadable("an array is not closed")
            if self.text[self.at] == ")":
                self.at += 1
                return
            self._word()

    def _function(self, name: Word) -> None:
        """Read the brackets after a function's name. Its body is judged where it stands, whether it is called or not."""
        self.at += 1
        self._blanks()
        if not self._looking(")"):
            raise Unreadable(f"a bracket follows {str(name)!r}")
        self.at += 1
        self._blanks(newlines=True)
        if not re.compile(r"[{(]|if\b|for\b|while\b|until\b|case\b|\[\[").match(self.text, self.at):
            raise Unreadable("a function has no body")

    def _for_words(self) -> None:
        self._blanks()
        if self.text.startswith("((", self.at):
            self.at += 1
            self._arithmetic()
            return
        name = self._word()
        self.assigned[name[0].text if name else ""] += 2
        self._blanks(newlines=True)
        if re.compile(r"in(?![\w-])").match(self.text, self.at):
            self.at += 2
            self._blanks()
            while not self._done() and self.text[self.at] not in ";\n":
                if self.text[self.at] in SINGLE:
                    raise Unreadable(f"{self.text[self.at]!r} stands among the words of `for`")
                self._word()
                self._blanks()

    def _case_head(self) -> None:
        self._blanks()
        self._word()
        self._blanks(newlines=True)
        if not re.compile(r"in(?![\w-])").match(self.text, self.at):
            raise Unreadable("`case` has no `in`")
        self.at += 2

    def _condition(self) -> None:
        """Pass over `[[ … ]]`, of which nothing but substitutions can run."""
        while True:
            self._blanks(newlines=True)
            if self._done():
                raise Unreadable("a '[[' is not closed")
            if re.compile(r"\]\](?=[\s;&|)]|$)").match(self.text, self.at):
                self.at += 2
                return
            if self.text[self.at] in "()<>|&;" and self.text[self.at : self.at + 2] not in PROCESS:
                self.at += 1
            else:
                self._word()

    def _case_pattern(self) -> bool:
        """Pass over a pattern of `case`; return whether a pattern comes next still, which it does not."""
        self._blanks(newlines=True)
        if re.compile(r"esac(?![\w-])").match(self.text, self.at):
            return False
        while not self._done():
            char = self.text[self.at]
            if char == ")":
                self.at += 1
                return False
            if char in "(| \t\n":
                self.at += 1
            else:
                self._word()
        raise Unreadable("a pattern of `case` is not closed")

    def _arithmetic(self) -> None:
        """Pass over `((…))`, of which nothing but substitutions can run."""
        self.at += 1
        start, level = self.at, 2
        while level:
            if self._done():
                raise Unreadable("a '((' is not closed")
            char = self.text[self.at]
            if char == "`" or self.text.startswith("$(", self.at):
                self._dollar() if char == "$" else self._backquoted()
                continue
            level += (char == "(") - (char == ")")
            self.at += 1
        self._note_arithmetic(self.text[start : self.at])


def _is_temporary(value: Word) -> bool:
    """Return whether a value is the name of a file that was just made for it."""
    if value.text != UNKNOWN or len(value.inner) != 1:
        return False
    words = [word.text for word in value.inner[0].words]
    return words in (["mktemp"], ["mktemp", "-d"], ["mktemp", "-t"], ["mktemp", "-q"])


def _is_plain(value: Word) -> bool:
    """Return whether a value is one word wherever it stands, and no longer than is followed."""
    return value.known and len(value.text) <= _MAX_VALUE and not re.search(r"[\s*?\[\]{}~\\]", value.text)
