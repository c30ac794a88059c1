"""What counts: no sibling as crashed, no step of another harness, nothing that was pruned, and that is said."""

from __future__ import annotations

from orchestrator.analysis.questions import cost
from orchestrator.analysis.questions.compare_sides import sides
from orchestrator.analysis.questions.gathered import gather
from orchestrator.analysis.run import Run
from tests.orchestrator.analysis.asked import by_name


def test_a_sibling_that_was_taken_down_has_not_crashed(eventful: Run) -> None:
    ended = dict(eventful.rows("SELECT harness, ended_by FROM attempts WHERE attempt = 1 AND harness IN ('leader', 'twin')"))

    crashes = by_name(cost.answer(eventful), "crashes")

    assert ended == {"leader": "failed", "twin": "taken_down"}
    assert ("leader" in crashes, "twin" in crashes) == (True, False)
    assert (sides(eventful)["leader"].failures, sides(eventful)["twin"].failures) == (1, 0)


def test_the_frame_and_the_questions_call_the_end_of_an_attempt_the_same(eventful: Run) -> None:
    gather(eventful)

    assert (
        eventful.rows(
            "SELECT harness, attempt, l.ended_by, a.ended_by FROM lives l JOIN attempts a USING (harness, attempt) "
            "WHERE l.ended_by IS DISTINCT FROM a.ended_by"
        )
        == []
    )
