"""G5: a program that dies at any commit, act, write or sync does nothing twice, and knows or finds out what it has done."""

from __future__ import annotations

from pathlib import Path

import pytest

from .calls import SYNCS, WRITES, tampered, why_no_strace
from .effects_lives import Case, die_and_go_on

needs_strace = pytest.mark.skipif(bool(why_no_strace()), reason=why_no_strace())


@pytest.mark.parametrize("moment", ["before:5", "after:6", "before:11"])
def test_death_at_a_commit_doubles_nothing(tmp_path: Path, moment: str) -> None:
    assert die_and_go_on(Case(tmp_path, steps=4), f"--fault={moment}")


@pytest.mark.parametrize("moment", ["before:5", "after:7"])
def test_death_at_a_commit_doubles_nothing_of_harnesses_that_go_on_before_it(tmp_path: Path, moment: str) -> None:
    assert die_and_go_on(Case(tmp_path, steps=4, group=True), f"--fault={moment}")


@pytest.mark.parametrize("moment", ["before:3", "after:3"])
def test_death_at_an_act_doubles_nothing(tmp_path: Path, moment: str) -> None:
    case = Case(tmp_path, steps=4, pace_s=0)

    assert die_and_go_on(case, f"--die={moment}")

    assert case.cut_off > 0
    assert case.happened > 0 or moment == "before:3"


@needs_strace
@pytest.mark.parametrize(("calls", "number"), [(WRITES, 75), (SYNCS, 9)])
def test_death_at_a_write_or_a_sync_doubles_nothing(tmp_path: Path, calls: str, number: int) -> None:
    assert die_and_go_on(Case(tmp_path, steps=15), before=tampered(calls, f"signal=KILL:when={number}"))


@pytest.mark.parametrize("way", ["retry", "remember"])
def test_without_effects_death_right_after_an_act_doubles_it(tmp_path: Path, way: str) -> None:
    case = Case(tmp_path, steps=2, way=way)

    assert die_and_go_on(case, "--die=after:1")

    assert case.doubled() == 1
