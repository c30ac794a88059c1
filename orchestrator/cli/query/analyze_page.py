"""What `orchestrator analyze` writes to files: a page, and pictures. Nothing that is not a page of ours is written over."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from harnesses.files.safe_files import draft_of
from orchestrator.cli import std_streams as streams
from orchestrator.cli.output_targets import check_target
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

if TYPE_CHECKING:
    from orchestrator.analysis.answers.answer import Answer
    from orchestrator.analysis.frames.analysis_run import Run

_BEGIN = b"<!DOCTYPE html>"
"""What a page begins with."""


@frozen
class Target:
    """Where a page goes: a file, or standard output."""

    path: Path | None

    def write(self, text: str) -> None:
        """Write it; a file comes to its name when it is whole.

        Raises:
            OSError: it cannot be written.
        """
        if self.path is None:
            sys.stdout.write(text)
            return
        with draft_of(self.path) as file:
            file.write(text.encode())
        streams.say(f"written to {self.path}")


def target(file: str, runs: Sequence[str], questions: Collection[str]) -> Target:
    """Return where the page is to go.

    Raises:
        UsageError: there is something else already, such as the run itself.
    """
    if file == "-":
        return Target(None)
    path = Path(file)
    if file in questions or file in runs:
        raise UsageError(
            f"--html {file}: expected the name of a page to write, was a question or a run; put --html at the end"
        )
    check_target(path)
    if path.is_dir():
        raise UsageError(f"--html {file} is a folder: expected the name of a page to write; name a file in it")
    if path.exists():
        with path.open("rb") as there:
            if there.read(len(_BEGIN)) not in (_BEGIN, b""):
                raise UsageError(f"--html {file} is there, and is no page: expected another name; choose one")
    return Target(path)


def page(run: Run, other: Run | None, question: str, answers: Sequence[Answer], harness: str | None) -> str:
    """Return the page with the answers and their pictures."""
    from orchestrator.analysis.analysis_report import html
    from orchestrator.analysis.pictures import pictures

    drawn = pictures(run, question, harness=harness, other=other)
    return html(answers, drawn, title=one_line(f"{question.capitalize()} of {run.location}"))


def save_pictures(run: Run, other: Run | None, question: str, options: argparse.Namespace) -> None:
    """Write the pictures of a question to a folder, and say where they are."""
    from orchestrator.analysis import pictures

    format = options.format or "svg"
    try:
        paths = pictures.save_pictures(run, question, options.pictures, format, harness=options.harness, other=other)
    except FileExistsError:
        raise UsageError(f"--pictures {options.pictures} is a file: expected a folder; choose another name") from None
    for path in paths:
        streams.say(f"written to {path}")
