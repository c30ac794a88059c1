"""The memory: how much of what answers a query is found, and how long that takes, among 2,000 made episodes."""

from __future__ import annotations

import time
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from harnesses.memory import EpisodicMemory
from tests.memory_corpus import NOW, episodes, queries

_QUERIES = 200


def memory(folder: Path) -> dict[str, Any]:
    """Measure writing, recalling, and that what is retracted is never recalled."""
    kept = EpisodicMemory(folder / "memory.db", project="corpus", now=lambda: NOW)
    made, asked = episodes(), queries(_QUERIES)
    begin = time.perf_counter()
    for one in made:
        kept.write(one)
    writing_s = time.perf_counter() - begin
    found = known = 0
    waits_s: list[float] = []
    worked_s: list[float] = []
    for one in asked:
        begin, working = time.perf_counter(), time.thread_time()
        recall = kept.recall(one.query)
        waits_s.append(time.perf_counter() - begin)
        worked_s.append(time.thread_time() - working)
        found += len(set(recall.ids) & one.answers)
        known += min(3, len(one.answers))
    poisoned = set(chain.from_iterable(one.answers for one in asked[::4]))
    for id in poisoned:
        kept.retract(id, reason="poisoned", by="benchmark")
    after = set(chain.from_iterable(kept.recall(one.query).ids for one in asked))
    return {
        "episodes": len(made),
        "queries": len(asked),
        "recall_at_3": round(found / known, 4),
        "write_ms": round(writing_s / len(made) * 1e3, 3),
        "recall_p50_ms": round(median(waits_s) * 1e3, 2),
        "recall_p95_ms": round(sorted(waits_s)[int(len(waits_s) * 0.95)] * 1e3, 2),
        "recall_max_ms": round(max(waits_s) * 1e3, 2),
        "recall_processor_p95_ms": round(sorted(worked_s)[int(len(worked_s) * 0.95)] * 1e3, 2),
        "retracted": len(poisoned),
        "recalled_after_retraction": len(poisoned & after),
        "file_bytes": (folder / "memory.db").stat().st_size,
    }
