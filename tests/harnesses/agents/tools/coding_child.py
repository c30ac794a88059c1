"""A coding harness whose model makes three edits in three rounds, and that is killed at a commit of its store.

    python -m tests.harnesses.agents.tools.coding_child FOLDER [before:7]

FOLDER has `user.git`. The model appends a line to `log.txt` in each round by an exact edit, which fits only if those before
it are in place, once each. An edit that does not fit is noted in the file `failed`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.model.messages import ModelRequest, ModelResponse, Role
from harnesses.agents.tools.coding_tools import coding_tools
from harnesses.coding import CodingHarness, Command
from harnesses.features.feature import Feature
from harnesses.features.health_checks import NoHealthCheck
from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted

LINES = ["zero", "one", "two", "three"]


def answer(request: ModelRequest) -> ModelResponse:
    """Return the next edit, or the end; an edit that failed ends the turn with what was told."""
    told = [result for message in request.messages if message.role is Role.TOOL for result in message.results]
    if told and told[-1].is_error:
        Path(sys.argv[1], "failed").write_text(told[-1].text)
        return says("failed")
    if len(told) == len(LINES) - 1:
        return says("done")
    old = "\n".join(LINES[: len(told) + 1]) + "\n"
    arguments = {"path": "log.txt", "old": old, "new": f"{old}{LINES[len(told) + 1]}\n"}
    return says("", calls("edit", json.dumps(arguments), id=f"c{len(told)}"))


async def main(folder: Path, fault: str = "") -> None:
    store: Store = SqliteStore(folder / "run.db")
    if fault:
        moment, number = fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    agent = ModelAgent(scripted(answer).client(), tools=coding_tools(), chat=ChatPolicy(max_rounds=9))
    harness = CodingHarness(
        folder / "user.git",
        agent,
        [Feature("log", "the log is whole", steps=["diff"])],
        Command(["sh", "-c", "test \"$(cat log.txt | tr '\\n' ' ')\" = 'zero one two three '"]),
        workspace=folder / "space",
        confirmations=1,
        health_check=NoHealthCheck(),
    )
    async with Orchestrator(store, backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        orchestrator.start(harness, name="coding")
    if isinstance(store, FaultyStore):
        (folder / "commits").write_text(str(store.commits))
    store.close()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), *sys.argv[2:])
