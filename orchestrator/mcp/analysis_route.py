"""The questions of `orchestrator analyze` as a path like those of the API."""

from __future__ import annotations

from typing import Any

from orchestrator.analysis.answers.answer import Answer
from orchestrator.text.command_hints import for_store
from orchestrator.web.api_route import Asked, Route

QUESTIONS = {
    "summary": "how much each harness has done, how fast, and where its time went",
    "slow": "the slowest steps, effects, agents and commits, and the longest times without a step",
    "failures": "what went wrong, grouped, and what happened next",
    "restarts": "restarts, back-off, restart storms, and attempts that died at the same step",
    "throughput": "steps by time; gaps and trend",
    "loops": "the same output, or the same few outputs, again and again",
    "cost": "what was spent, and on what",
    "progress": "features, trades and equity so far",
    "turns": "what agents asked which models, and what it cost",
}
"""About one run. `why` and `timeline` are tools of their own, and `compare` is about two runs."""


def _analyze(asked: Asked) -> Any:
    from orchestrator.analysis import open as open_run
    from orchestrator.analysis.questions import QUESTIONS as ANSWERS

    path = str(asked.site.path)
    with open_run(path) as run:
        answer: Answer = ANSWERS[asked.options["question"]](run, harness=asked.options.get("harness") or None)
    return {
        "sentences": [for_store(said, path) for said in answer.sentences],
        "notes": {one.name: one.note for one in answer.tables if one.rows and one.note},
        "tables": {one.name: one.dicts() for one in answer.tables if one.rows},
    }


ANALYZE = Route(
    "GET",
    "/analyze",
    "Answer a question about the whole run.",
    _analyze,
    {
        "question": "; ".join(f"{name}: {said}" for name, said in QUESTIONS.items()),
        "harness": "only this one (default: all)",
    },
)
