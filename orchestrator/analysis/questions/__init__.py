"""The questions of `orchestrator analyze`: a module for each, with a function `answer`. Each is imported when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from orchestrator.analysis.answers.answer import Answer

if TYPE_CHECKING:
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

__all__ = [
    "QUESTIONS",
    "compare",
    "cost",
    "failures",
    "loops",
    "progress",
    "restarts",
    "slow",
    "summary",
    "throughput",
    "timeline",
    "turns",
    "why",
]
_NAMES = (
    *("summary", "timeline", "slow", "failures", "restarts", "throughput", "loops", "cost", "progress", "turns", "compare"),
    "why",
)


class _Questions(Mapping[str, Callable[..., Answer]]):
    def __getitem__(self, name: str) -> Callable[..., Answer]:
        if name not in _NAMES:
            raise KeyError(name)
        answer: Callable[..., Answer] = __getattr__(name).answer
        return answer

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


def __getattr__(name: str) -> ModuleType:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}_question")


QUESTIONS: Mapping[str, Callable[..., Answer]] = _Questions()
"""The function `answer(run, *, harness=None, …)` of each question, by its name. Questions with more input take it after the
run: `why` the name of a harness and optionally a step, `compare` another run.
"""
