"""Reading what a shell would run: text in, simple commands out, in their order, those within substitutions too. Pure.

It knows quotes, escapes, pipes, lists, compound commands, functions, here-documents, redirections and expansions, as bash
has them. The law: what it does not understand it does not pass over; it raises `Unreadable`.
"""

from __future__ import annotations

import re
from collections import Counter

from attrs import define, field

from harnesses.governance.actions.nouns import NO_COMMAND, UNKNOWN, Command, Redirect, Unreadable, Word
from harnesses.governance.actions.quotes import (
    LITERAL_VARIABLES,
    Piece,
    ansi_c,
    braces_expanded,
    closing_brace,
    word_of,
)

MAX_TEXT = 50_000
"""Characters of a command that are read."""
MAX_DEPTH = 24
"""Substitutions within each other."""
MAX_WORDS = 20_000

_BLANK = " \t"
_OPERATORS = ("&>>", ";;&", "<<<", "<<-", "&&", "||", "|&", ";;", ";&", "&>", ">>", ">|", ">&", "<<", "<>", "<&")
_SINGLE = ";&|()<>\n"
_PROCESS = ("<(", ">(")
_REDIRECTS = frozenset({"&>>", "<<<", "<<-", "&>", ">>", ">|", ">&", "<<", "<>", "<&", ">", "<"})
_OPENERS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "coproc"})
_CLOSERS = frozenset({"fi", "done", "esac", "}"})
_DEEPER = frozenset({"if", "while", "until", "{", "case", "for", "select"})
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DECLARE = frozenset({"export", "readonly", "declare", "typeset", "local"})
_SETTERS = frozenset({"read", "mapfile", "readarray", "getopts", "printf", "let", "unset", "eval", "source", ".", "wait"})


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
class _Reader:
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

    def read(self) -> None:
        self._script("")
        self._check_bodies(0)

    def _check_bodies(self, before: int) -> None:
        if len(self._waiting) > before:
            raise Unreadable("a here-document has no body")

    # --- lists and pipelines

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
            elif operator in _REDIRECTS:
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

    def _note_arithmetic(self, inside: str) -> None:
        for name in re.findall(r"([A-Za-z_]\w*)\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|([A-Za-z_]\w*)(?:\+\+|--)", inside):
            self.assigned[name[0] or name[1]] += 1

    def _within(self, until: str) -> None:
        self.nesting += 1
        self._deeper()
        waiting = len(self._waiting)
        self._script(until)
        self._check_bodies(waiting)
        self.depth -= 1
        self.nesting -= 1

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deep")

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

    # --- one command

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
            if self.text[self.at] in _SINGLE and self.text[self.at : self.at + 2] not in _PROCESS:
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
                if self.text[self.at] in _SINGLE:
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
            if self.text[self.at] in "()<>|&;" and self.text[self.at : self.at + 2] not in _PROCESS:
                self.at += 1
            else:
                self._word()

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
        value = Word("") if self._done() or self.text[self.at] in _BLANK + _SINGLE else self._word(split=False)[0]
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
                if name in self.resolvable and given.known and not re.search(r"[\s*?\[\]{}~\\]", given.text):
                    self.values[name] = given.text
                elif name in self.resolvable and _is_temporary(given):
                    self.values[name] = "/tmp/made-by-mktemp"

    # --- redirections

    def _redirect(self) -> Redirect | None:
        match = re.compile(r"(\d*|\{[A-Za-z_]\w*\})(&>>|<<<|<<-|&>|>>|>\||>&|<<|<>|<&|>|<)").match(self.text, self.at)
        if match is None or (self.text[match.end() : match.end() + 1] == "(" and match.group(2) in ("<", ">")):
            return None
        if match.group(2).startswith("&") and match.group(1):
            return None
        operator = match.group(2)
        self.at = match.end()
        self._blanks()
        if self._done() or (self.text[self.at] in _SINGLE and self.text[self.at : self.at + 2] not in _PROCESS):
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

    def _expanded(self, text: str) -> Word:
        """Return the body of a here-document whose substitutions are made."""
        inner = _Reader(text, self.resolvable, values=self.values, depth=self.depth + 1)
        if inner.depth > MAX_DEPTH:
            raise Unreadable("it is nested too deep")
        pieces = inner.quoted_until("")
        self.commands += inner.commands
        return word_of(pieces)

    # --- words

    def _word(self, *, split: bool = True) -> list[Word]:
        pieces: list[Piece] = []
        start = self.at
        while not self._done():
            char = self.text[self.at]
            if self.text[self.at : self.at + 2] in _PROCESS:
                self.at += 2
                pieces.append(Piece(UNKNOWN, quoted=True, inner=self._captured(")")))
            elif char in _BLANK or char in _SINGLE:
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
        inner = _Reader(inside, self.resolvable, values=self.values, depth=self.depth + 1)
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
        inner = _Reader(text, self.resolvable, values=dict(self.values), depth=self.depth)
        inner.read()
        self.depth -= 1
        self.commands += inner.commands
        self.assigned.update(inner.assigned)
        return tuple(inner.commands)

    # --- characters

    def _done(self) -> bool:
        return self.at >= len(self.text)

    def _looking(self, at: str) -> bool:
        return self.text.startswith(at, self.at)

    def _blanks(self, *, newlines: bool = False) -> None:
        while not self._done():
            char = self.text[self.at]
            if char in _BLANK:
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
        if self.text[self.at : self.at + 2] in _PROCESS:
            return None
        for operator in _OPERATORS:
            if self._looking(operator):
                if operator in _REDIRECTS:
                    return None
                self.at += len(operator)
                return operator
        char = self.text[self.at]
        if char in _SINGLE and char not in "<>":
            self.at += 1
            return char
        return None


def _is_temporary(value: Word) -> bool:
    """Return whether a value is the name of a file that was just made for it."""
    if value.text != UNKNOWN or len(value.inner) != 1:
        return False
    words = [word.text for word in value.inner[0].words]
    return words in (["mktemp"], ["mktemp", "-d"], ["mktemp", "-t"], ["mktemp", "-q"])
