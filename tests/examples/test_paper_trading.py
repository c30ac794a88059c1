"""Paper trading: the kill switch holds orders back, the report shows it, and a program that is killed places nothing twice."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from tests import ROOT
from tests.zygote import Program

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

DAYS = 90


def start(folder: Path) -> subprocess.Popen[str]:
    command = [str(ROOT / "examples" / "paper_trading.py"), "--store", str(folder / "run.db")]
    command += ["--days", str(DAYS), "--period", "0.02", "--report", str(folder / "report")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return Program(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(program: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, err
    return out, err


def trades(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "report" / "trades.csv").read_text(encoding="utf-8").splitlines()))


def test_the_latch_holds_orders_back_and_the_report_shows_it(tmp_path):
    with start(tmp_path) as program:
        out, err = finish(program)

    assert "from a second terminal: orchestrator kill-switch on" in err
    assert "an order was held back: the kill switch is on for all harnesses (half-way" in err
    assert f"steps     {DAYS + 1}" in out
    assert "latched  " in out
    assert not (tmp_path / "run.db-latch").exists()
    assert (tmp_path / "report" / "equity.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "report" / "equity.svg").read_text(encoding="utf-8")


def test_killed_again_and_again_it_places_no_order_twice_and_its_books_are_the_venues(tmp_path):
    for lines in (1, 2, 4):
        with start(tmp_path) as program:
            for _ in range(lines):
                program.stderr.readline()
            program.send_signal(signal.SIGKILL)

    with start(tmp_path) as program:
        finish(program)

    with closing(sqlite3.connect(tmp_path / "run.db-venue")) as venue:
        placed = venue.execute("SELECT count(*) FROM orders").fetchone()[0]
        filled = [id for (id,) in venue.execute("SELECT body ->> 'fill_id' FROM fills")]
        cash = Decimal(venue.execute("SELECT body ->> 'cash' FROM books").fetchone()[0])
    rows = trades(tmp_path)
    paid = sum(Decimal(row["units"]) * Decimal(row["price"]) * (1 if row["side"] == "buy" else -1) for row in rows)
    assert sorted(row["fill_id"] for row in rows) == sorted(filled)
    assert len({row["client_id"] for row in rows}) == placed
    assert cash == 100_000 - paid - sum(Decimal(row["fee"]) for row in rows)
