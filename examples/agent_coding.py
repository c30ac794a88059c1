"""A small repository with two failing tests, mended by a model that reads, edits and runs the tests itself.

    repository   created by the example: two modules and four tests, two of which fail
    agent        a `ModelAgent` with tools to read, search, edit and run commands in its own worktree
    validator    the test of the feature must pass twice in a row, and no test may be weakened

Without a key, the recorded answers in `data/agent_coding.jsonl` are replayed, and nothing is connected to. They come from a
stand-in for a model, `tests/examples/recorded_agents.py`, since a real model may be recorded only with a key. With
ANTHROPIC_API_KEY set, the model is asked; `--model openai:gpt-5` asks another one.

Kill the program at any moment, and start it again: the turn goes on at its last finished call.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import trio

from harnesses.agents import Cassette, ModelAgent, ModelClient, ToolPolicy, coding_tools
from harnesses.coding import CodingHarness, PytestNodes, TestsKept
from harnesses.features import Feature
from harnesses.turn_events import TurnEventKind
from orchestrator import Handle, Orchestrator

CASSETTE = Path(__file__).parent / "data" / "agent_coding.jsonl"
MODEL = "anthropic:claude-sonnet-4-5"
IGNORED = {r"\b[0-9a-f]{7}(?= )": "commit"}
"""What differs from one recording to the next: the ids of commits."""
SYSTEM = "You are a careful engineer. Read before you change anything, run the tests, and change no test."
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npythonpath = ["."]\n',
    "slug.py": "def slug(title):\n    return title.lower()\n",
    "roman.py": "def roman(number):\n    raise NotImplementedError\n",
    "tests/test_slug.py": (
        "from slug import slug\n\n\n"
        'def test_lower_case():\n    assert slug("Hello") == "hello"\n\n\n'
        'def test_spaces_become_dashes():\n    assert slug("42 is the  answer") == "42-is-the-answer"\n'
    ),
    "tests/test_roman.py": (
        "from roman import roman\n\n\n"
        'def test_numerals():\n    assert [roman(n) for n in (1, 4, 9, 14)] == ["I", "IV", "IX", "XIV"]\n'
    ),
}
FEATURES = [
    Feature("roman", "Roman numerals up to 39.", steps="tests/test_roman.py::test_numerals"),
    Feature("slug", "Slugs have dashes for spaces.", steps="tests/test_slug.py::test_spaces_become_dashes"),
]


def make_agent(model: str | ModelClient = MODEL, cassette: Cassette | None = None) -> ModelAgent:
    """Return the agent; it replays the recording unless there is a key for the model."""
    tape = cassette or Cassette.auto(CASSETTE, ignored=IGNORED)
    # Any other command needs approval, because it does not run in a sandbox here.
    policy = ToolPolicy(allow=["run(python -m pytest*)"])
    return ModelAgent(model, tools=coding_tools(), system=SYSTEM, policy=policy, cassette=tape, max_rounds=12, name="coder")


def make_harness(directory: Path, agent: ModelAgent) -> CodingHarness:
    """Return the harness that has the agent work, and merges what the validator has proven."""
    # Loading this interpreter's pytest plugins would take longer than running these tests.
    validator = PytestNodes(env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}) & TestsKept()
    return CodingHarness(
        directory / "repository.git",
        agent,
        FEATURES,
        validator,
        objective="Make every test pass.",
        workspace=directory / "workspace",
        handoff=directory,
        confirmations=2,
    )


async def follow(handle: Handle) -> None:
    """Show what the agent says and does, as it happens."""
    async for update in handle.turn_events():
        event = update.event
        if event.kind is TurnEventKind.TOOL_STARTED:
            print(f"  {event.tool} {event.text[:100]}", file=sys.stderr)
        elif event.kind is TurnEventKind.MESSAGE_COMPLETE and event.text:
            print(event.text, file=sys.stderr)


async def run(directory: Path, agent: ModelAgent) -> None:
    """Work until every feature is proven."""
    async with Orchestrator(directory / "run.db") as orchestrator:
        handle = orchestrator.start(make_harness(directory, agent), name="coding")
        await follow(handle)


def make_repository(repository: Path) -> None:
    """Create a bare repository with one commit on `main`."""
    begun = repository.with_name("begin")
    for path, text in FILES.items():
        (begun / path).parent.mkdir(parents=True, exist_ok=True)
        (begun / path).write_text(text, encoding="utf-8")
    git(begun, "init", "--quiet", "--initial-branch=main")
    git(begun, "add", "--all")
    git(begun, "-c", "user.name=example", "-c", "user.email=example@localhost", "commit", "--quiet", "--message=A beginning")
    git(begun, "clone", "--quiet", "--bare", ".", str(repository))


def git(directory: Path, *arguments: str) -> str:
    """Run git and return its output."""
    return subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Create the repository, have it mended, and show the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--directory", default="agent_coding", type=Path, metavar="DIR", help="where everything is")
    parser.add_argument("--model", default=MODEL, help="provider:model, asked if there is a key for it")
    options = parser.parse_args()
    directory: Path = options.directory.absolute()
    if not (directory / "repository.git").exists():
        make_repository(directory / "repository.git")
    trio.run(run, directory, make_agent(options.model))
    print("main:", git(directory / "repository.git", "log", "--first-parent", "--format=  %s", "main"), sep="\n")


if __name__ == "__main__":
    main()
