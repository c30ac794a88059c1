"""The example tries its grid twice, once with hindsight and once without, on whatever run file it is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import ROOT
from tests.backtests.comparison import run_file
from tests.zygote import Program

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def test_the_example_writes_both_pages(tmp_path: Path) -> None:
    (tmp_path / "aapl.toml").write_text(run_file("AAPL", 120))
    words = [
        str(ROOT / "examples" / "backtest_grid.py"),
        "--file",
        "aapl.toml",
        "--fast",
        "3",
        "--slow",
        "8,13",
        "--folds",
        "1",
    ]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Program(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        out, err = program.communicate(timeout=300)

    assert program.returncode == 0, err
    assert "The best of 2 combinations by its Sharpe ratio" in out
    assert "Chosen by the Sharpe ratio of the past" in out
    for name in ("grid", "walk-forward"):
        assert "<svg" in (tmp_path / "backtest-grid" / f"{name}.html").read_text(encoding="utf-8")
