"""Options and operands of a command's words, as `getopt_long` reads them: in any order, in clusters, abbreviated. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from attrs import frozen

from harnesses.governance.actions.nouns import Word


@frozen
class Options:
    """The words of a command, told apart."""

    short: frozenset[str]
    long: frozenset[str]
    operands: tuple[Word, ...]
    values: tuple[tuple[str, Word], ...]
    """Options that take a value, each with it."""
    loose: bool
    """Whether a word that is not known may turn out to be an option."""

    def has(self, *names: str) -> bool:
        """Return whether one of them is given: a letter, or a long name, which may be abbreviated."""
        return any(name in self.short if len(name) == 1 else self._is_long(name) for name in names)

    def of(self, *names: str) -> Iterator[Word]:
        """Yield the values given with these options."""
        yield from (value for name, value in self.values if name in names)

    def _is_long(self, name: str) -> bool:
        return any(name.startswith(given) for given in self.long)


def options(words: Sequence[Word], takes: str = "", takes_long: Collection[str] = (), *, first: bool = False) -> Options:
    """Tell options and operands apart.

    Args:
        takes: the letters that take a value.
        takes_long: the long names that take one.
        first: whether options end at the first operand, as they do where another command follows.
    """
    short, long, operands, values, loose = set[str](), set[str](), list[Word](), list[tuple[str, Word]](), False
    rest = list(words)
    while rest:
        word = rest.pop(0)
        text = word.text
        if text == "--":
            operands += rest
            break
        if word.may_be_option:
            loose = True
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            long.add(name)
            if equals:
                values.append((name, Word(value, word.splits, word.glob)))
            elif any(taker == name for taker in takes_long) and rest:
                values.append((name, rest.pop(0)))
        elif text.startswith("-") and len(text) > 1:
            _cluster(word, takes, short, values, rest)
        else:
            operands.append(word)
            if first:
                operands += rest
                break
    return Options(frozenset(short), frozenset(long), tuple(operands), tuple(values), loose)


def _cluster(word: Word, takes: str, short: set[str], values: list[tuple[str, Word]], rest: list[Word]) -> None:
    for place, letter in enumerate(word.text[1:], 2):
        short.add(letter)
        if letter in takes:
            if place < len(word.text):
                values.append((letter, Word(word.text[place:], word.splits, word.glob)))
            elif rest:
                values.append((letter, rest.pop(0)))
            return


def known(words: Sequence[Word]) -> tuple[str, ...]:
    """Return the words as text."""
    return tuple(word.text for word in words)


def names(text: str) -> frozenset[str]:
    """Return the names that stand in a text."""
    return frozenset(text.split())
