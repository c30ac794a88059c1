"""The reference page of the command in Markdown, from the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from orchestrator.cli.command_app import make_app
from orchestrator.cli.command_help import Row, VerbHelp, common_rows, read_help
from orchestrator.cli.verb_table import GROUPS, VERBS


def markdown() -> str:
    """Return a section for each verb, by group, with all its arguments and options."""
    app, common = make_app(), [row.name for row in common_rows()]
    return (
        "\n".join(
            line
            for group in GROUPS
            for line in _group(group, [read_help(app, verb.name) for verb in VERBS if verb.group == group], common)
        )
        + "\n"
    )


def _group(title: str, verbs: Sequence[VerbHelp], common: Sequence[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    for said in verbs:
        yield f"### {said.verb.name}"
        yield ""
        yield said.verb.summary
        yield ""
        yield "```text"
        yield said.usage
        yield "```"
        yield ""
        yield from _table("Argument", said.arguments)
        yield from _table("Option", [row for row in said.options if row.name not in common])
        yield from _body(said.body)


def _table(title: str, rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        yield f"| {title} | Meaning |"
        yield "|---|---|"
        yield from (f"| `{_cell(row.name)}` | {_cell(row.help)} |" for row in rows)
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _body(text: str) -> Iterator[str]:
    """Yield text with its indented blocks as code."""
    for part in re.split(r"((?:^ +.*\n?)+)", text, flags=re.MULTILINE):
        if part.startswith(" "):
            yield "```text"
            yield from (line[4:] for line in part.rstrip("\n").split("\n"))
            yield "```"
            yield ""
        elif part.strip():
            yield part.strip("\n")
            yield ""
