"""Turns for agents, and the stand-in installed as the program that a dialect calls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harnesses.agent import Agent
from harnesses.features.feature import Feature, TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.step import LoadedContext

STAND_IN = Path(__file__).with_name("stand_in.py")


def assigned(directory: Path | None, prompt: str = "", *, feature: str = "sign-in", turn: int = 1, session: str | None = None):
    """Return an assignment."""
    return Assignment(
        feature=Feature(feature, "people sign in", steps=["look"]),
        turn=turn,
        prompt=prompt,
        objective="all of it",
        session=session,
        directory=None if directory is None else str(directory),
    )


async def take_turn(
    agent: Agent[FeatureState, Assignment, TurnResult], assignment: Assignment, log: list[str] | None = None
) -> TurnResult:
    """Ask an agent as a harness does."""
    heard: list[str] = [] if log is None else log
    context = LoadedContext(state=FeatureState())
    return await agent.run(input=assignment, context=context, step_number=1, log=heard.append)


def install(folder: Path, name: str) -> str:
    """Make the stand-in a program with a name of its own; return its path."""
    program = folder / name
    program.write_text(f"#!{sys.executable} -S\n{STAND_IN.read_text()}")
    program.chmod(0o755)
    return str(program)


def marked(word: str) -> list[int]:
    """Return the processes that have a word in their environment, apart from this one."""
    found: list[int] = []
    for block in Path("/proc").glob("[0-9]*/environ"):
        try:
            if word.encode() in block.read_bytes() and int(block.parent.name) != os.getpid():
                found.append(int(block.parent.name))
        except OSError:
            continue
    return found
