"""The questions of `orchestrator analyze`: a module for each, with a function `answer`."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.analysis.answers.answer import Answer
from orchestrator.analysis.questions import compare_question as compare
from orchestrator.analysis.questions import cost_question as cost
from orchestrator.analysis.questions import failures_question as failures
from orchestrator.analysis.questions import loops_question as loops
from orchestrator.analysis.questions import progress_question as progress
from orchestrator.analysis.questions import restarts_question as restarts
from orchestrator.analysis.questions import slow_question as slow
from orchestrator.analysis.questions import summary_question as summary
from orchestrator.analysis.questions import throughput_question as throughput
from orchestrator.analysis.questions import timeline_question as timeline
from orchestrator.analysis.questions import turns_question as turns
from orchestrator.analysis.questions import why_question as why

QUESTIONS: dict[str, Callable[..., Answer]] = {
    "summary": summary.answer,
    "timeline": timeline.answer,
    "slow": slow.answer,
    "failures": failures.answer,
    "restarts": restarts.answer,
    "throughput": throughput.answer,
    "loops": loops.answer,
    "cost": cost.answer,
    "progress": progress.answer,
    "turns": turns.answer,
    "compare": compare.answer,
    "why": why.answer,
}
"""The function `answer(run, *, harness=None, …)` of each question, by its name. Questions with more input take it after the
run: `why` the name of a harness and optionally a step, `compare` another run.
"""
