"""Where a run can be read from.

store    SQLite, by DuckDB's extension, bounded by the `seq` that was the last when it was opened
log      JSON lines, one file or many, plain or compressed; lines that are none are left out, and counted
parquet  what `orchestrator export --what records --format parquet` has written
"""

from __future__ import annotations

from orchestrator.analysis.sources.log_source import LogSource
from orchestrator.analysis.sources.parquet_source import ParquetSource
from orchestrator.analysis.sources.source_reading import Source
from orchestrator.analysis.sources.store_source import StoreSource

__all__ = ["LogSource", "ParquetSource", "Source", "StoreSource"]
