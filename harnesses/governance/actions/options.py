"""Reading the words of a command by a row of the table: which are options, which their values, and which operands."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from harnesses.governance.actions.harmless import Row
from harnesses.governance.actions.nouns import HOLE, UNKNOWN, UNREADABLE, Word


class NotHarmless(Exception):
    """Why a command is not known to be harmless."""

    def __init__(self, why: str, category: str = UNKNOWN) -> None:
        super().__init__(why)
        self.category = category


@define
class Read:
    """The words of a command after its program and verb."""

    options: list[tuple[str, Word | None]] = field(factory=list[tuple[str, Word | None]])
    operands: list[Word] = field(factory=list[Word])
    files: list[Word] = field(factory=list[Word])
    """Values of options that are files to be read."""

    def has(self, *names: str) -> bool:
        """Return whether one of the options was given."""
        return any(name in names for name, _ in self.options)


def read_options(name: str, row: Row, words: Sequence[Word]) -> Read:
    """Return the options and operands of a command.

    Raises:
        NotHarmless: an option is not in the table, or a word may turn into one when the command runs.
    """
    read, waiting = Read(), list(words)
    while waiting:
        word = waiting.pop(0)
        if word.known and word.text == "--":
            read.operands += waiting
            break
        if word.may_be_option and not row.wide:
            raise NotHarmless(f"`{word}` may turn into an option of `{name}`", UNREADABLE)
        if not word.text.startswith("-") or word.text == "-":
            read.operands.append(word)
        elif word.text.startswith("--"):
            _long(name, row, word, waiting, read)
        else:
            _letters(name, row, word, waiting, read)
    return read


def _long(name: str, row: Row, word: Word, waiting: list[Word], read: Read) -> None:
    option, joined, _ = word.text[2:].partition("=")
    kind = row.names.get(option)
    if kind is None:
        raise NotHarmless(f"option `--{option.replace(HOLE, '…')}` of `{name}` is not in the table of harmless ones")
    if word.splits and not row.wide:
        raise NotHarmless(f"`{word}` may turn into several words", UNREADABLE)
    value = word.after(f"--{option}=") if joined else None
    if joined and not kind:
        raise NotHarmless(f"option `--{option}` of `{name}` has a value: expected none")
    _note(name, f"--{option}", kind, value, waiting, read)


def _letters(name: str, row: Row, word: Word, waiting: list[Word], read: Read) -> None:
    if word.splits and not row.wide:
        raise NotHarmless(f"`{word}` may turn into several words", UNREADABLE)
    text = word.text[1:]
    if text.isascii() and text.isdigit() and "#" in row.letters:
        read.options.append(("-#", Word(text)))
        return
    while text:
        letter, text = text[0], text[1:]
        kind = row.letters.get(letter)
        if kind is None or letter == "#":
            raise NotHarmless(f"option `-{letter.replace(HOLE, '…')}` of `{name}` is not in the table of harmless ones")
        if not kind:
            read.options.append((f"-{letter}", None))
        else:
            value = Word(text, word.splits, word.glob) if text else None
            _note(name, f"-{letter}", kind, value, waiting, read)
            return


def _note(name: str, option: str, kind: str, value: Word | None, waiting: list[Word], read: Read) -> None:
    """Note an option with its value, which is the next word if it has to have one."""
    if value is None and kind in ("=", ":", "@"):
        if not waiting or waiting[0].splits or waiting[0].glob:
            raise NotHarmless(f"it is not known what option `{option}` of `{name}` is given", UNREADABLE)
        value = waiting.pop(0)
        # One that takes no value after all would leave a word that is an option.
        if value.text[:1] in ("-", HOLE) and option not in ("-e", "--regexp", "-m", "--message") and value.text[1:2]:
            raise NotHarmless(f"option `{option}` of `{name}` is followed by what may be an option: {value}")
    if kind == "@" and value is not None:
        read.files.append(value)
    read.options.append((option, value))
