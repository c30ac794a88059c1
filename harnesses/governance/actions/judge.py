"""Following what a command says through all that it runs, down to what is done in the end. Pure.

    text ──read_shell──► commands ──a rule for each program──► sayings ──what runs further is judged in turn──► what is done

The law: nothing is passed over because it is deep, long or odd; what can not be followed is said to be unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from harnesses.governance.actions.builtins import variable
from harnesses.governance.actions.code import code
from harnesses.governance.actions.databases import SCRIPTS
from harnesses.governance.actions.flow import NO_INPUT, input_of, output_of
from harnesses.governance.actions.nouns import (
    ANYTHING,
    MAX_PART,
    UNKNOWN,
    UNREADABLE,
    Call,
    Changes,
    Code,
    Command,
    File,
    Found,
    Input,
    Run,
    Sayings,
    Shell,
    Unreadable,
    Word,
    Write,
    unclear,
)
from harnesses.governance.actions.options import options
from harnesses.governance.actions.other_code import LANGUAGES
from harnesses.governance.actions.paths import normal
from harnesses.governance.actions.programs import HARMLESS, RULES
from harnesses.governance.actions.shell import read_shell
from harnesses.governance.actions.tasks import task
from harnesses.governance.actions.work import Work

MAX_DEPTH = 16
"""Programs that run each other."""
MAX_JUDGED = 5_000
"""Calls that are looked at for one command."""
_HOLE = "${UNKNOWN}"
_NAMED_ALIKE = re.compile(r"(python|pypy|node|ruby|perl|php|lua|bash|zsh|ksh|pip|gcc|clang|docker-compose)w?[-\d.]+(exe)?$")
_FOLLOWED = frozenset(RULES)
Done: TypeAlias = Found | Changes | Write


@frozen
class Judged:
    """Something that is done in the end, and the part of the command that does it."""

    done: Done
    part: str
    folder: str = ""
    """Where it has gone to before, if it has."""


@define
class Judge:
    """What is remembered while one command is judged."""

    disposable: Collection[str] = ()
    folder: str = ""
    written: dict[str, Word] = field(factory=dict[str, Word])
    """Files that an earlier part has written, and what is in them as far as that is known."""
    work: Work = field(factory=Work)
    _count: int = 0

    def text(self, text: str, depth: int = 0) -> Iterator[Judged]:
        """Judge what a shell reads."""
        part = _part(text)
        if depth > MAX_DEPTH:
            yield Judged(unclear("it is nested too deep"), part)
            return
        if UNKNOWN in text:
            yield Judged(unclear("part of what a shell runs is not known"), part)
            text = text.replace(UNKNOWN, _HOLE)
        try:
            self.work.spend(2 * len(text))
            commands = read_shell(text)
        except (Unreadable, RecursionError) as error:
            yield Judged(unclear(f"it can not be read: {error}"), part)
            return
        for command in commands:
            try:
                yield from self._command(command, depth)
            except Unreadable as error:
                yield Judged(unclear(str(error)), part)
                return

    def words(
        self, words: Sequence[Word], part: str, *, given: Input = NO_INPUT, depth: int = 0, guessed: bool = False
    ) -> Iterator[Judged]:
        """Judge a program and its words."""
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_JUDGED:
            yield Judged(unclear("it runs too many programs within each other"), part)
            return
        self.work.spend(len(words))
        if not words:
            return
        name, problem = _program(words[0])
        if problem is not None:
            if not guessed:
                yield Judged(problem, part)
            return
        if self._is_disposable(name, words[1:]):
            return
        for saying in self._sayings(name, words, given, guessed=guessed):
            yield from self._follow(saying, part, given, depth, guessed=guessed)

    def _command(self, command: Command, depth: int) -> Iterator[Judged]:
        part = command.part
        for name, value in command.assignments:
            for saying in variable(name, value):
                yield from self._follow(saying, part, NO_INPUT, depth)
        given = input_of(command)
        for redirect in command.redirects:
            if redirect.writes and not redirect.target.inner:
                self.work.on_path(redirect.target)
                yield Judged(Write(redirect.target), part, self.folder)
        yield from self.words(command.words, part, given=given, depth=depth)
        self._note_written(command, given)
        self._note_folder(command)

    def _sayings(self, name: str, words: Sequence[Word], given: Input, *, guessed: bool) -> Sayings:
        rule = RULES.get(name)
        args = tuple(words[1:])
        if rule is not None:
            call = Call(name, args, given)
            self.work.on_call(call)
            yield from rule(call)
        elif name in HARMLESS:
            return
        elif not guessed:
            yield from self._unknown(name, words, given)

    def _unknown(self, name: str, words: Sequence[Word], given: Input) -> Sayings:
        """Say what can be said of a program that there is no rule for: by its name, and by what its words would do."""
        program = words[0]
        if normal(program.text) in self.written:
            yield File(program, "shell")
        yield from task(name)
        from_script = SCRIPTS.get(name)
        if from_script is not None:
            yield from from_script(Call(name, tuple(words[1:]), given))
        for place in range(1, min(len(words), 60)):
            if words[place].known and words[place].text.rpartition("/")[2].lower() in _FOLLOWED:
                yield Run(tuple(words[place:]), guessed=True)

    def _follow(self, saying: object, part: str, given: Input, depth: int, *, guessed: bool = False) -> Iterator[Judged]:
        match saying:
            case Found():
                if not guessed or saying.category != UNREADABLE:
                    yield Judged(saying, part)
            case Write(path):
                self.work.on_path(path)
                yield Judged(saying, part, self.folder)
            case Changes():
                yield Judged(saying, part, self.folder)
            case Run(words, is_guess):
                yield from self.words(words, part, given=given, depth=depth + 1, guessed=guessed or is_guess)
            case Shell(text):
                yield from self._told(text, depth + 1)
            case Code(language, text):
                yield from self._code(language, text, part, depth + 1)
            case File(path, language):
                yield from self._file(path, language, part, depth + 1)
            case _:
                raise AssertionError(saying)

    def _told(self, text: Word, depth: int) -> Iterator[Judged]:
        # In a text that was put together from words, an unknown word may bring more of them.
        yield from self.text(text.text, depth)

    def _code(self, language: str, text: Word, part: str, depth: int) -> Iterator[Judged]:
        if depth > MAX_DEPTH:
            yield Judged(unclear("it is nested too deep"), part)
            return
        self.work.on_code(text.text, language)
        for saying in code(language, text.text):
            yield from self._follow(saying, part, NO_INPUT, depth)

    def _file(self, path: Word, language: str, part: str, depth: int) -> Iterator[Judged]:
        """Judge a file that is run, if it is this very command that has written it; others are not looked into."""
        content = self.written.get(normal(path.text))
        if content is None:
            return
        text, language = content.text, _language(content.text, language)
        if not text.strip(UNKNOWN):
            yield Judged(unclear(f"it runs {path}, which it has just written, and it is not known what is in it"), part)
        elif language == "shell":
            yield from self.text(text, depth)
        else:
            yield from self._code(language, content, part, depth)

    def _note_written(self, command: Command, given: Input) -> None:
        for redirect in command.redirects:
            if redirect.writes:
                self._write(redirect.target, output_of(command, given))
        words = command.words
        name = words[0].text.rpartition("/")[2] if words else ""
        if name == "tee":
            for path in options(words[1:]).operands:
                self._write(path, given.word if given.kind == "text" else Word(UNKNOWN))
        elif name in ("cp", "mv", "install", "ln") and len(words) > 2:
            self._note_copy(words[-2], words[-1])
        elif name in ("curl", "wget"):
            given_options = options(words[1:], "oOP" if name == "wget" else "o", ("output", "output-document"))
            for path in given_options.of("o", "O", "output", "output-document"):
                self._write(path, ANYTHING)
            if name == "wget" or given_options.has("O", "remote-name"):
                for address in given_options.operands:
                    self._write(Word(address.text.rpartition("/")[2]), ANYTHING)

    def _note_copy(self, source: Word, target: Word) -> None:
        """Note what a file is a copy of: one that was just written, a program under another name, or it is not known."""
        known = self.written.get(normal(source.text))
        if known is not None:
            self._write(target, known)
        elif not source.known or source.text.rpartition("/")[2].lower() in _FOLLOWED:
            self._write(target, ANYTHING)

    def _note_folder(self, command: Command) -> None:
        names = [word.text for word in command.words[:1]]
        if names in (["cd"], ["pushd"], ["popd"]):
            given = options(command.words[1:])
            path = given.operands[0] if given.operands else Word("~" if names == ["cd"] else UNKNOWN)
            text = UNKNOWN if path.text == "-" or path.splits else path.text
            self.folder = text if text.startswith(("/", "~", UNKNOWN)) or not self.folder else f"{self.folder}/{text}"

    def _write(self, path: Word, content: Word) -> None:
        if path.known:
            before = self.written.get(normal(path.text))
            # What is written twice, or appended, is no longer known.
            self.written[normal(path.text)] = content if before is None else Word(UNKNOWN)

    def _is_disposable(self, name: str, args: Sequence[Word]) -> bool:
        """Return whether it is `rm` of nothing but folders that may go, each by its name within where it works."""
        if name != "rm" or not self.disposable:
            return False
        given = options(args)
        paths = [path.text.rstrip("/") for path in given.operands]
        plain = all(
            path.known and not path.glob and not path.text.startswith(("/", "~")) and ".." not in path.text.split("/")
            for path in given.operands
        )
        here = not normal(self.folder).startswith(("/", "~", "..", UNKNOWN))
        return (
            bool(paths)
            and plain
            and here
            and not given.loose
            and all(path.rpartition("/")[2] in self.disposable for path in paths)
        )


def _program(word: Word) -> tuple[str, Found | None]:
    """Return the name of the program that a word stands for, or why it is not known."""
    name = word.text.rpartition("/")[2]
    if word.disguised:
        return "", unclear("the name of the program is written in escapes")
    if word.glob and name != "[":
        return "", unclear("which program it runs depends on what files there are")
    if UNKNOWN in name or word.splits or not name.strip():
        return "", unclear("which program it runs is known only when it runs")
    name = name.lower().removesuffix(".exe").removesuffix(".cmd").removesuffix(".bat")
    if alike := _NAMED_ALIKE.match(name):
        name = alike.group(1)
    if name.startswith(("mkfs.", "newfs_")):
        name = name[:4] if name.startswith("mkfs") else "newfs"
    return name, None


def _language(text: str, language: str) -> str:
    """Return in what language a file is, by its first line if that says so."""
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        name = re.split(r"[/ ]", first.removeprefix("#!").strip().removesuffix("-S").strip())[-1]
        return LANGUAGES.get(re.sub(r"[\d.]+$", "", name), "shell")
    return language


def _part(text: str) -> str:
    flat = " ".join(text.replace(UNKNOWN, "…").split())
    return flat if len(flat) <= MAX_PART else f"{flat[: MAX_PART - 1]}…"
