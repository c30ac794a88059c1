"""The parser of the `orchestrator` command: cyclopts with one lazily imported function for each verb.

    arguments ── arrange ──▶ verb, the rest ── parse ──▶ function of the verb and what it is called with

Common options may stand before the verb; a mistake becomes a `UsageError` of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, pairwise

from attrs import frozen
from cyclopts import App, Argument, Parameter
from cyclopts.exceptions import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from harnesses.errors import nearest
from orchestrator.cli.verb_table import ALIASES, NAMES, VERBS
from orchestrator.errors import UsageError

HELP_FLAGS = ("--help", "-h")
_TAKES_VALUE = ("--store",)
"""Common options whose next word is not the verb."""
_MAY_STAND_ALONE = {"analyze": {"--html": "-"}}
"""Options whose value may be left out, and what is then meant."""
_LONGEST = 200
"""Characters of what was given that a complaint repeats."""


@frozen
class Asked:
    """What the arguments ask for."""

    verb: str | None
    """None if there is none."""
    rest: tuple[str, ...]
    """Everything but the words of the verb."""

    @property
    def options(self) -> tuple[str, ...]:
        """What stands before `--`."""
        return self.rest[: self.rest.index("--")] if "--" in self.rest else self.rest

    @property
    def help_flag(self) -> str | None:
        """The flag that asks for help. After the first word of what `guard` judges, a flag is the judged command's."""
        looked_at = self.options[:1] if self.verb == "guard" else self.options
        return next((flag for flag in HELP_FLAGS if flag in looked_at), None)

    @property
    def store(self) -> str:
        """The value of `--store`, for messages; empty if it is not given."""
        given = ""
        for word, following in pairwise([*self.options, ""]):
            if word == "--store" or word.startswith("--store="):
                given = word.partition("=")[2] or following
        return given


def arrange(arguments: Sequence[str]) -> Asked:
    """Separate the verb from the rest, wherever common options stand."""
    places = list(islice(_plain(arguments), 2))
    words = [arguments[place] for place in places]
    if " ".join(words) not in NAMES:
        places, words = places[:1], words[:1]
    verb = " ".join(words)
    rest = tuple(word for place, word in enumerate(arguments) if place not in places)
    return Asked(ALIASES.get(verb, verb) or None, rest)


def _plain(arguments: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words before `--` that are neither options nor the value of a common option."""
    skip = False
    for place, word in enumerate(arguments):
        if word == "--":
            return
        if not skip and not word.startswith("-"):
            yield place
        skip = word in _TAKES_VALUE and not skip


def make_app(help_flags: Sequence[str] = ()) -> App:
    """Return the parser. A verb's module is imported when the verb is looked up in it.

    Args:
        help_flags: flags that ask for help, for completion; `arrange` looks for them before anything is parsed.
    """
    app = App(
        name="orchestrator",
        help="Run many long-lived harnesses side by side, and never lose a step.",
        help_flags=help_flags,
        version_flags=(),
        default_parameter=Parameter(negative=(), allow_repeating=True),
        result_action="return_value",
    )
    for verb in VERBS:
        if not verb.is_nested:
            app.command(f"orchestrator.cli.{verb.place}", name=verb.name, help=verb.summary, group=verb.group)
    return app


def parse(app: App, asked: Asked) -> Callable[[], int]:
    """Return what carries a command out.

    Raises:
        UsageError: the arguments are not those of the verb.
    """
    verb = asked.verb or ""
    alone = _MAY_STAND_ALONE.get(verb, {})
    rest = _fill_in(asked.rest, alone) if alone else asked.rest
    try:
        command, bound, _ = app.parse_args([*verb.split(" "), *rest], print_error=False, exit_on_error=False)
    except CycloptsError as error:
        raise UsageError(_complaint(error, verb)) from error
    return partial(command, *bound.args, **bound.kwargs)


def check_common(asked: Asked) -> None:
    """Refuse options that stand without a verb and are not those of every verb.

    Raises:
        UsageError: there is one.
    """
    known = (*HELP_FLAGS, "--version", "--json", "--store")
    for word in asked.options:
        name = word.partition("=")[0]
        if word.startswith("-") and name not in known:
            raise UsageError(f"unknown option {name[:_LONGEST]}{_near(name, known)}; see `orchestrator --help`")


def _fill_in(rest: Sequence[str], alone: Mapping[str, str]) -> Iterator[str]:
    """Give options that stand without a value the one that is meant."""
    for word, following in pairwise([*rest, "--"]):
        yield f"{word}={alone[word]}" if word in alone and following.startswith("--") else word


_ELSEWHERE = {"why": "; did you mean analyze why?"}
"""The remedy for words that are no verbs, and part of one."""


def _complaint(error: CycloptsError, verb: str) -> str:
    """Return in one line what is wrong with the arguments, and what to do."""
    more = f"see `orchestrator{verb and f' {verb}'} --help`"
    name = name_of(error.argument) if error.argument is not None else ""
    match error:
        case UnknownCommandError():
            (word, *_) = error.unused_tokens or [verb]
            return f"unknown verb {word[:_LONGEST]!r}{_ELSEWHERE.get(word) or _near(word, NAMES)}; see `orchestrator --help`"
        case UnknownOptionError(token=token):
            known = [name for argument in error.argument_collection for name in argument.names]
            word = token.keyword or token.value
            return f"{verb}: unknown option {word[:_LONGEST]}{_near(word, known)}; {more}"
        case MissingArgumentError():
            is_given = name in error.root_input_tokens if error.root_input_tokens else False
            what = "needs a value" if is_given else "is required" if name.startswith("-") else "is missing"
            return f"{verb}: {name} {what}; {more}"
        case UnusedCliTokensError():
            (word, *_) = error.unused_tokens or [""]
            nested = [name.partition(" ")[2] for name in NAMES if name.startswith(f"{verb} ")]
            return f"{verb}: expected no further argument, got {word[:_LONGEST]!r}{_near(word, nested)}; {more}"
        case CoercionError(msg=str(said)):
            return f"{verb}: {name}: {said}; {more}"
        case CoercionError(token=token) if token is not None and error.argument is not None:
            choices = error.argument.get_choices() or ()
            expected = f"expected one of {', '.join(choices)}" if choices else "expected another value"
            return f"{verb}: {name}: {expected}, got {token.value[:_LONGEST]!r}{_near(token.value, choices)}; {more}"
        case _:
            return f"{verb}: {str(error).splitlines()[0]}; {more}"


def name_of(argument: Argument) -> str:
    """Return what the help calls an argument or an option: `NAME`, `on|off`, `--limit`."""
    return argument.name if argument.index is None else value_name(argument)


def value_name(argument: Argument) -> str:
    """Return what the help calls the value of an argument or an option."""
    choices = argument.get_choices()
    return argument.parameter.metavar or ("|".join(choices) if choices else argument.name.lstrip("-").upper())


def _near(word: str, known: Iterable[str]) -> str:
    found = nearest(word, known)
    return "" if found is None else f"; did you mean {found}?"
