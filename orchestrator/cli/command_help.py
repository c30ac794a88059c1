"""What the help of the command says, from the parser: short for `-h`, long for `--help`, Markdown for the reference."""

from __future__ import annotations

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen
from cyclopts import App, Argument

from orchestrator.cli.command_app import value_name
from orchestrator.cli.verb_options import Common
from orchestrator.cli.verb_table import GROUPS, NAMES, VERBS, Verb

_ABOUT = "Run many long-lived harnesses side by side, and never lose a step."
_EXAMPLES = """\
Examples:
    orchestrator run examples/run.toml     run the harnesses that a run file lists; Ctrl-C stops them
    orchestrator status                    how far each one is, also while they run
    orchestrator steps counting            what one of them did
    orchestrator run examples/run.toml     go on where they stopped

Exit codes:
    0    ok                           6    effects of unknown outcome
    1    a harness failed             75   owned by another process
    2    usage                        130  ended by SIGINT
    3    stopped, can be resumed      143  ended by SIGTERM
    4    waiting for a person
    5    the store contradicts itself or was changed"""
_WIDEST = 100
"""Columns of help at most."""
_ARGS = re.compile(r"^Args:\n(?:(?: .*)?\n?)*", re.MULTILINE)


@frozen
class Row:
    """An argument or an option."""

    name: str
    """Its form on the command line: `NAME`, `--after N`."""
    usage: str
    """An argument in the usage line; empty for an option."""
    help: str


@frozen
class VerbHelp:
    """The help of a verb."""

    verb: Verb
    body: str
    """The docstring after its first line, without its arguments."""
    rows: Sequence[Row]
    own_verbs: Sequence[Verb]
    """The verbs of two words that begin with it."""

    @property
    def arguments(self) -> list[Row]:
        return [row for row in self.rows if row.usage]

    @property
    def options(self) -> list[Row]:
        return [row for row in self.rows if not row.usage]

    @property
    def usage(self) -> str:
        return " ".join(["orchestrator", self.verb.name, *(row.usage for row in self.arguments), "[OPTIONS]"])


def read_help(app: App, name: str) -> VerbHelp:
    """Return what there is to say of a verb; its module is imported."""
    words = name.split(" ")
    chain, apps, _ = app.parse_commands(words)
    with app.app_stack(words):
        arguments = apps[-1].assemble_argument_collection(parse_docstring=True)
        rows = [_row(argument) for argument in arguments if argument.show]
    text = inspect.getdoc(apps[-1].default_command) or ""
    body = _ARGS.sub("", text.partition("\n")[2]).strip()
    return VerbHelp(NAMES[" ".join(chain)], body, rows, [verb for verb in VERBS if verb.name.startswith(f"{name} ")])


def _row(argument: Argument) -> Row:
    help, value = " ".join((argument.parameter.help or "").split()), value_name(argument)
    if argument.index is None:
        names = ", ".join(argument.names)
        return Row(names if argument.hint is bool else f"{names} {value}", "", help)
    many = argument.field_info.kind is inspect.Parameter.VAR_POSITIONAL
    usage = f"[{value} ...]" if many else value if argument.required else f"[{value}]"
    return Row(value, usage, help)


def short_help() -> Iterator[str]:
    """Yield every verb and what it does, a line each."""
    yield "usage: orchestrator VERB [OPTIONS]"
    yield from _verb_lines()
    yield ""
    yield "`orchestrator VERB -h` lists the options of a verb; `--help` instead of `-h` says more."


def long_help() -> Iterator[str]:
    """Yield what the command is, its verbs, the options of all verbs, examples and exit codes."""
    yield "usage: orchestrator VERB [OPTIONS]"
    yield ""
    yield _ABOUT
    yield from _verb_lines()
    yield ""
    yield "Options of every verb, before or after it:"
    yield from _table((row.name, row.help) for row in common_rows())
    yield ""
    yield _EXAMPLES


def common_rows() -> list[Row]:
    """Return the options of every verb."""
    shown = [_row(argument) for argument in App(default_command=_take_common).assemble_argument_collection() if argument.show]
    ours = [Row("-h, --help", "", "print the short or the long help, of the command or of a verb")]
    return [*shown, *ours, Row("--version", "", "print the version")]


def _take_common(*, common: Common) -> None:
    """Stand for any verb."""


def _verb_lines() -> Iterator[str]:
    width = max(map(len, NAMES))
    for group in GROUPS:
        yield ""
        yield f"{group}:"
        yield from (f"  {verb.name:<{width}}  {verb.summary}" for verb in VERBS if verb.group == group)


def verb_help(said: VerbHelp, *, is_long: bool) -> Iterator[str]:
    """Yield the help of a verb."""
    yield f"usage: {said.usage}"
    yield ""
    yield said.verb.summary
    if is_long and said.body:
        yield ""
        yield from list(_reflow(said.body))[:-1]
    sections = (
        ("Arguments", [(row.name, row.help) for row in said.arguments]),
        ("Options", [(row.name, row.help) for row in said.options]),
        ("Verbs", [(verb.name, verb.summary) for verb in said.own_verbs]),
    )
    for title, rows in sections:
        if rows:
            yield ""
            yield f"{title}:"
            yield from _table(rows)


def _reflow(text: str) -> Iterator[str]:
    """Yield text with its paragraphs wrapped to the terminal; indented lines stay as they are."""
    paragraph: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        yield from textwrap.wrap(" ".join(paragraph), _width(), break_on_hyphens=False, break_long_words=False)
        paragraph.clear()
        yield line


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield lines of two columns; the second is wrapped."""
    known = list(rows)
    width = min(max(len(name) for name, _ in known), 28)
    columns = max(_width() - width - 4, 30)
    for name, help in known:
        first, *more = textwrap.wrap(help, columns, break_on_hyphens=False) or [""]
        yield f"  {name:<{width}}  {first}".rstrip()
        yield from (f"  {'':<{width}}  {line}" for line in more)
