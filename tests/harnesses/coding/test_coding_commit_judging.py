"""A commit is accepted if the validator passes it every time that is asked for, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from harnesses.coding.candidate import LINK, Candidate, Change
from harnesses.coding.workplace.coding_attempts import CommitJudging
from harnesses.features.feature import Feature, FeatureStatus, Standing, TurnResult, Verdict

FEATURE = Feature("a", "a is there", steps=["look"])
WORK = TurnResult(base="base", commit="commit", branch="harness/x/a/1")


class Place:
    """Stands for the repositories; keeps what was published."""

    def __init__(self, *, lost: bool = False, links: dict[str, str] | None = None) -> None:
        self.lost, self.links, self.published = lost, links or {}, []

    @property
    def judge(self) -> Any:
        return self

    async def has(self, commit: str) -> bool:
        return not self.lost

    async def publish(self, branch: str, commit: str) -> None:
        self.published.append((branch, commit))

    async def changes(self, base: str, commit: str) -> list[Change]:
        return [Change("A", path, LINK) for path in self.links]

    async def contains(self, commit: str, other: str) -> bool:
        return (commit, other) == ("good", WORK.commit)

    async def sizes(self, base: str, commit: str) -> dict[str, tuple[int, bool]]:
        return {}

    async def read(self, commit: str, path: str) -> bytes:
        return self.links[path].encode()


class Says:
    """Passes so many times, and then never again."""

    def __init__(self, passes: int = 99) -> None:
        self.passes, self.asked = passes, []

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        self.asked.append((work.commit, work.confirmation))
        return Verdict(passed=len(self.asked) <= self.passes, evidence=f"look {len(self.asked)}", duration_s=1)


def judging(place: Place | None = None, says: Says | None = None, confirmations: int = 3) -> Any:
    return CommitJudging(place or Place(), says or Says(), confirmations)  # type: ignore[arg-type]


async def test_it_has_to_pass_every_time_and_its_branch_is_there_before():
    place, says = Place(), Says()

    verdict = await judging(place, says).judge(FEATURE, WORK)

    assert (verdict.passed, verdict.commit, verdict.duration_s) == (True, "commit", 3)
    assert "passed 3 times in a row" in verdict.evidence
    assert says.asked == [("commit", 1), ("commit", 2), ("commit", 3)]
    assert place.published == [("harness/x/a/1", "commit")]


async def test_one_refusal_ends_it_and_says_how_often_it_passed():
    verdict = await judging(says=Says(passes=1)).judge(FEATURE, WORK)

    assert not verdict.passed
    assert verdict.evidence == "look 2\nit passed 1 times before: it does not pass every time"


class SideBySide(Says):
    """May judge at the same time; passes all confirmations but one."""

    side_by_side = True

    async def validate(self, feature: Feature, work: Candidate) -> Verdict:
        self.asked.append((work.commit, work.confirmation))
        return Verdict(passed=work.confirmation != self.passes, evidence=f"look {work.confirmation}", duration_s=1)


async def test_confirmations_side_by_side_are_refused_by_the_first_that_fails_and_begin_after_one_has_passed():
    says = SideBySide(passes=3)
    verdict = await judging(says=says, confirmations=4).judge(FEATURE, WORK)
    assert verdict.evidence == "look 3\nit passed 2 times before: it does not pass every time"
    assert (says.asked[0], len(says.asked)) == (("commit", 1), 4)

    says = SideBySide(passes=1)
    assert not (await judging(says=says).judge(FEATURE, WORK)).passed
    assert says.asked == [("commit", 1)]


async def test_a_blocked_feature_passes_only_by_all_confirmations_of_a_validator_that_looks_at_it():
    says, standing = Says(), Standing(feature_id="a", status=FeatureStatus.BLOCKED, last_failure="it failed")
    verdict = await judging(says=says).judge_blocked(FEATURE, "good", standing)
    assert (verdict.passed, verdict.commit, says.asked) == (True, "good", [("good", 1), ("good", 2), ("good", 3)])
    assert not (await judging(says=Says(passes=1)).judge_blocked(FEATURE, "good", standing)).passed

    same = Says()
    same.depends_on_feature = False
    verdict = await judging(says=same).judge_blocked(FEATURE, "good", standing)
    assert (verdict.passed, same.asked) == (False, [])
    assert verdict.evidence.startswith("it failed\nother work was accepted since")
    accepted = evolve(standing, accepted=WORK)
    assert (await judging(says=same).judge_blocked(FEATURE, "good", accepted)).passed
    assert not (await judging(says=same).judge_blocked(FEATURE, "elsewhere", accepted)).passed
    again = await judging(says=same).judge_blocked(FEATURE, "good", evolve(standing, last_failure=verdict.evidence))
    assert again.evidence == verdict.evidence


@pytest.mark.parametrize(
    ("work", "place", "said"),
    [
        (TurnResult(base="base", stop_reason="the worktree is gone"), Place(), "the worktree is gone"),
        (WORK, Place(lost=True), "no longer exists"),
        (WORK, Place(links={"a": "../../etc"}), "leads out of the repository"),
    ],
)
async def test_what_cannot_be_judged_is_refused_without_asking(work, place, said):
    says = Says()

    verdict = await judging(place, says).judge(FEATURE, work)

    assert not verdict.passed
    assert said in verdict.evidence
    assert says.asked == []


async def test_the_validator_is_asked_before_the_agent_once_for_each_commit():
    says = Says(passes=0)
    judge = judging(says=says)

    seen = [await judge.passes_already(FEATURE, commit) for commit in ("one", "one", "two")]

    assert seen == [False, False, False]
    assert (judge.failure_at(FEATURE, "two"), judge.failure_at(FEATURE, "one")) == ("look 2", "")
    assert [commit for commit, _ in says.asked] == ["one", "two"]
