"""The values that `--grid` gives to options of a strategy, and all combinations of them. Pure."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from attrs import frozen

from harnesses.errors import HarnessError, near
from harnesses.features.errors import InvalidRequest
from harnesses.run_file_harnesses.trading_table import (
    SUBJECT,
    check_option_types,
    read_strategy,
    strategy_options,
    with_options,
)
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

Options: TypeAlias = Mapping[str, object]
"""One value for each option of the grid, by name."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_DIGITS = 8
"""Of the digest of a value in a name, hexadecimal."""


@frozen
class Axis:
    """The values of one option."""

    name: str
    values: tuple[object, ...]


def parse_axes(texts: Sequence[str]) -> tuple[Axis, ...]:
    """Return what `NAME=VALUE,VALUE…` says, one text for each option.

    A value is read as in a run file: a number or true and false where it looks like one, else text.

    Raises:
        UsageError: a text is of another form, a name or a value is given twice.
    """
    axes = tuple(map(_parse_axis, texts))
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--grid {name}: expected each option once, was given twice; put all of its values into one")
    return axes


def _parse_axis(text: str) -> Axis:
    name, sign, rest = text.partition("=")
    words = [word.strip() for word in rest.split(",")]
    if not sign or not name.strip().isidentifier() or not all(words):
        raise UsageError(f"--grid {text}: expected NAME=VALUE,VALUE…, such as fast=10,20,30; correct it")
    values = tuple(map(_value, words))
    for word, value in zip(words, values, strict=True):
        if sum(type(value) is type(other) and value == other for other in values) > 1:
            raise UsageError(f"--grid {name}: expected each value once, was {word!r} twice; remove one")
    return Axis(name.strip(), values)


def _value(word: str) -> object:
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except tomllib.TOMLDecodeError:
        return word


def combine(axes: Sequence[Axis], most: int) -> list[Options]:
    """Return all combinations; one without options for an empty grid.

    Raises:
        UsageError: there are more than `most`.
    """
    count = prod(len(axis.values) for axis in axes)
    if count > most:
        sizes = " x ".join(str(len(axis.values)) for axis in axes)
        raise UsageError(
            f"--grid: expected at most {most:,} combinations, got {sizes} = {count:,}; give fewer values, or --most {count}"
        )
    names = [axis.name for axis in axes]
    return [dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in axes))]


def label(options: Options) -> str:
    """Return the part of a harness's name that tells its options: `fast-10.slow-50`.

    A value that is not a plain number or boolean has a digest: the text 1 is not the number, and `a/b` is not `a_b`.
    """
    return ".".join(f"{name}-{_word(value)}" for name, value in options.items())


def _word(value: object) -> str:
    text = _UNFIT.sub("_", str(value))
    if text == str(value) and isinstance(value, int | float):
        return text
    return f"{text}-{hashlib.sha256(repr(value).encode()).hexdigest()[:_DIGITS]}"


def check_labels(combinations: Iterable[Options]) -> None:
    """Check that each combination has a name of its own.

    Raises:
        UsageError: two of them have the same.
    """
    counts = Counter(map(label, combinations))
    for name, count in counts.items():
        if count > 1:
            raise UsageError(
                f"--grid: expected a name for each combination, {name} would name {count}; rename one of its values"
            )


@frozen
class Fitting:
    """The combinations that a strategy accepts."""

    options: tuple[Options, ...]
    refused: tuple[str, ...] = ()
    """Why each of the others was refused, with its label."""


def fit(strategy: object, axes: Sequence[Axis], combinations: Sequence[Options], where: str) -> Fitting:
    """Return the combinations that a strategy accepts, and why it refuses the others.

    Args:
        strategy: as a run file names it, or its table.
        where: for messages.

    Raises:
        UsageError: it has no option of a name, accepts none of the combinations with a value, or two would have one name.
    """
    known = _known(strategy, where)
    for axis in axes:
        if known is not None and axis.name not in known:
            expected = f"expected one of {', '.join(known)}" if known else "expected none, for the strategy has no options"
            raise UsageError(
                f"{where}: --grid {axis.name}: no such option of the strategy: {expected}{near(axis.name, known)}"
            )
    found: list[Options] = []
    errors: list[tuple[Options, str]] = []
    for options in combinations:
        try:
            check_option_types(strategy, options)
            read_strategy(with_options(strategy, options))
        except HarnessError as error:
            said = str(error).removeprefix(f"{InvalidRequest.kind}: ").removeprefix(f"{SUBJECT}: ")
            errors.append((options, one_line(said, 300)))
        else:
            found.append(options)
    for axis in axes:
        for value in axis.values:
            if not any(options[axis.name] is value for options in found):
                why = next(why for options, why in errors if options[axis.name] is value)
                raise UsageError(f"{where}: --grid {axis.name}: {value!r} fits no combination: {why}")
    if not found:
        raise UsageError(f"{where}: {errors[0][1]}")
    check_labels(found)
    return Fitting(tuple(found), tuple(f"{label(options)}: {why}" for options, why in errors))


def _known(strategy: object, where: str) -> tuple[str, ...] | None:
    try:
        return strategy_options(strategy)
    except (HarnessError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: strategy: {error}; correct it") from error
