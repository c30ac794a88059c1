"""Parses commands as bash does: tree-sitter-bash finds the structure, and each word and gap is checked against bash's rules.

    text ──cut out here-documents──► tree-sitter ──► simple commands and redirections, in the order of the text

Invariant: the result contains everything that bash would run. The tree is not trusted alone: every byte must belong to a word,
an operator or blank space as bash splits them, and any node, expansion or character that is not listed here raises
`Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from attrs import define, evolve, field

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import NotReady
from harnesses.guard.command_model import HOLE, Item, Redirect, Simple, Unreadable, Word, cut, names

MAX_TEXT = 100_000
"""Characters of a command, here-documents included."""
MAX_READ = 10_000
"""Maximum number of characters without the here-documents, to bound the parser's time and memory."""
MAX_OPERATORS = 1_000
MAX_HERE_DOCUMENTS = 20
_MODULES = ("tree_sitter", "tree_sitter_bash")
_WORDS = names(
    "word string raw_string concatenation number simple_expansion expansion command_substitution command_name "
    "process_substitution arithmetic_expansion brace_expression extglob_pattern regex test_operator variable_name"
)
_GROUPS = names(
    "program list pipeline negated_command subshell compound_statement redirected_statement if_statement elif_clause "
    "else_clause while_statement do_group variable_assignments"
)
_TOKENS = names("; & && || | |& ( ) { } ! if then elif else fi while until do done for in [ ] [[ ]] $( <( = ;\n") | {"\n"}
_TESTS = names("test_command unary_expression binary_expression parenthesized_expression")
_OPEN = frozenset(";&|()<>")
_HERE = re.compile(
    r"(?<![<\d])<<[ \t]*(?P<quote>['\"])(?P<end>[A-Za-z_]\w*)(?P=quote)(?P<rest>[ \t;&|>)][\w\t ./;&|>)-]*)?\n"
    r"(?:(?!\s*(?P=end))[^\n]*\n)*(?P=end)(?:\n|\Z)"
)
"""A here-document without expansions, from its operator to its end."""
_GAP = re.compile(r"(?:[ \t\n]|(?<=[ \t])\\\n)*")
_INNER_GAP = re.compile(r"(?:[ \t]|(?<=[ \t])\\\n)*")
_UNQUOTED = re.compile(
    r"""(?P<plain>[^\s'"\\$`|&;()<>*?\[{}]+) | '(?P<raw>[^']*)' | \\(?P<escaped>[^\n]) | (?P<glob>[*?\[]) | (?P<quote>")""",
    re.ASCII | re.VERBOSE,
)
_QUOTED = re.compile(r"""(?P<plain>(?:[^"\\$`]|\\(?![\n"\\$`]))+) | \\(?P<escaped>["\\$`]) | (?P<quote>")""", re.VERBOSE)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|([0-9?#!@*$-])|\{([A-Za-z_]\w*|[0-9?#@*])\})", re.ASCII)
_SUM = re.compile(r"\$\(\([0-9 +*/%()-]+\)\)")
_DOLLAR = re.compile(r"""\$(?=[ "/)|'\\.,%\]^+=:]|\Z)""")
"""A dollar sign that stands for itself."""
_HASH = re.compile(r"git (?:merge-base|rev-parse(?: --short)?)(?: \w[\w./-]*){1,2}")
"""Commands that print a commit hash, or their own arguments."""
_BRACES = re.compile(r"([\w./@^~:-]*)\{([\w./-]*(?:,[\w./-]*)+)\}([\w./-]*)")
_NO_BRACES = re.compile(r"[\w./@^~-]*\{[\w-]*\}[\w./^~]*")
_SHOWN = names("HOME PWD OLDPWD USER LOGNAME SHELL LANG TERM HOSTNAME TMPDIR PATH UID EUID RANDOM SECONDS ? # ! $ 0 @ *")
"""Environment variables that may be shown; others may be secrets."""
_NAMES = names(
    "base branch code commit count dest dir dst end ext file files item key len line lines module msg name new num "
    "number old out pkg result size src start sum test text total url val value version word words"
)
"""Variables that a command may set, in addition to lower-case names of one or two letters: no program or shell reads them."""


def read_bash(text: str) -> tuple[Item, ...]:
    """Parse a text into commands and redirections, in the order of the text.

    Raises:
        Unreadable: it cannot be parsed, or tree-sitter is not installed.
    """
    if len(text) > MAX_TEXT or text.count("<<") > MAX_HERE_DOCUMENTS:
        raise Unreadable(
            f"the command is too long: expected at most {MAX_TEXT} characters, {MAX_HERE_DOCUMENTS} here-documents"
        )
    if odd := next((char for char in text if not (char.isprintable() or char in "\t\n")), None):
        raise Unreadable(f"the command contains the control character {odd!r}")
    short, documents = cut_here_documents(text)
    if len(short) > MAX_READ or sum(map(short.count, "|&;<>(){}[]$`")) > MAX_OPERATORS:
        raise Unreadable(
            f"the command is too long to parse: expected at most {MAX_READ} characters and {MAX_OPERATORS} operators"
        )
    data = short.encode()
    root = _parser().parse(data).root_node
    if root.has_error:
        raise Unreadable("the command is incomplete, or uses syntax that is not supported")
    reader = Reader(data.decode("latin-1"))
    try:
        reader.region(root, 0, len(data))
    except RecursionError as error:
        raise Unreadable("the command is nested too deep") from error
    found = [item for item in reader.items if isinstance(item, Redirect) and item.target.text in documents]
    if len(found) != len(documents):
        raise Unreadable("a here-document is in a place that is not supported")
    return tuple(item for item in reader.items if item not in found)


def cut_here_documents(text: str) -> tuple[str, list[str]]:
    """Replace each here-document by input from a file with a name that occurs nowhere in the text; return also those names."""
    documents: list[str] = []

    def replace(found: re.Match[str]) -> str:
        documents.append(f"/dev/null/here-document-{len(documents)}")
        return f"<{documents[-1]}{found['rest'] or ''}\n"

    if "here-document" in text:
        raise Unreadable("the end of a here-document is ambiguous")
    return _HERE.sub(replace, text), documents


@cache
def _parser() -> Any:
    try:
        tree_sitter, bash = load_reader()
    except NotReady as error:
        raise Unreadable(str(error)) from error
    return tree_sitter.Parser(tree_sitter.Language(bash.language()))


def load_reader() -> list[Any]:
    """Return the parser modules.

    Raises:
        NotReady: they are not installed.
    """
    return [load_extra(module, "guard", "parsing a command") for module in _MODULES]


@define
class Reader:
    """Collects commands and redirections while walking a syntax tree."""

    data: str
    """The text with one character per byte, to match the offsets of the tree."""
    items: list[Item] = field(factory=list[Item])
    variables: dict[str, Word] = field(factory=dict[str, Word])
    """Values of the variables that are assigned exactly once."""
    _spans: list[tuple[int, int]] = field(factory=list[tuple[int, int]])

    def region(self, node: Any, start: int, end: int) -> None:
        """Read a tree or a substitution, and check its gaps against bash's rules."""
        outer, self._spans = self._spans, []
        for child in node.children if node.type != "program" else [node]:
            self.walk(child)
        spans = [(start, start), *sorted(self._spans), (end, end)]
        for (_, left), (right, until) in pairwise(spans):
            joined = start < left == right < end and right < until
            apart = not joined or {self.data[left - 1], self.data[right]} & _OPEN
            if right < left or not apart or not _GAP.fullmatch(self.data, left, right):
                raise Unreadable(f"it is unclear how bash splits {self._excerpt(max(0, left - 20), right + 20)}")
        self._spans = outer

    def walk(self, node: Any, feeds: tuple[str, ...] = ()) -> None:
        """Read one node of the tree; `feeds` are the preceding commands of its pipeline."""
        kind = node.type
        if not node.is_named and kind in _TOKENS:
            self._span(node)
        elif kind == "comment":
            if self.data[: node.start_byte][-1:] not in ("", " ", "\t", "\n", ";") or "\n" in self._text(node):
                raise Unreadable("it is unclear whether '#' begins a comment")
            self._span(node)
        elif kind in _GROUPS and node.is_named:
            for child in node.children:
                began = len(self.items)
                self.walk(child, feeds)
                if kind == "pipeline":
                    ran = (one for one in self.items[began:] if isinstance(one, Simple) and one.words)
                    feeds += tuple(" ".join(map(str, one.words)) for one in ran)
        elif kind == "command":
            self._command(node, feeds)
        elif kind == "test_command":
            self.items.append(Simple(tuple(self._test(node)), self._part(node)))
        elif kind == "for_statement":
            self._loop(node)
        elif kind in ("file_redirect", "herestring_redirect"):
            self._redirect(node)
        elif kind == "variable_assignment":
            name, value = self._setting(node)
            self._set(name, value)
        else:
            raise Unreadable(f"{kind.replace('_', ' ')} is not supported: {self._excerpt(node.start_byte, node.end_byte)}")

    def _span(self, node: Any) -> None:
        self._spans.append((node.start_byte, node.end_byte))

    def _text(self, node: Any) -> str:
        return _decode(self.data[node.start_byte : node.end_byte])

    def _part(self, node: Any) -> str:
        return cut(self._text(node))

    def _excerpt(self, start: int, end: int) -> str:
        return cut(self.data[start:end].encode("latin-1").decode(errors="replace"), 60)

    def _command(self, node: Any, feeds: tuple[str, ...]) -> None:
        words: list[Word] = []
        settings: list[tuple[str, Word]] = []
        for left, right in pairwise(node.children):
            if not _INNER_GAP.fullmatch(self.data, left.end_byte, right.start_byte):
                raise Unreadable("it is unclear where a command ends")
        for child in node.children:
            if child.type == "variable_assignment" and not words:
                settings.append(self._setting(child))
            elif child.type in ("file_redirect", "herestring_redirect"):
                self._redirect(child)
            else:
                words += self.words(child)
        self.items.append(Simple(tuple(words), self._part(node), tuple(settings), feeds))

    def _test(self, node: Any) -> Iterator[Word]:
        """Yield the words and operators of a condition."""
        if "\n" in self._text(node):
            raise Unreadable("a condition spans several lines")
        for child in node.children:
            if child.type in _TESTS:
                yield from self._test(child)
            elif child.is_named:
                yield from self.words(child)
            else:
                self._span(child)
                yield Word(child.type)

    def _loop(self, node: Any) -> None:
        named: list[str] = []
        values: list[Word] = []
        for child in node.children:
            if child.type == "variable_name":
                self._span(child)
                named.append(self._text(child))
            elif child.type == "do_group" or not child.is_named:
                if child.type == "do_group" and len(named) == 1:
                    self._set(named[0], values[0] if len(values) == 1 else Word(HOLE))
                self.walk(child)
            else:
                values += self.words(child)
        if len(named) != 1:
            raise Unreadable("this form of `for` is not supported")

    def _setting(self, node: Any) -> tuple[str, Word]:
        """Return the name and the value of an assignment."""
        name, *rest = node.children
        kinds = [name.type, *(one.type for one in rest[:1])]
        joined = all(left.end_byte == right.start_byte for left, right in pairwise(node.children))
        if kinds != ["variable_name", "="] or len(rest) > 2 or not joined or rest[-1].end_byte != node.end_byte:
            raise Unreadable(f"this assignment is not supported: {self._part(node)}")
        spans = [*self._spans, (node.start_byte, node.end_byte)]
        value = [Word("")] if len(rest) == 1 else list(self.words(rest[1]))
        self._spans = spans
        return self._text(name), evolve(value[0], splits=False) if len(value) == 1 else Word(HOLE)

    def _set(self, name: str, value: Word) -> None:
        if not _is_own(name):
            raise Unreadable(f"the command sets the variable {name}, which programs may read")
        # The value of a variable is certain only if its name occurs once, apart from where it is expanded.
        text = re.sub(r"[\\'\"]", "", self.data)
        once = len(re.findall(rf"(?<!\w)(?<!\$)(?<!\$\{{){name}(?!\w)", text)) == 1
        self.variables[name] = value if once and not value.splits else Word(HOLE)

    def _redirect(self, node: Any) -> None:
        operator, target = "", list[Word]()
        for child in node.children:
            if child.is_named and child.type != "file_descriptor":
                target += self.words(child)
            else:
                self._span(child)
                operator = child.type
        if len(target) > 1 or operator == "file_descriptor":
            raise Unreadable("this redirection is not supported")
        self.items.append(Redirect(operator, target[0] if target else Word(""), self._part(node)))

    # Words.

    def words(self, node: Any) -> Iterator[Word]:
        """Yield the words that a node expands to, and read the commands substituted in it."""
        if node.type not in _WORDS:
            raise Unreadable(
                f"{node.type.replace('_', ' ')} is not supported: {self._excerpt(node.start_byte, node.end_byte)}"
            )
        self._span(node)
        text = self._text(node)
        if text.endswith("}") and self.data[node.end_byte : node.end_byte + 1] in ("<", ">"):
            raise Unreadable("a redirection sets a variable")
        if found := _BRACES.fullmatch(text):
            yield from (Word(found[1] + one + found[3]) for one in found[2].split(","))
        elif _NO_BRACES.fullmatch(text):
            yield Word(text)
        else:
            spans = self._spans
            yield self._word(node.start_byte, node.end_byte, {one.start_byte: one for one in _substitutions(node)})
            self._spans = spans

    def _word(self, at: int, end: int, inner: dict[int, Any]) -> Word:
        if self.data[at] == "#":
            raise Unreadable("'#' begins a word")
        parts: list[Word] = []
        quoted = False
        while at < end:
            found = (_QUOTED if quoted else _UNQUOTED).match(self.data, at, end)
            if found is None:
                part, at = self._expansion(at, end, inner, quoted=quoted)
                parts.append(part)
                continue
            kind, at = str(found.lastgroup), found.end()
            if kind == "quote":
                quoted = not quoted
            else:
                parts.append(Word(found[kind], glob=kind == "glob"))
        if quoted:
            raise Unreadable("a quote is not closed")
        text = "".join(part.text for part in parts)
        return Word(_decode(text), any(part.splits for part in parts), any(part.glob for part in parts))

    def _expansion(self, at: int, end: int, inner: dict[int, Any], *, quoted: bool) -> tuple[Word, int]:
        """Return what an expansion becomes, one character per byte, and where it ends."""
        if found := _SUM.match(self.data, at, end):
            return Word(HOLE), found.end()
        node = inner.get(at)
        if node is not None and node.end_byte <= end:
            return evolve(value := self._substitution(node), splits=value.splits and not quoted), node.end_byte
        if found := _VARIABLE.match(self.data, at, end):
            name = next(one for one in found.groups() if one)
            value = self._value(name)
            many = name in "@*" or not value.known or set(value.text) & set(" \t\n*?[\\")
            word = Word(value.text.encode().decode("latin-1"), bool(many) and (not quoted or name == "@"), value.glob)
            return word, found.end()
        if (quoted or at + 1 == end) and (found := _DOLLAR.match(self.data, at, end)):
            return Word("$"), found.end()
        raise Unreadable(f"the value is known only at run time: {self._excerpt(at, end)}")

    def _value(self, name: str) -> Word:
        if name in self.variables:
            return self.variables[name]
        if name in _SHOWN or name.isdigit() or _is_own(name):
            return Word("~" if name == "HOME" else HOLE)
        raise Unreadable(f"the command shows the variable {name}, which may be a secret")

    def _substitution(self, node: Any) -> Word:
        opened = node.children[0].type
        if opened not in ("$(", "<("):
            raise Unreadable(f"{opened!r} is not supported")
        began = len(self.items)
        self.region(node, node.start_byte, node.end_byte)
        match self.items[began:]:
            case [Simple(words)] if _HASH.fullmatch(" ".join(word.text for word in words if word.known)):
                return Word("0000000")
            case _:
                return Word("/dev/fd/" + HOLE) if opened == "<(" else Word(HOLE, splits=True)


def _is_own(name: str) -> bool:
    return name in _NAMES or re.fullmatch("[A-Za-z][a-z0-9]?", name) is not None


def _decode(text: str) -> str:
    return text.encode("latin-1").decode()


def _substitutions(node: Any) -> Iterator[Any]:
    """Yield the outermost substitutions of a word."""
    for child in [node] if node.type in ("command_substitution", "process_substitution") else node.children:
        if child.type in ("command_substitution", "process_substitution"):
            yield child
        else:
            yield from _substitutions(child)
