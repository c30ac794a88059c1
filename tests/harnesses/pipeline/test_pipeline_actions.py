"""Actions that need approval, with a harness of four lines: it remembers what it was asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from harnesses.effects.approval import Action, Grant
from harnesses.effects.effect import Effect, EffectOutcome
from harnesses.errors import Refused
from harnesses.governance import EvidencePolicy, Guardrails, bind, to_json
from harnesses.pipeline import Deed, PipelineState, each_stage
from harnesses.pipeline.actions import Actions, approval_for, begun_action
from harnesses.pipeline.judging.evidence_entries import entry
from harnesses.pipeline.pipeline_state import StepDraft, TaskRecord, record_of
from harnesses.pipeline.transitions import record_proof

from .scripted import stages
from .states import NOW, A, at_work, claim_of, plan_of, planned, verdict_of

DONE = (sys.executable, "-c", "open('done', 'a').write('x')")
FREE = Guardrails(
    require_user_approval_for_destructive_actions=False, require_user_approval_for_publish_deploy_or_force_push=False
)


class Harness:
    """Does effects at once, if they are approved."""

    def __init__(self, approved: bool = True) -> None:
        self.approved = approved
        self.keys: list[str] = []
        self.actions: list[Action | None] = []

    async def once(self, key: str, function: Callable[..., Any], *args: Any, approval: Action | None = None) -> Any:
        self.keys.append(key)
        self.actions.append(approval)
        if approval is not None and not self.approved:
            raise Refused("not today")
        return await function(*args)

    async def approval(self, key: str, action: Action) -> Grant:
        self.keys.append(key)
        self.actions.append(action)
        if not self.approved:
            raise Refused("not today")
        return Grant(id="1", by="ada")


def deed(command: tuple[str, ...] = DONE, category: str = "publish") -> Deed:
    return Deed(category=category, summary="put it out", command=command)


def actions_of(tmp_path: Path, harness: Harness, *deeds: Deed) -> Actions:
    given = stages("a")
    plan = plan_of(tmp_path, "a", tasks=each_stage(given, deeds={"a": deeds}))
    return Actions(plan, EvidencePolicy(), harness.once, harness.approval, lambda: NOW)


def proven_state(actions: Actions) -> PipelineState:
    """Return the state in which the file `work` was found good."""
    root = actions.plan.workspace
    (root / "work").write_text("good")
    proof = entry(claim_of(A), NOW, "files", True, "fine", subject=bind(root, ["work"]), stage="a")
    return record_proof(at_work(planned(actions.plan), A), A, [proof], to_json(verdict_of(A)), NOW)


def of(draft: StepDraft) -> TaskRecord:
    return record_of(draft.state, A)


async def test_the_last_action_lets_the_task_pass_with_its_evidence(tmp_path: Path) -> None:
    harness = Harness()
    actions = actions_of(tmp_path, harness, deed(), deed())

    first = await actions.act(proven_state(actions), A, 5)
    last = await actions.act(first.state, A, 6)

    assert harness.keys == ["act a 1 1", "act a 1 2"]
    assert (of(first).done, str(of(first).status)) == (1, "IN_PROGRESS")
    assert (str(of(last).status), of(last).passed_step) == ("PASS", 6)
    assert [one.kind for one in of(last).proof] == ["files", "action", "action"]
    assert (tmp_path / "done").read_text() == "xx"


async def test_what_a_person_refuses_is_not_done_and_blocks_the_task(tmp_path: Path) -> None:
    actions = actions_of(tmp_path, Harness(approved=False), deed())

    draft = await actions.act(proven_state(actions), A, 5)

    assert str(of(draft).status) == "BLOCKED"
    assert "not today" in of(draft).note
    assert not (tmp_path / "done").exists()


async def test_what_was_changed_after_it_was_judged_is_not_done_and_set_back(tmp_path: Path) -> None:
    actions = actions_of(tmp_path, Harness(), deed())
    state = proven_state(actions)
    (tmp_path / "work").write_text("other")

    draft = await actions.act(state, A, 5)

    assert (draft.kind, of(draft).set_backs) == ("set_back", 1)
    assert not (tmp_path / "done").exists()


async def test_an_action_that_fails_ends_the_attempt(tmp_path: Path) -> None:
    actions = actions_of(tmp_path, Harness(), deed((sys.executable, "-c", "raise SystemExit(3)")))

    draft = await actions.act(proven_state(actions), A, 5)

    assert str(of(draft).status) == "FAIL"
    assert "exit code 3" in of(draft).failed[0]


async def test_a_person_is_asked_before_a_claim_and_may_say_no(tmp_path: Path) -> None:
    harness = Harness()
    actions = actions_of(tmp_path, harness)
    state = planned(actions.plan)

    granted = await actions.ask_to_start(state, A)
    harness.approved = False
    held = await actions.ask_to_start(state, A)

    assert isinstance(granted, Grant)
    assert isinstance(held, StepDraft)
    assert harness.keys == ["claim a 1", "claim a 1"]
    assert str(of(held).status) == "BLOCKED"


@pytest.mark.parametrize(
    ("category", "command", "rails", "by_author", "asked"),
    [
        ("publish", ("true",), Guardrails(), True, True),
        ("publish", ("true",), FREE, True, False),
        ("tidy", ("true",), FREE, True, False),
        ("tidy", ("true",), FREE, False, True),
        ("publish", ("rm", "-rf", "x"), evolve(FREE, require_user_approval_for_destructive_actions=True), True, True),
    ],
)
def test_a_person_is_asked_by_category_and_by_how_the_command_reads(
    category: str, command: tuple[str, ...], rails: Guardrails, by_author: bool, asked: bool
) -> None:
    action = approval_for(deed(command, category), TaskRecord(id=A), rails, by_author=by_author)

    assert (action is not None) is asked


def test_an_action_that_was_begun_is_taken_up_first(tmp_path: Path) -> None:
    actions = actions_of(tmp_path, Harness(), deed())
    begun, other = (Effect(key, [], EffectOutcome.UNKNOWN) for key in ("act a 1 1", "act a 1 2"))

    assert begun_action(proven_state(actions), [begun]) == A
    assert begun_action(proven_state(actions), [other]) is None
    assert begun_action(planned(actions.plan), [begun]) is None
