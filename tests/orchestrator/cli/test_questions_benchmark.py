"""The benchmark of questions asks a store of the program, which nothing is wrong with."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from orchestrator import analysis
from orchestrator.analysis.frames.run_tables import gather, outline
from orchestrator.store import SqliteReader
from orchestrator.store.integrity.proof import prove
from tests.benchmarks.large_store import write_large_store
from tests.benchmarks.questions import ask

_TABLES = (
    "SELECT * FROM lives ORDER BY harness, attempt",
    "SELECT * FROM heard ORDER BY seq",
    "SELECT harness, attempt, count, first, last, steps, first_step, last_step FROM gathered ORDER BY harness, attempt",
)


def test_the_store_of_the_benchmark_is_like_one_of_a_program_and_its_outline_is_what_is_gathered(tmp_path: Path) -> None:
    store = tmp_path / "run.db"
    write_large_store(store, 800, 4)

    assert prove(store, (tmp_path / "run.db-head").read_text(), deep=True).findings == []
    with closing(SqliteReader(store)) as reader:
        assert [harness.current_step for harness in reader.harnesses()] == [200] * 4
        assert reader.effects()
    assert ask(store, ("status",))["cpu_s"] > 0
    with analysis.open(store) as run:
        outline(run)
        outlined = [run.rows(query) for query in _TABLES]
        gather(run)
        assert [run.rows(query) for query in _TABLES] == outlined
