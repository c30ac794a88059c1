"""Each small example runs by itself, prints what its reader expects, and is short enough to be read at once."""

from __future__ import annotations

import pytest

from tests import ROOT
from tests.zygote import run_python

PRINTED = {
    "polling": """\
1 +0 at 10, 0 held, 100 in cash
2 +0 at 11, 0 held, 100 in cash
3 +1 at 12, 1 held, 88 in cash
4 +0 at 11, 1 held, 88 in cash
5 -1 at 9, 0 held, 97 in cash
6 +0 at 8, 0 held, 97 in cash
7 +0 at 10, 0 held, 97 in cash
8 +1 at 12, 1 held, 85 in cash
""",
    "feature_queue": """\
1 double passed
2 square failed
3 negate passed
4 square passed
completed
""",
    "effects": """\
payroll-1 paid 100
payroll-2 paid 100, as the bank says
payroll-3 paid 100
completed {'payroll-1': 100, 'payroll-2': 100, 'payroll-3': 100}
""",
    "approval": """\
release asks for approval of step 2
build 1.4.0 is built
publish 1.4.0 is published
""",
    "messages": """\
10 shares ordered, 10 held
20 shares ordered, 30 held
30 shares ordered, 60 held
a query says 60 held; after an order from outside 65
""",
}
SMALL = [*PRINTED, "counting", "agent", "supervise"]


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_exactly_this(name: str) -> None:
    ran = run_python(ROOT / "examples" / f"{name}.py", cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, PRINTED[name]), ran.stderr


def test_an_agent_is_stopped_by_the_budget_that_its_reports_are_charged_to() -> None:
    ran = run_python(ROOT / "examples" / "agent.py", cwd=ROOT, capture_output=True, text=True, timeout=60)

    *steps, outcome = ran.stdout.splitlines()
    assert steps == ["1 Page 1 says that", "2 Page 2 says that", "3 Page 3 says that"]
    assert "limit 300 tokens, spent 308" in outcome


@pytest.mark.parametrize("name", SMALL)
def test_a_small_example_has_fewer_than_60_lines(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 60


def test_the_index_names_every_example() -> None:
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")

    assert all(f"]({path.name})" in index for path in (ROOT / "examples").glob("*.py"))
