"""A small repository whose tests fail, worked until all of them pass, by a program that is killed twice on the way.

    repository    made anew in a directory: a library of three modules, five tests of which four fail
    agent         scripted, and wrong at first: it weakens a test, does half of it, breaks what worked
    validators    the test of the feature, in a fresh worktree, twice in a row; no test weakened; nothing broken
    program       is killed with `kill -9` while the agent works, and while its work is judged; the third life finishes

What is proven is merged into `main`; failed tries stay on branches, to be looked at. Started once more when all is done, it
shows what there is. Look around in it: `git -C coding_repository/repository.git log --graph --all --oneline`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import msgspec
import trio

from harnesses.agents.scripted import ScriptedAgent, ScriptedAttempt
from harnesses.coding import CodingHarness, FailingTests
from harnesses.effects import EffectOutcome
from harnesses.features.feature import Standing
from harnesses.features.record import FeatureState
from orchestrator import Orchestrator, StoreUnusable, UnknownHarness
from orchestrator.store import SqliteReader

NAME = "coding"
POLL_S = 0.01
SLUG = '"""Words for addresses."""\n\n\ndef slug(title):\n    return title.lower()\n'
ROMAN = '"""Roman numerals."""\n\n\ndef roman(number):\n    raise NotImplementedError\n'
CLOCK = '"""Spans of time."""\n\n\ndef seconds(text):\n    raise NotImplementedError\n'
TEST_SLUG = """
from texts.slug import slug


def test_lower_case():
    assert slug("Hello") == "hello"


def test_spaces_become_dashes():
    assert slug("42 is the  answer") == "42-is-the-answer"


def test_marks_are_dropped():
    assert slug("what's new, doc?") == "whats-new-doc"
"""
TEST_ROMAN = """
from texts.roman import roman


def test_numerals():
    assert [roman(number) for number in (1, 4, 9, 14, 40, 90, 400, 1994)] == [
        "I", "IV", "IX", "XIV", "XL", "XC", "CD", "MCMXCIV",
    ]
"""
TEST_CLOCK = """
from texts.clock import seconds


def test_spans():
    assert (seconds("90s"), seconds("2m"), seconds("1h30m")) == (90, 120, 5400)
"""
FILES = {
    "README.md": "# texts\n",
    "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["tests"]\npythonpath = ["."]\n',
    "texts/__init__.py": "",
    "texts/slug.py": SLUG,
    "texts/roman.py": ROMAN,
    "texts/clock.py": CLOCK,
    "tests/test_slug.py": TEST_SLUG,
    "tests/test_roman.py": TEST_ROMAN,
    "tests/test_clock.py": TEST_CLOCK,
}


def code(text: str) -> str:
    """Return source text without the indentation that it has here."""
    return dedent(text).lstrip("\n")


BREAKS_LOWER_CASE = code('''
    """Words for addresses."""


    def slug(title):
        return "-".join("".join(letter for letter in title if letter.isalnum() or letter == " ").split())
''')
SLUG_DONE = code('''
    """Words for addresses."""


    def slug(title):
        kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter.isspace())
        return "-".join(kept.split())
''')
ROMAN_DONE = code('''
    """Roman numerals."""

    STEPS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL")]
    STEPS += [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


    def roman(number):
        if number < 1:
            raise ValueError(f"there is no numeral for {number}")
        text = ""
        for value, letters in STEPS:
            while number >= value:
                text, number = text + letters, number - value
        return text
''')
CLOCK_EASY = code('''
    """Spans of time."""

    UNITS = {"s": 1, "m": 60, "h": 3600}


    def seconds(text):
        return int(text[:-1]) * UNITS[text[-1]]
''')
CLOCK_DONE = code('''
    """Spans of time."""

    import re

    UNITS = {"s": 1, "m": 60, "h": 3600}


    def seconds(text):
        if not re.fullmatch(r"(\\d+[smh])+", text):
            raise ValueError(f"{text!r} is no span of time: expected one like 1h30m")
        return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\\d+)([smh])", text))
''')
WEAKENED = TEST_ROMAN.replace("(1, 4, 9, 14, 40, 90, 400, 1994)", "(1,)").replace(
    '"I", "IV", "IX", "XIV", "XL", "XC", "CD", "MCMXCIV",', '"I",'
)


def tries(*files: dict[str, str]) -> list[ScriptedAttempt]:
    """Return tries that write files; each takes a while, so that there is time to be killed."""
    return [ScriptedAttempt(files=one, pause_s=0.3, message="All tests pass.") for one in files]


def make_agent() -> ScriptedAgent:
    """Return an agent that claims every time that all is well."""
    return ScriptedAgent(
        {
            "tests/test_roman.py::test_numerals": tries(
                {"tests/test_roman.py": WEAKENED, "texts/roman.py": ROMAN.replace("raise NotImplementedError", 'return "I"')},
                {"texts/roman.py": ROMAN_DONE},
            ),
            "tests/test_slug.py::test_spaces_become_dashes": tries(
                {"texts/slug.py": BREAKS_LOWER_CASE}, {"texts/slug.py": SLUG_DONE}
            ),
            "tests/test_clock.py::test_spans": tries({"texts/clock.py": CLOCK_EASY}, {"texts/clock.py": CLOCK_DONE}),
        },
        otherwise=ScriptedAttempt(message="There was nothing left to do."),
    )


def make_repository(repository: Path) -> None:
    """Make a bare repository with one commit on `main`, unless it is there."""
    if repository.exists():
        return
    begun = repository.with_name("begin")
    for path, text in FILES.items():
        (begun / path).parent.mkdir(parents=True, exist_ok=True)
        (begun / path).write_text(text.lstrip("\n"), encoding="utf-8")
    git(begun, "init", "--quiet", "--initial-branch=main")
    git(begun, "add", "--all")
    git(begun, "-c", "user.name=example", "-c", "user.email=example@localhost", "commit", "--quiet", "--message=A beginning")
    git(begun, "clone", "--quiet", "--bare", ".", str(repository))


def git(directory: Path, *arguments: str) -> str:
    """Run git and return what it says."""
    done = subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.rstrip()


# the program that is killed


async def work(directory: Path) -> int:
    """Work until every test passes; return the exit code."""
    harness = CodingHarness(
        directory / "repository.git",
        make_agent(),
        # What else this interpreter has for pytest takes five times as long to load as these tests take to run.
        FailingTests(env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
        objective="Make every test pass.",
        workspace=directory / "workspace",
        handoff=directory,
        confirmations=2,
    )
    async with Orchestrator(directory / "run.db") as orchestrator:
        orchestrator.start(harness, name=NAME)
    return 128 + orchestrator.signalled if orchestrator.signalled else 0


# the one that kills it


def live(directory: Path, life: int, fatal: Callable[[Path], bool] | None) -> None:
    """Start the program that works, and kill it as soon as the store says that the fatal moment has come."""
    with subprocess.Popen([sys.executable, __file__, "--directory", str(directory), "--work"]) as program:
        while fatal is not None and program.poll() is None:
            if fatal(directory / "run.db"):
                program.kill()
                say(f"life {life}: killed with `kill -9` after step {last_step(directory / 'run.db')}")
                return
            sleep()
    say(f"life {life}: ended by itself with code {program.returncode} after step {last_step(directory / 'run.db')}")


def sleep() -> None:
    """Wait for a moment."""
    trio.run(trio.sleep, POLL_S)


def under_way(verb: str, after: int) -> Callable[[Path], bool]:
    """Return a look into a store: whether, after so many steps, an effect of this kind is begun and not done."""

    def look(store: Path) -> bool:
        try:
            with closing(SqliteReader(store)) as reader:
                effects = reader.effects(NAME, current=True)
        except (StoreUnusable, UnknownHarness):
            return False
        return any(
            effect.key.startswith(f"{verb} ") and effect.outcome is EffectOutcome.BEGUN and effect.step_number > after
            for effect in effects
        )

    return look


def last_step(store: Path) -> int:
    """Return the number of the last recorded step."""
    try:
        with closing(SqliteReader(store)) as reader:
            return next((one.current_step for one in reader.harnesses()), 0)
    except StoreUnusable:
        return 0


# what there is


def state_of(store: Path) -> FeatureState | None:
    """Return the state as it is on record."""
    try:
        with closing(SqliteReader(store)) as reader:
            known = reader.harnesses()
            if not known:
                return None
            return msgspec.json.decode(reader.state_at(NAME, known[0].current_step), type=FeatureState)
    except StoreUnusable:
        return None


def is_finished(state: FeatureState | None) -> bool:
    """Return whether every feature passes."""
    return state is not None and bool(state.features) and all(feature.passes for feature in state.features)


def show(directory: Path) -> None:
    """Print what has become of each feature, and the log of `main`."""
    state = state_of(directory / "run.db")
    assert state is not None
    rows = [(one.feature_id, str(one.status), str(one.tries), str(one.interruptions), seen(one)) for one in state.standings]
    head = ("feature", "status", "tries", "cut off", "proven by")
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for line in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    repository = directory / "repository.git"
    print("\nmain:")
    print(git(repository, "log", "--first-parent", "--format=  %h  %s", "main"))
    print("\nfailed tries, to be looked at:")
    print(git(repository, "for-each-ref", "--format=  %(refname:short)", "refs/heads/harness"))


def seen(standing: Standing) -> str:
    """Return what proves a feature, in a few words."""
    return "" if standing.evidence is None else standing.evidence.validator


def say(text: str) -> None:
    """Talk goes to standard error; standard output is for the table."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--directory", default="coding_repository", type=Path, metavar="DIR", help="where everything is")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    directory = options.directory.absolute()
    if options.work:
        return trio.run(work, directory)
    make_repository(directory / "repository.git")
    if not is_finished(state_of(directory / "run.db")):
        live(directory, 1, under_way("work", after=1))
        live(directory, 2, under_way("judge", after=3))
        live(directory, 3, None)
    show(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
