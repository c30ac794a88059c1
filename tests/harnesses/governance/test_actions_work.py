"""Judging a command takes no more than a certain number of steps, whatever it is made of."""

from __future__ import annotations

import shlex

import pytest

from harnesses.governance.actions import UNREADABLE, classify
from harnesses.governance.actions.cursor import MAX_TEXT
from harnesses.governance.actions.judge import Judge
from harnesses.governance.actions.work import Work

UNITS = (
    *("$(", "`", "'", '"', "{a,b}", "$((", "((", "| ls ", "a;", "eval ", "sudo ", "foo bash -c ls ", "cat <<E\n"),
    *("rm $a/b;", "rm a*;", "> $a/b ", "a | sh | ", "a=$a;", "${a:-", "if a; then ", "mv -ta b ", "git -c alias.a=!ls "),
)
LONG = {
    "unknown-paths": "rm " + "$a/b " * 9_000,
    "stars": "rm " + "*" * 40_000 + "x",
    "folders": "mv " + "-ta " * 5_000 + "b " * 12_000,
    "sql": "psql -c '" + "copy " * 9_000 + "'",
    "sql-comment": "psql -c '" + "/*!" * 15_000 + "'",
    "evals": "foo " + "eval " * 50 + "'" + "echo a;" * 6_500 + "'",
    "files": "".join(f"echo 'sh f{i + 1}; sh f{i + 1}; {'echo a;' * 400}' > f{i};" for i in range(15)) + "sh f0",
    "python-sums": "python -c 'import os\n" + "\n".join(f"a{i}=a{i + 1}+a{i + 1}" for i in range(20)) + "\nos.system(a0)'",
    "python-names": "python -c '" + "\n".join(f"a{i}=a{i + 1}" for i in range(3_000)) + "\na0()'",
    "python-ring": "python -c 'a=b\nb=a\na()'",
    "variables": "a=aaaaaaaaaa;" + "".join(f"{chr(98 + i)}=${chr(97 + i)}${chr(97 + i)};" for i in range(24)) + "eval $y",
}


@pytest.mark.parametrize("text", [*[(unit * MAX_TEXT)[: MAX_TEXT - 1] for unit in UNITS], *LONG.values()])
def test_no_text_takes_more_steps_than_there_are(text: str) -> None:
    judge = Judge(work=Work(20_000))

    list(judge.text(text))

    assert 0 <= judge.work.left <= 20_000


@pytest.mark.parametrize("name", ["sql", "evals"])
def test_what_takes_more_steps_than_there_are_is_unreadable(name: str) -> None:
    assert UNREADABLE in {finding.category for finding in classify(LONG[name])}


def test_what_is_dangerous_is_told_even_if_the_steps_run_out_after_it() -> None:
    text = "git reset --hard; " + "psql -c " + shlex.quote("copy " * 9_000)

    assert {finding.category for finding in classify(text)} == {"git-force", UNREADABLE}
