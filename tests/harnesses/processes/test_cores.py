"""The number of cores is known on every system."""

from __future__ import annotations

import os

import pytest

from harnesses.processes.cores import usable_cores


def test_a_system_that_does_not_say_which_cores_may_be_used_has_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    assert usable_cores() == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6
