"""G14: limits of a run file, held or refused by the command; `doctor` says which before."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.budget.agents import books_of
from tests.zygote import run_python

MODULE = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.budget.agents import coding, pipeline, plain, spender
HERE = Path({folder!r})


def {program}():
    return coding(HERE, spender(HERE, {program!r}, **{plan}), "one", "two", tries=9)


def untold():
    return coding(HERE, plain())


def stages():
    return pipeline(HERE)
"""


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "orchestrator", *words, cwd=folder, capture_output=True, text=True, timeout=120)


def write(folder: Path, top: str, own: str = "", *, maker: str = "claude", **plan: Any) -> None:
    program = maker if maker in ("claude", "codex") else "claude"
    text = MODULE.format(root=str(ROOT), folder=str(folder), plan=plan, program=program)
    (folder / "ours.py").write_text(text)
    table = f'[[harness]]\nname = "work"\nharness = "ours:{maker}"\n{own}\n'
    (folder / "run.toml").write_text(f'store = "run.db"\n{top}\n{table}')


@pytest.mark.parametrize("place", ["top", "own"])
def test_max_cost_ends_a_run(place: str, tmp_path: Path) -> None:
    rails = 'guardrails = { max_cost = "0.01" }'
    write(tmp_path, *((rails, "") if place == "top" else ("", rails)), messages=3, tokens=59_000, cost=3.21)

    ran = command(tmp_path, "run", "run.toml")

    spent = books_of(tmp_path / "run.db")["harness/work"].spent
    assert str(spent.money) == "3.21", ran.stderr
    assert "budget" in ran.stdout + ran.stderr
    shown = command(tmp_path, "budgets", "--store", "run.db", "--json")
    pools = {one["pool"]: one for one in map(json.loads, shown.stdout.splitlines())}
    assert pools["harness/work"]["spent"]["money"] == "3.21"
    assert pools["agents/work"]["spent"]["tokens"] == 177_000
    assert not any(pool.startswith("thread/") for pool in pools)


def test_tool_calls_of_each_try_are_limited_from_the_top_of_a_run_file(tmp_path: Path) -> None:
    write(tmp_path, "guardrails = { max_tool_calls_per_task = 1, max_task_attempts = 2 }", messages=9, tokens=10, pause_s=0.5)

    command(tmp_path, "run", "run.toml")

    spent = books_of(tmp_path / "run.db")["agents/work"].spent
    assert 4 <= spent.turns <= 4
    assert spent.tool_calls <= 2 * spent.turns


def test_a_harness_that_a_guardrail_has_stopped_names_it_with_its_value_and_its_place(tmp_path: Path) -> None:
    rails = "guardrails = { max_tool_calls_per_task = 1, max_task_attempts = 1 }"
    write(tmp_path, rails, messages=9, tokens=10, pause_s=0.5)

    ran = command(tmp_path, "run", "run.toml")
    why = command(tmp_path, "analyze", "run.db", "why", "work")

    assert ran.returncode == 4, ran.stderr
    for said in (ran.stderr, why.stdout):
        words = " ".join(said.split())
        assert "guardrail max_tool_calls_per_task = 1 (`guardrails` of the run file, or `Guardrails(…)`)" in words


@pytest.mark.parametrize(
    ("maker", "top", "said"),
    [
        ("codex", 'budget = { money = "0.01" }', "budget of money cannot be enforced"),
        ("untold", "budget = { tokens = 100 }", "budget of tokens cannot be enforced"),
        ("untold", "guardrails = { max_messages_per_task = 1 }", "max_messages_per_task cannot be held"),
        ("stages", "guardrails = { max_task_attempts = 1 }", "max_task_attempts cannot be held"),
    ],
)
def test_a_limit_that_holds_nothing_is_refused_and_doctor_says_so(maker: str, top: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, top, maker=maker)

    ran, looked = command(tmp_path, "run", "run.toml"), command(tmp_path, "doctor", "run.toml")

    assert ran.returncode == 2, ran.stderr
    assert "harness 'work'" in ran.stderr
    assert said in ran.stderr
    assert said in looked.stdout
    assert looked.returncode == 1
