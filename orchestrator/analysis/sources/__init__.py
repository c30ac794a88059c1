"""The sources that a run can be read from.

store    SQLite, by DuckDB's extension, up to the last `seq` at the time of opening
log      JSON lines, one file or many, plain or compressed; invalid lines are left out and counted
parquet  the output of `orchestrator export --what records --format parquet`
"""

from __future__ import annotations

from orchestrator.analysis.sources.log_source import LogSource
from orchestrator.analysis.sources.parquet_source import ParquetSource
from orchestrator.analysis.sources.source_reading import Source
from orchestrator.analysis.sources.store_source import StoreSource

__all__ = ["LogSource", "ParquetSource", "Source", "StoreSource"]
