"""Reading text as bash does: tree-sitter-bash finds the structure, and each word and gap is held against bash's own rules.

    text ──cut out here-documents──► tree-sitter ──► simple commands, redirections, assignments, in the order of the text

The law: what is returned is all that bash would run. The tree is not trusted alone: every byte belongs to a word, an operator
or blank space as bash splits them, and any node, expansion or character that is not listed here raises `Unreadable`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from attrs import define, evolve, field, frozen

from harnesses.governance.actions.nouns import HOLE, Assignment, Item, Redirect, Simple, Unreadable, Word, cut, names

MAX_TEXT = 100_000
"""Characters of a command, here-documents included."""
MAX_READ = 10_000
"""Characters without the here-documents. The parser needs time and memory for more."""
MAX_OPERATORS = 1_000
MAX_DEPTH = 12
MAX_WORDS = 2_000
INSTALL = "pip install 'harness-orchestrator[guard]'"
_WORDS = names(
    "word string raw_string ansi_c_string concatenation number simple_expansion expansion command_substitution "
    "process_substitution arithmetic_expansion brace_expression extglob_pattern regex test_operator variable_name"
)
_GROUPS = names(
    "program list pipeline negated_command subshell compound_statement redirected_statement if_statement elif_clause "
    "else_clause while_statement do_group"
)
_TOKENS = names("; & && || | |& ( ) { } ! if then elif else fi while until do done for in [ ] [[ ]] ` $( <( = ;\n") | {"\n"}
_TESTS = names("unary_expression binary_expression parenthesized_expression")
_OPEN = frozenset(";&|()<>`")
_HERE = re.compile(
    r"(?<![<\d])<<(-?)[ \t]*(?:'([A-Za-z_]\w*)'|\"([A-Za-z_]\w*)\"|([A-Za-z_]\w*))(?=[\s;&|<>)]|$)([\w\s./;&|<>)-]*)$"
)
_GAP = re.compile(rb"(?:[ \t\n]|(?<=[ \t])\\\n)*")
_INNER_GAP = re.compile(rb"(?:[ \t]|(?<=[ \t])\\\n)*")
_PLAIN = re.compile(rb"[^\s'\"\\$`|&;()<>*?\[{}]+")
_VARIABLE = re.compile(rb"\$(?:([A-Za-z_]\w*)|([0-9?#!@*$-])|\{([A-Za-z_]\w*|[0-9?#@*])\})")
_TRIMMED = re.compile(rb"\$\{([A-Za-z_]\w*)(?::?-|%%?|##?|//?|,,|\^\^)[\w./ *:@+,-]*\}")
_LENGTH = re.compile(rb"\$\{#([A-Za-z_]\w*)\}")
_SUM = re.compile(rb"\$\(\([0-9 +*/%()-]+\)\)")
_HASH = re.compile(r"git (?:merge-base|rev-parse(?: --short)?)(?: \w[\w./-]*){1,2}")
"""Commands that print the hash of a commit, or what they were given."""
_ANSI = re.compile(rb"\$'((?:[^'\\]|\\[nt\\'])*)'")
_BRACES = re.compile(r"([\w./@^~:-]*)\{([\w./-]*)((?:,[\w./-]*)+)\}([\w./-]*)")
_RANGE = re.compile(r"([\w./:-]*)\{(\d{1,4})\.\.(\d{1,4})\}([\w./-]*)")
_NO_BRACES = re.compile(r"[\w./@^~-]*\{[\w-]*\}[\w./^~]*")
_AFTER_DOLLAR = frozenset(bytes([char]) for char in b" \"/)|'\\.,%]^+=:") | {b""}
"""What a dollar sign may stand before without being more than one."""
SHOWN = names("HOME PWD OLDPWD USER LOGNAME SHELL LANG TERM HOSTNAME TMPDIR PATH UID EUID RANDOM SECONDS ? # ! $ 0 @ *")
"""Variables of the environment that may be shown; others may be secrets."""
NAMES = names(
    "base branch code commit count dest dir dst end ext file files item key len line lines module msg name new num "
    "number old out pkg result size src start sum test text total url val value version word words"
)
"""Variables that a command may set, besides those of one or two small letters: no program or shell reads them."""


@frozen
class Cut:
    """A text without its here-documents, which are read as files with these names."""

    text: str
    names: tuple[str, ...]


def read_bash(text: str) -> tuple[Item, ...]:
    """Return all that a text does, in the order of the text.

    Raises:
        Unreadable: it cannot be read, or tree-sitter is not installed.
    """
    if len(text) > MAX_TEXT:
        raise Unreadable(f"it has {len(text)} characters: expected at most {MAX_TEXT}")
    if odd := next((char for char in text if not (char.isprintable() or char in "\t\n")), None):
        raise Unreadable(f"there is a control character in it: {odd!r}")
    short = cut_here_documents(text)
    if len(short.text) > MAX_READ or sum(map(short.text.count, "|&;<>(){}[]$`")) > MAX_OPERATORS:
        raise Unreadable(f"it is too long to be read: expected at most {MAX_READ} characters and {MAX_OPERATORS} operators")
    try:
        data = short.text.encode()
    except UnicodeEncodeError as error:
        raise Unreadable("there are characters in it that are none") from error
    root = _parser().parse(data).root_node
    if root.has_error:
        raise Unreadable("it is not a whole command, or is written in a way that is not read")
    reader = Reader(data, assigned=_assigned(root, data))
    try:
        reader.region(root, 0, len(data))
    except RecursionError as error:
        raise Unreadable("it is nested too deep") from error
    found = [item for item in reader.items if isinstance(item, Redirect) and item.target.text in short.names]
    if len(found) != len(short.names):
        raise Unreadable("a here-document stands where it is not read")
    return tuple(item for item in reader.items if item not in found)


def cut_here_documents(text: str) -> Cut:
    """Take the here-documents out of a text, each an input from a file of a name that is in no text, in its place."""
    lines, kept, names = text.split("\n"), list[str](), list[str]()
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        found = _HERE.search(line)
        if found is None or "<<" in found[5] or "<<" in line[: found.start()]:
            kept.append(line)
            continue
        end = found[2] or found[3] or found[4]
        last = next((at for at in range(place, len(lines)) if _bare(lines[at], found[1]) == end), None)
        body = lines[place:last]
        expands = found[4] and any(set(one) & set("$`\\") for one in body)
        if last is None or expands or any(one.lstrip().startswith(f"{end})") for one in body):
            raise Unreadable("a here-document has no end, or is not quoted and has something to be expanded")
        names.append(f"/dev/null/here-document-{len(names)}")
        if names[-1] in text:
            raise Unreadable("a here-document cannot be told from its text")
        kept.append(f"{line[: found.start()]}<{names[-1]} {found[5]}")
        place = last + 1
    return Cut("\n".join(kept), tuple(names))


def _bare(line: str, dash: str) -> str:
    return line.lstrip("\t") if dash else line


@cache
def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise Unreadable(f"tree-sitter-bash, which reads commands, is not installed: {INSTALL}") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@define
class Reader:
    """What is collected while a tree is walked."""

    data: bytes
    items: list[Item] = field(factory=list[Item])
    variables: dict[str, list[Word]] = field(factory=dict[str, list[Word]])
    """What is assigned to each variable, so far."""
    assigned: Counter[bytes] = field(factory=Counter[bytes])
    """How often each variable is assigned in all: in a loop, the last may come before the first."""
    depth: int = 0
    loops: int = 0
    _spans: list[tuple[int, int]] = field(factory=list[tuple[int, int]])

    def region(self, node: Any, start: int, end: int) -> None:
        """Read what is in a tree or a substitution, and hold its gaps against bash's rules."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"it is nested more than {MAX_DEPTH} deep")
        outer, self._spans = self._spans, []
        for child in node.children if node.type != "program" else [node]:
            if (start <= child.start_byte and child.end_byte <= end) or node.type == "program":
                self.walk(child)
        spans = [(start, start), *sorted(self._spans), (end, end)]
        for (_, left), (right, until) in pairwise(spans):
            if right < left or not _GAP.fullmatch(self.data, left, right):
                raise Unreadable(f"it is not clear how bash splits {_shown(self.data[max(0, left - 20) : right + 20])}")
            joined = start < left == right < end and right < until
            if joined and not {chr(self.data[left - 1]), chr(self.data[right])} & _OPEN:
                raise Unreadable(f"two words stand together: {_shown(self.data[max(0, left - 20) : right + 20])}")
        self._spans = outer
        self.depth -= 1

    def walk(self, node: Any, feeds: tuple[str, ...] = ()) -> None:
        """Read one node of the tree."""
        kind = node.type
        if not node.is_named:
            if kind not in _TOKENS:
                raise Unreadable(f"{kind!r} is not read")
            self._span(node)
        elif kind == "comment":
            before = self.data[node.start_byte - 1 : node.start_byte]
            if before not in (b"", b" ", b"\t", b"\n", b";") or b"\n" in self.data[node.start_byte : node.end_byte]:
                raise Unreadable("it is not clear whether '#' begins a comment")
            self._span(node)
        elif kind == "pipeline":
            for child in node.children:
                began = len(self.items)
                self.walk(child, feeds)
                feeds += tuple(str(one.words[0]) for one in self.items[began:] if isinstance(one, Simple) and one.words)
        elif kind in _GROUPS:
            self.loops += kind == "while_statement"
            for child in node.children:
                self.walk(child, feeds)
            self.loops -= kind == "while_statement"
        else:
            self._leaf(node, feeds)

    def _leaf(self, node: Any, feeds: tuple[str, ...]) -> None:
        match node.type:
            case "command":
                self._command(node, feeds)
            case "test_command":
                self._test(node)
            case "for_statement":
                self._loop(node)
            case "file_redirect" | "herestring_redirect":
                self._redirect(node)
            case "variable_assignment":
                self._assign(node)
            case "variable_assignments":
                for child in node.children:
                    self._assign(child)
            case kind:
                raise Unreadable(f"{kind.replace('_', ' ')} is not read: {_shown(self._text(node))}")

    def _span(self, node: Any) -> None:
        self._spans.append((node.start_byte, node.end_byte))

    def _text(self, node: Any) -> bytes:
        return self.data[node.start_byte : node.end_byte]

    def _part(self, node: Any) -> str:
        return cut(self._text(node).decode())

    def _command(self, node: Any, feeds: tuple[str, ...]) -> None:
        words: list[Word] = []
        settings: list[tuple[str, Word]] = []
        for left, right in pairwise(node.children):
            if not _INNER_GAP.fullmatch(self.data, left.end_byte, right.start_byte):
                raise Unreadable("it is not clear where a command ends")
        for child in node.children:
            match child.type:
                case "variable_assignment" if not words:
                    settings.append(self._setting(child))
                case "command_name":
                    words += self.words(child)
                case "file_redirect" | "herestring_redirect":
                    self._redirect(child)
                case _:
                    words += self.words(child)
        if len(words) > MAX_WORDS:
            raise Unreadable(f"it has {len(words)} words: expected at most {MAX_WORDS}")
        if words and words[0].text == "read":
            self.variables |= {word.text: [] for word in words[1:]}
        self.items.append(Simple(tuple(words), self._part(node), tuple(settings), feeds, self.loops > 0))

    def _test(self, node: Any) -> None:
        words: list[Word] = []
        todo = [node]
        if b"\n" in self._text(node):
            raise Unreadable("a condition has several lines")
        while todo:
            one = todo.pop()
            if one.type in _TESTS or one is node:
                todo += reversed(one.children)
            elif one.is_named:
                words += self.words(one)
            else:
                self._span(one)
                words.append(Word(one.type))
        self.items.append(Simple(tuple(words), self._part(node), (), (), self.loops > 0))

    def _loop(self, node: Any) -> None:
        names = [child for child in node.children if child.type == "variable_name"]
        body = [child for child in node.children if child.type == "do_group"]
        values: list[Word] = []
        for child in node.children:
            if child in names:
                self._span(child)
            elif child.is_named and child.type != "do_group":
                values += self.words(child)
            elif child not in body:
                self.walk(child)
        if len(names) != 1 or len(body) != 1:
            raise Unreadable("a `for` is not read")
        self._set(self._text(names[0]).decode(), values)
        self.loops += 1
        self.walk(body[0])
        self.loops -= 1

    def _setting(self, node: Any) -> tuple[str, Word]:
        """Return the name and the value of an assignment."""
        found = re.match(rb"([A-Za-z_]\w*)=", self._text(node))
        if found is None or len(node.children) > 3:
            raise Unreadable(f"an assignment is not read: {_shown(self._text(node))}")
        value = Word("")
        if len(node.children) == 3:
            inner = list(self.words(node.children[2], node.start_byte + found.end()))
            self._spans.pop()
            value = inner[0] if len(inner) == 1 else Word(HOLE)
        elif self._text(node) != found[0]:
            raise Unreadable(f"an assignment is not read: {_shown(self._text(node))}")
        self._span(node)
        return found[1].decode(), evolve(value, splits=False)

    def _assign(self, node: Any) -> None:
        name, value = self._setting(node)
        self._set(name, [value])
        self.items.append(Assignment(name, value, self._part(node)))

    def _set(self, name: str, values: Sequence[Word]) -> None:
        if not (re.fullmatch("[A-Za-z][a-z0-9]?", name) or name in NAMES):
            raise Unreadable(f"it sets the variable {name}, which programs may read")
        self.variables[name] = [*values]

    def _redirect(self, node: Any) -> None:
        operator, target = "", Word("")
        for child in node.children:
            if child.type == "file_descriptor":
                self._span(child)
            elif child.is_named:
                found = list(self.words(child))
                if operator and len(found) == 1 and not target.text:
                    target = found[0]
                else:
                    raise Unreadable("a redirection is not read")
            else:
                self._span(child)
                operator = child.type
        self.items.append(Redirect(operator, target, self._part(node)))

    # words

    def words(self, node: Any, start: int | None = None) -> Iterator[Word]:
        """Yield the words that one word of the text becomes, and read the commands whose output is part of it."""
        if node.type not in _WORDS and node.type != "command_name":
            raise Unreadable(f"{node.type.replace('_', ' ')} is not read: {_shown(self._text(node))}")
        start = node.start_byte if start is None else start
        if start != node.start_byte:
            raise Unreadable("an assignment is not read")
        self._span(node)
        spans, self._spans = self._spans, []
        text = self._text(node).decode()
        if text.endswith("}") and self.data[node.end_byte : node.end_byte + 1] in (b"<", b">"):
            raise Unreadable("a redirection sets a variable")
        if found := _BRACES.fullmatch(text):
            yield from (Word(found[1] + one + found[4]) for one in [found[2], *found[3].split(",")[1:]])
        elif (found := _RANGE.fullmatch(text)) and abs(int(found[2]) - int(found[3])) <= 100:
            low, high = sorted((int(found[2]), int(found[3])))
            yield from (Word(f"{found[1]}{one}{found[4]}") for one in range(low, high + 1))
        elif _NO_BRACES.fullmatch(text):
            yield Word(text)
        else:
            inner = {one.start_byte: one for one in _substitutions(node)}
            yield self._word(node.start_byte, node.end_byte, inner)
        self._spans = spans

    def _word(self, at: int, end: int, inner: dict[int, Any]) -> Word:
        word = Word("")
        if self.data[at : at + 1] == b"#":
            raise Unreadable("'#' begins a word")
        while at < end:
            char = self.data[at : at + 1]
            if found := _PLAIN.match(self.data, at, end):
                word, at = _joined(word, Word(found[0].decode())), found.end()
            elif char == b"'":
                close = self.data.find(b"'", at + 1, end)
                if close < 0:
                    raise Unreadable("a quote is not closed")
                word, at = _joined(word, Word(self.data[at + 1 : close].decode())), close + 1
            elif char == b'"':
                quoted, at = self._quoted(at + 1, end, inner)
                word = _joined(word, quoted)
            elif char == b"\\" and self.data[at + 1 : at + 2] not in (b"", b"\n") and at + 1 < end:
                letter = self.data[at + 1 : end].decode()[0]
                word, at = _joined(word, Word(letter)), at + 1 + len(letter.encode())
            elif char in (b"*", b"?", b"["):
                word, at = _joined(word, Word(char.decode(), glob=True)), at + 1
            elif char in (b"$", b"`", b"<"):
                value, at = self._expansion(at, end, inner)
                word = _joined(word, value)
            else:
                raise Unreadable(f"{char.decode(errors='replace')!r} stands in a word: {_shown(self.data[at:end])}")
        return word

    def _quoted(self, at: int, end: int, inner: dict[int, Any]) -> tuple[Word, int]:
        word = Word("")
        while at < end:
            char = self.data[at : at + 1]
            if char == b'"':
                return evolve(word, splits=False), at + 1
            if char == b"\\" and self.data[at + 1 : at + 2] in (b'"', b"\\", b"$", b"`"):
                word, at = _joined(word, Word(chr(self.data[at + 1]))), at + 2
            elif char == b"\\" and self.data[at + 1 : at + 2] == b"\n":
                raise Unreadable("a line is continued within quotes")
            elif char in (b"$", b"`"):
                value, at = self._expansion(at, end, inner, quoted=True)
                word = _joined(word, value)
            else:
                close = re.compile(rb'[^"\\$`]+|\\').match(self.data, at, end)
                assert close is not None
                word, at = _joined(word, Word(close[0].decode())), close.end()
        raise Unreadable("a quote is not closed")

    def _expansion(self, at: int, end: int, inner: dict[int, Any], *, quoted: bool = False) -> tuple[Word, int]:
        """Return what an expansion becomes, and where it ends."""
        if found := _SUM.match(self.data, at, end):
            return Word(HOLE), found.end()
        node = inner.get(at)
        if node is not None and node.end_byte <= end:
            return self._substitution(node), node.end_byte
        if not quoted and (found := _ANSI.match(self.data, at, end)):
            text = found[1].decode()
            return Word(re.sub(r"\\(.)", lambda one: {"n": "\n", "t": "\t"}.get(one[1], one[1]), text)), found.end()
        if found := _LENGTH.match(self.data, at, end):
            return Word(HOLE), found.end()
        found = _VARIABLE.match(self.data, at, end)
        trimmed = None if found else _TRIMMED.match(self.data, at, end)
        if found or trimmed:
            part = found or trimmed
            assert part is not None
            name = next(one for one in part.groups() if one).decode()
            value = self._value(name) if found else self._value(name) and Word(HOLE)
            many = name in "@*" or not value.known or set(value.text) & set(" \t\n*?[\\")
            return evolve(value, splits=bool(many) and not (quoted and name != "@")), part.end()
        if self.data[at : at + 1] == b"$" and self.data[at + 1 : at + 2] in _AFTER_DOLLAR and (quoted or at + 1 == end):
            return Word("$"), at + 1
        raise Unreadable(f"what becomes of it is known only when it runs: {_shown(self.data[at:end])}")

    def _value(self, name: str) -> Word:
        values = self.variables.get(name)
        if values is None:
            if name in SHOWN or name.isdigit() or re.fullmatch("[A-Za-z][a-z0-9]?", name) or name in NAMES:
                return Word("~" if name == "HOME" else HOLE)
            raise Unreadable(f"it shows the variable {name}, which may be a secret")
        once = len(values) == 1 and self.assigned[name.encode()] == 1
        return values[0] if once and not values[0].splits else Word(HOLE)

    def _substitution(self, node: Any) -> Word:
        opened = node.children[0].type
        if opened == "`" and b"\\" in self._text(node):
            raise Unreadable("a backslash stands within backquotes")
        if opened not in ("$(", "`", "<("):
            raise Unreadable(f"{opened!r} is not read")
        began = len(self.items)
        self.region(node, node.start_byte, node.end_byte)
        match self.items[began:]:
            case [Simple(words)] if _HASH.fullmatch(" ".join(word.text for word in words if word.known)):
                return Word("0000000")
            case _:
                return Word("/dev/fd/" + HOLE) if opened == "<(" else Word(HOLE, splits=True)


def _assigned(root: Any, data: bytes) -> Counter[bytes]:
    """Count how often each variable is assigned."""
    counted, todo = Counter[bytes](), [root]
    while todo:
        one = todo.pop()
        todo += one.children
        text = data[one.start_byte : one.end_byte]
        if one.type == "variable_name" and one.parent.type in ("variable_assignment", "for_statement"):
            counted[text] += 1
        elif one.type == "command" and b"read" in text:
            counted.update(dict.fromkeys(text.split(), 2))
    return counted


def _substitutions(node: Any) -> Iterator[Any]:
    """Yield the outermost substitutions of a word."""
    todo = [node]
    while todo:
        one = todo.pop()
        if one.type in ("command_substitution", "process_substitution"):
            yield one
        else:
            todo += one.children


def _joined(left: Word, right: Word) -> Word:
    return Word(left.text + right.text, left.splits or right.splits, left.glob or right.glob)


def _shown(data: bytes) -> str:
    return cut(data.decode(errors="replace"), 60)
