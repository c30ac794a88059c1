"""Commands that a page shows have verbs and options that the parser knows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.cli.command_app import make_app
from orchestrator.cli.command_help import common_rows, read_help
from orchestrator.cli.verb_table import VERBS
from tests import ROOT

APP = make_app()
COMMON = {word for row in common_rows() for word in re.findall(r"--?[\w-]+", row.name)}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _commands(page: Path) -> list[str]:
    """Return the commands of the blocks marked as a console, and those that stand in a line of text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    typed = [line for block in blocks for line in re.findall(r"^\$ (orchestrator .+)$", block, flags=re.MULTILINE)]
    return typed + re.findall(
        r"`(orchestrator [a-z][^`\n]*)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    )


def _wrong_in(command: str) -> list[str]:
    words = shlex.split(re.split(r" #| [|&<>] |; ", command)[0], posix=False)[1:]
    words = words[: words.index("--")] if "--" in words else words
    line = " ".join(words) + " "
    verb = max((one.name for one in VERBS if line.startswith(f"{one.name} ")), key=len, default="")
    if not verb:
        return [f"verb {words[0]}"] if not words[0].startswith("-") and words[0] != "VERB" else []
    known = COMMON | {option for row in read_help(APP, verb).options for option in re.findall(r"--?[\w-]+", row.name)}
    return [f"{verb}: {word}" for word in words if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_that_a_page_shows_is_one_that_the_parser_knows(page: Path) -> None:
    wrong = [f"{command}: {what}" for command in _commands(page) for what in _wrong_in(command)]

    assert wrong == []
