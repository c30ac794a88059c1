"""Analysis of recorded runs: from a store, its log, or exported Parquet.

    with analysis.open("run.db") as run:                 # or "steps.jsonl", "logs/*.jsonl.gz", "exported/"
        run.steps.filter("work_s > 1").df()              # a DuckDB relation: lazy, and a pandas or Polars frame on request

Invariant: the same run gives the same frames, whichever it is read from; reading it cannot affect it.
"""

from __future__ import annotations

from orchestrator.analysis.answers.answer import Answer, Table
from orchestrator.analysis.frames.analysis_run import Run, open
from orchestrator.analysis.sql import Answered, QueryFailed, QueryStopped, query

__all__ = ["Answer", "Answered", "QueryFailed", "QueryStopped", "Run", "Table", "open", "query"]
