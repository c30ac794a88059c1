"""A small repository with failing tests, worked on until all pass, by a program that is killed twice on the way.

    repository   created by the example: two modules and four tests, two of which fail
    agent        scripted, and wrong at first: it weakens a test, and breaks working code
    validator    the failing test must pass twice in a row, no test may be weakened, and passing tests must still pass
    program      is killed with `kill -9` while the agent works, and again during validation; its third start finishes

Proven work is merged into `main`; failed tries stay on branches. When everything is done, another start only shows the result.
Look at the history with `git -C coding_repository/repository.git log --graph --all --oneline`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import trio

from harnesses.agents import ScriptedAgent, ScriptedAttempt
from harnesses.coding import CodingHarness, FailingTests
from harnesses.effects.effect import EffectOutcome
from orchestrator import Orchestrator, StoreUnusable, UnknownHarness
from orchestrator.store import SqliteReader

# the repository: files of its first commit

SLUG = """\
def slug(title):
    return title.lower()
"""
ROMAN = """\
def roman(number):
    raise NotImplementedError
"""
TEST_SLUG = """\
from slug import slug

def test_lower_case():
    assert slug("Hello") == "hello"

def test_digits_are_kept():
    assert slug("42") == "42"

def test_spaces_become_dashes():
    assert slug("42 is the  answer") == "42-is-the-answer"
"""
TEST_ROMAN = """\
from roman import roman

def test_numerals():
    assert [roman(number) for number in (1, 4, 9, 14)] == ["I", "IV", "IX", "XIV"]
"""
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npythonpath = ["."]\n',
    "slug.py": SLUG,
    "roman.py": ROMAN,
    "tests/test_slug.py": TEST_SLUG,
    "tests/test_roman.py": TEST_ROMAN,
}

# the agent: the files of its first try at a test, and of its second one

WEAKENED_TEST = """\
from roman import roman

def test_numerals():
    assert roman(1) == "I"
"""
ROMAN_FOR_THAT = """\
def roman(number):
    return "I"
"""
ROMAN_RIGHT = """\
def roman(number):
    text = ""
    for value, letters in [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while number >= value:
            text, number = text + letters, number - value
    return text
"""
SLUG_THAT_BREAKS_LOWER_CASE = """\
def slug(title):
    return "-".join(title.split())
"""
SLUG_RIGHT = """\
def slug(title):
    return "-".join(title.lower().split())
"""


def tries(*files: dict[str, str]) -> list[ScriptedAttempt]:
    """Return tries that write files; each takes a while, so that it can be killed."""
    return [ScriptedAttempt(files=one, pause_s=0.3, message="All tests pass.") for one in files]


AGENT = ScriptedAgent(
    {
        "tests/test_roman.py::test_numerals": tries(
            {"tests/test_roman.py": WEAKENED_TEST, "roman.py": ROMAN_FOR_THAT},
            {"roman.py": ROMAN_RIGHT},
        ),
        "tests/test_slug.py::test_spaces_become_dashes": tries(
            {"slug.py": SLUG_THAT_BREAKS_LOWER_CASE},
            {"slug.py": SLUG_RIGHT},
        ),
    }
)


# the program that works and is killed


async def work(directory: Path) -> None:
    """Work until every test passes."""
    harness = CodingHarness(
        directory / "repository.git",
        AGENT,
        # Loading this interpreter's pytest plugins would take longer than running these tests.
        FailingTests(env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
        objective="Make every test pass.",
        workspace=directory / "workspace",
        handoff=directory,
        confirmations=2,
    )
    async with Orchestrator(directory / "run.db") as orchestrator:
        orchestrator.start(harness, name="coding")


# the program that kills it


def live(directory: Path, *, until: str | None = None) -> None:
    """Start the working program; kill it once an effect whose key begins with `until` is running."""
    with subprocess.Popen([sys.executable, __file__, "--directory", str(directory), "--work"]) as program:
        while until is not None and program.poll() is None:
            if is_under_way(directory / "run.db", until):
                program.kill()
            time.sleep(0.03)
    if program.returncode != 0:
        print(f"ended with code {program.returncode} during {until!r}", file=sys.stderr)


def is_under_way(store: Path, effect: str) -> bool:
    """Return whether an effect has begun and is not done, according to the store, which any process may read at any time."""
    try:
        with closing(SqliteReader(store)) as reader:
            effects = reader.effects("coding", current=True)
    except (StoreUnusable, UnknownHarness):
        return False
    return any(one.key.startswith(effect) and one.outcome is EffectOutcome.BEGUN for one in effects)


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
    """Create the repository, start the program three times, and show the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--directory", default="coding_repository", type=Path, metavar="DIR", help="where everything is")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    directory: Path = options.directory.absolute()
    repository = directory / "repository.git"
    if options.work:
        trio.run(work, directory)
        return
    if not repository.exists():
        make_repository(repository)
        live(directory, until="work ")
        live(directory, until="judge ")
    live(directory)
    print((directory / "HANDOFF.md").read_text(encoding="utf-8"))
    print("main:", git(repository, "log", "--first-parent", "--format=  %h  %s", "main"), sep="\n")
    print("failed tries:", git(repository, "for-each-ref", "--format=  %(refname:short)", "refs/heads/harness"), sep="\n")


if __name__ == "__main__":
    main()
