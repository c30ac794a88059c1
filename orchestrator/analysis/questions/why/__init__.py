"""The question why a harness is where it is."""

from orchestrator.analysis.questions.why.why_question import answer

__all__ = ["answer"]
