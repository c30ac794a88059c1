"""The program that is killed while its agents spend: python -m tests.budget.agents_program FOLDER PROGRAM PLAN TRIES LIMIT."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

from harnesses.budgets.budget import Budget
from orchestrator import Orchestrator
from tests.budget.agents import coding, spender


async def main(folder: Path, words: list[str]) -> None:
    program, plan, tries, limit = words
    async with Orchestrator(folder / "run.db") as orchestrator:
        agent = spender(folder, program, **json.loads(plan))
        orchestrator.start(coding(folder, agent, tries=int(tries)), name="work", budget=Budget(tokens=int(limit)))


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2:])
