"""The questions that `orchestrator analyze` asks: a module for each, and in it a function `answer`."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.analysis.answer import Answer
from orchestrator.analysis.questions import (
    compare,
    cost,
    failures,
    loops,
    progress,
    restarts,
    slow,
    summary,
    throughput,
    timeline,
    why,
)

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
    "compare": compare.answer,
    "why": why.answer,
}
"""`answer(run, *, harness=None, …)` of each, by the word it is asked with. A question about more than the run takes that next:
`why` the name of a harness and perhaps a step, `compare` another run."""
