"""Verbs that take records out of a store: export, traces, prune."""

from orchestrator.cli.export.export_formats import export_sheet

__all__ = ["export_sheet"]
