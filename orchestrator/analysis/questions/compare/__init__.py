"""The comparison of harnesses or runs."""

from orchestrator.analysis.questions.compare.compare_question import answer

__all__ = ["answer"]
