"""Import hook for renamed modules: old import paths still work, with a warning that names the new one."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

RENAMED = {
    "harnesses.agents.chat.transcript": "harnesses.agents.model.transcript",
    "harnesses.agents.agent_dialects": "harnesses.agents.command.agent_dialects",
    "harnesses.agents.agent_output": "harnesses.agents.command.agent_output",
    "harnesses.agents.command_agent": "harnesses.agents.command.command_agent",
    "harnesses.agents.stream_counts": "harnesses.agents.command.stream_counts",
    "harnesses.agents.sandbox_mounts": "harnesses.agents.sandbox.sandbox_mounts",
    "harnesses.described": "harnesses.run_file_harnesses",
    "harnesses.described.coding_table": "harnesses.run_file_harnesses.coding_table",
    "harnesses.described.features_table": "harnesses.run_file_harnesses.features_table",
    "harnesses.described.memory_table": "harnesses.run_file_harnesses.memory_table",
    "harnesses.described.pipeline_table": "harnesses.run_file_harnesses.pipeline_table",
    "harnesses.described.trading_table": "harnesses.run_file_harnesses.trading_table",
    "harnesses.features.feature_protocols": "harnesses.features",
    "harnesses.governance.actions": "harnesses.guard",
    "harnesses.governance.commands": "harnesses.governance.approved_commands",
    "harnesses.governance.counting": "harnesses.governance.limits.counted_agent",
    "harnesses.governance.memory": "harnesses.memory",
    "harnesses.governance.stream_counts": "harnesses.agents.command.stream_counts",
    "harnesses.process": "harnesses.processes.bounded_command",
    "harnesses.secrets": "harnesses.redaction",
    "harnesses.trading.replay_files": "harnesses.trading.feeds.bar_files",
    "orchestrator.analysis.report": "orchestrator.analysis.analysis_report",
    "orchestrator.command": "orchestrator.cli",
    "orchestrator.history.judges": "orchestrator.presets.ready_made_judges",
    "orchestrator.store.proof": "orchestrator.store.integrity.proof",
    "orchestrator.store.pruning_plan": "orchestrator.store.pruning",
    "orchestrator.store.sqlite_reader": "orchestrator.store.sqlite.sqlite_reader",
}
"""New names of modules by their earlier ones."""


class _Alias:
    """A loader. The base class in `importlib.abc` adds nothing to it but the time of its import."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(RENAMED[spec.name])
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class RenamedModules:
    """Finds a renamed module under its old name.

    It runs before the path finders: a folder left behind by an upgrade would otherwise be imported as a package.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in RENAMED:
            return None
        message = f"module {fullname} has moved: import it as {RENAMED[fullname]}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, cast(Any, _Alias()))


def install() -> None:
    """Let the import system find renamed modules."""
    sys.meta_path.insert(0, RenamedModules())
