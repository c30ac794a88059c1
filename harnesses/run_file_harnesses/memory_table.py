"""Reads the memory of a pipeline from a table: its file, its project, and the settings of `EpisodicMemory`.

[memory]
project = "shop"                  default: the name of the run file's folder
path = "memory.db"                relative to the run file; default: the file that `orchestrator memory` reads
top = 3                           and the other fields of `MemorySettings`
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from attrs import define

from harnesses.errors import HarnessMisuse
from harnesses.memory import EpisodicMemory, MemorySettings, read_settings
from harnesses.pipeline.pipeline_memory import Asked, EpisodesOfPipeline, Finished, Recalled
from harnesses.run_file_harnesses.table_arguments import keys_of, place_beside

_OWN = ("project", "path")
KEYS: Mapping[str, tuple[str, ...]] = {"memory": (*_OWN, *keys_of(MemorySettings))}
"""Allowed keys by table, for the documentation."""


@define(slots=False)
class MemoryLater:
    """A pipeline's memory that opens its file at first use, so that checking a run file creates no file."""

    project: str
    path: Path | None
    settings: MemorySettings
    harness: str = ""
    """The durable name of the pipeline."""

    @cached_property
    def _episodes(self) -> EpisodesOfPipeline:
        memory = EpisodicMemory(self.path, project=self.project, settings=self.settings)
        return EpisodesOfPipeline(memory, harness=self.harness)

    async def recall(self, asked: Asked) -> Recalled:
        return await self._episodes.recall(asked)

    async def remember(self, finished: Finished) -> str:
        return await self._episodes.remember(finished)


def memory_of(table: Mapping[str, object], beside: Path, harness: str = "") -> MemoryLater:
    """Return the memory that a table describes.

    Args:
        beside: the directory that the path is relative to.
        harness: the durable name of the pipeline.

    Raises:
        HarnessMisuse: a key is unknown, or a value is invalid.
    """
    for key in _OWN:
        if key in table and not (isinstance(table[key], str) and str(table[key]).strip()):
            raise HarnessMisuse(f"memory: {key}: expected a text, got {table[key]!r:.100}; correct it")
    settings = read_settings({key: value for key, value in table.items() if key not in _OWN})
    project = str(table.get("project") or beside.resolve().name or "project")
    path = place_beside(str(table["path"]), beside) if "path" in table else None
    return MemoryLater(project, path, settings, harness)
