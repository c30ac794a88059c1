"""A program whose agent makes three edits in a fresh worktree, and is killed within one of them in its first life.

    python -m tests.harnesses.agents.tools.tree_child STORE REPOSITORY DIRECTORY WORLD DIES_AT EFFECT

It notes in the file WORLD, outside of the worktree, each edit that begins.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio

from harnesses import Agent, AgentRun, BaseHarness
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.tool import ToolEffect, ToolSetting
from harnesses.agents.tools.tool_runner import open_tools
from orchestrator import Orchestrator
from tests.harnesses.agents.tools.turn_tools import call_of


class Editing(BaseHarness[None, str, list[str]]):
    def __init__(self, repository: Path, directory: Path, world: Path, dies_at: str, effect: ToolEffect) -> None:
        super().__init__(None)
        self._repository, self._directory, self._world = repository, directory, world
        self._dies_at, self._effect = dies_at, effect

    async def execute(self) -> Any:
        shutil.rmtree(self._directory, ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", self._repository, self._directory], check=True)  # noqa: ASYNC221
        yield "edit", await self.run_agent(Agent(self._turn, name="editor"), None)

    async def _turn(self, run: AgentRun[Any, Any]) -> list[str]:
        def edit(word: str, setting: ToolSetting) -> str:
            with self._world.open("a") as world:
                world.write(f"{word}\n")
            is_first = self._world.read_text().split().count(word) == 1
            for name in ("base.txt", f"{word}.txt"):
                with (self._directory / name).open("a") as file:
                    file.write(f"{word}\n")
            if word == self._dies_at and is_first:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"{word} done"

        setting = ToolSetting(run=run, directory=self._directory)
        async with open_tools([function_tool(edit, effect=self._effect)], setting) as box:
            results = [await box.run(call_of("edit", word=word), f"tool/{word}") for word in ("one", "two", "three")]
        return [result.text for result in results]


async def main(store: str, repository: str, directory: str, world: str, dies_at: str, effect: str) -> None:
    async with Orchestrator(store) as orchestrator:
        harness = Editing(Path(repository), Path(directory), Path(world), dies_at, ToolEffect(effect))
        orchestrator.start(harness, name="editing")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
