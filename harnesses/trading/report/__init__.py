"""The trading report: figures, text and pictures."""

from harnesses.trading.report.trading_report import report, steps

__all__ = ["report", "steps"]
