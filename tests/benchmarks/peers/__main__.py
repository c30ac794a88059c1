"""`python -m tests.benchmarks.peers [NAME …]`: one JSON line for each of the agents, on one task and one model server.

The task is to call a tool in each of so many rounds, and then to answer. For each agent:

lines               of its program, without blank lines, comments and docstrings
ms_a_round          processor time of a round: the difference of long and short runs, by rounds
after kill -9 in the middle of a tool call, and a second start of the same program:
calls_paid_again    model calls beyond those of a run that was not killed
tools_run_again     tool calls that were made a second time
is_answered         whether it came to its answer

The other agents are installed into an environment of their own, in the user's cache. Inspect AI makes a checkpoint after each
turn; for that it downloads the program `restic`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from tests import ROOT
from tests.benchmarks.peers.peer_environment import environment, lines_of_code
from tests.model_server import ModelServer

HERE = Path(__file__).parent
PACKAGES = ("inspect-ai==0.3.285", "openai-agents==0.24.0", "openai==3.54.0")
FEW, MANY, TIMES = 5, 45, 3
KILLED_AT, KILLED_OF = 5, 10
_PATIENCE_S = 300


def main(names: list[str]) -> int:
    others = environment("peers", PACKAGES)
    agents = {
        "bare_sdk": sys.executable,
        "this_package": sys.executable,
        "openai_agents_sdk": others,
        "inspect_agent": others,
    }
    with ModelServer() as server:
        for name in names or agents:
            python = agents[name]
            figures = {
                "agent": name,
                "lines": lines_of_code(HERE / f"{name}.py"),
                "ms_a_round": _cost_ms(server, name, python),
                **_after_kill(server, name, python),
            }
            print(json.dumps(figures), flush=True)
    return 0


def _script(server: ModelServer, rounds: int) -> None:
    server.reset()
    for number in range(rounds):
        call = {"id": f"call_{number}", "name": "note", "arguments": {"line": f"line {number}"}}
        server.reply({"turnIndex": number}, {"toolCalls": [call]})
    server.reply({"turnIndex": rounds}, {"content": "All noted."})


def _run(server: ModelServer, name: str, python: str, folder: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "none", **environment}
    command = [python, str(HERE / f"{name}.py"), server.openai_url]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=_PATIENCE_S)


def _cost_ms(server: ModelServer, name: str, python: str) -> float:
    """Return the processor time of a round, in milliseconds."""
    costs: list[float] = []
    for _ in range(TIMES):
        seconds: list[float] = []
        for rounds in (FEW, MANY):
            _script(server, rounds)
            with tempfile.TemporaryDirectory() as folder:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                done = _run(server, name, python, folder)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                assert done.returncode == 0, done.stderr[-2_000:]
                assert len(_notes(folder)) == rounds
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        costs.append((seconds[1] - seconds[0]) / (MANY - FEW) * 1e3)
    return round(median(costs), 1)


def _after_kill(server: ModelServer, name: str, python: str) -> dict[str, Any]:
    _script(server, KILLED_OF)
    with tempfile.TemporaryDirectory() as folder:
        killed = _run(server, name, python, folder, KILL_AT=f"line {KILLED_AT}")
        assert killed.returncode == -9, killed.stderr[-2_000:]
        _run(server, name, python, folder)
        requests = server.requests()
        notes = Counter(_notes(folder))
    said = json.dumps(requests[-1]["body"]) if requests else ""
    return {
        "calls_paid_again": len(requests) - KILLED_OF - 1,
        "tools_run_again": sum(count - 1 for count in notes.values()),
        "is_answered": f"line {KILLED_OF - 1}" in notes and f"call_{KILLED_OF - 1}" in said,
    }


def _notes(folder: str) -> list[str]:
    return (Path(folder) / "notes.txt").read_text().splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
