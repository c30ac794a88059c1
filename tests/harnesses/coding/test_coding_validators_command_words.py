"""What a command runs judges; what it only looks at is judged."""

from __future__ import annotations

import shlex

import pytest

from harnesses.coding.validators.command_validator import find_judging_words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./check.sh", ["./check.sh"]),
        ("sh check.sh app.py", ["sh", "check.sh"]),
        ("bash -eu check.sh", ["bash", "check.sh"]),
        ("python3.11 -B tools/check.py out.txt", ["python3.11", "tools/check.py"]),
        ("python -m tools.check app", ["python", "tools/check.py", "tools/check/__main__.py"]),
        ("python -c 'import app; app.py'", ["python"]),
        ("grep -qx right a.txt", ["grep"]),
        ("test -f a.txt", ["test"]),
        ("ruff check --config=ruff.toml app.py", ["ruff", "ruff.toml"]),
        ("env A=b timeout 5 sh check.sh", ["sh", "check.sh"]),
        ("sh -c './check.sh && grep -q ok app.cfg'", ["sh", "./check.sh", "grep"]),
        ("sh -ec 'python inner.py | diff - expected.txt'", ["sh", "python", "inner.py", "diff"]),
        ('sh -c "echo \'a"', ["sh", "echo"]),
        ("awk -f judge.awk data.txt", ["awk", "judge.awk"]),
        ("", []),
    ],
)
def test_the_words_that_judge_are_told_from_those_that_are_judged(command, words):
    try:
        argv = shlex.split(command)
    except ValueError:
        argv = ["sh", "-c", "echo 'a"]

    assert list(find_judging_words(argv)) == words
