"""Dangerous actions: done by the harness, once, when a person has approved that very command, for work that is good."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import Ending, LocalRuntime, Waiting
from harnesses.effects.approval import Action
from harnesses.governance import EvidencePolicy, Grade, Guardrails
from harnesses.pipeline import Deed, PipelineHarness, each_stage

from .scripted import Builders, Work, contract, honest, pipeline, stages, statuses, write, write_artifacts

PUBLISH = (sys.executable, "-c", "open('published', 'a').write('x')")
FAILS = (sys.executable, "-c", "print('token=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB'); raise SystemExit(3)")


def with_deed(place: Path, command: tuple[str, ...] = PUBLISH, **options: Any) -> PipelineHarness:
    given = stages("a", "b", "c")
    deed = Deed(category="publish", summary="put it where people find it", command=command)
    return pipeline(place, stages=given, tasks=each_stage(given, deeds={"b": (deed,)}), **options)


def asked(into: list[tuple[str, Action]], answer: bool = True) -> Callable[[str, Action], bool]:
    def approve(key: str, action: Action) -> bool:
        into.append((key, action))
        return answer

    return approve


def told(action: Action) -> dict[str, Any]:
    """Return what the pipeline says of an action that it asks for."""
    return action.arguments.get("action", action.arguments)


async def test_a_deed_is_done_once_it_is_approved_and_the_task_passes(tmp_path: Path) -> None:
    requests: list[tuple[str, Action]] = []
    harness = with_deed(tmp_path / "w")

    assert await harness.run(LocalRuntime("p", approver=asked(requests))) is Ending.COMPLETED
    assert (tmp_path / "w/published").read_text() == "x"
    ((key, action),) = requests
    assert (key, action.category, told(action)["command"]) == ("act b 1 1", "publish", list(PUBLISH))
    assert list(told(action)["files"]) == ["run/artifacts/stages/b/b.json"]


async def test_others_are_worked_before_anybody_is_asked(tmp_path: Path) -> None:
    standing: list[dict[str, str]] = []

    def approve(key: str, action: Action) -> bool:
        standing.append(statuses(harness))
        return True

    harness = with_deed(tmp_path / "w")

    await harness.run(LocalRuntime("p", approver=approve))

    assert standing == [{"a": "PASS", "b": "IN_PROGRESS", "c": "PASS"}]


async def test_a_deed_that_is_denied_is_not_done_and_blocks_its_task_alone(tmp_path: Path) -> None:
    harness = with_deed(tmp_path / "w")

    with pytest.raises(Waiting, match="BLOCKED: b"):
        await harness.run(LocalRuntime("p", approver=asked([], answer=False)))

    assert statuses(harness) == {"a": "PASS", "b": "BLOCKED", "c": "PASS"}
    assert not (tmp_path / "w/published").exists()


async def test_where_nobody_can_be_asked_nothing_is_done(tmp_path: Path) -> None:
    harness = with_deed(tmp_path / "w")

    with pytest.raises(Waiting, match="needs an approval"):
        await harness.run(LocalRuntime("p"))

    assert not (tmp_path / "w/published").exists()


async def test_work_that_is_not_found_good_is_not_published_and_nobody_is_asked(tmp_path: Path) -> None:
    requests: list[tuple[str, Action]] = []
    harness = with_deed(tmp_path / "w", agents=Builders({"b": lambda work: "done, publish it"}))

    with pytest.raises(Waiting):
        await harness.run(LocalRuntime("p", approver=asked(requests)))

    assert requests == []
    assert not (tmp_path / "w/published").exists()


async def test_a_deed_that_fails_is_a_failed_attempt_and_its_output_is_kept_without_secrets(tmp_path: Path) -> None:
    harness = with_deed(tmp_path / "w", FAILS)

    with pytest.raises(Waiting):
        await harness.run(LocalRuntime("p", approver=asked([])))

    said = str([step.output for step in harness.step_history])
    assert statuses(harness)["b"] == "BLOCKED"
    assert "exit code 3" in said
    assert "ghp_" not in said


async def test_what_a_builder_asks_for_is_asked_of_a_person(tmp_path: Path) -> None:
    requests: list[tuple[str, Action]] = []

    def asks(work: Work) -> object:
        action = {"category": "deploy", "summary": "put it to use", "command": list(PUBLISH)}
        return contract(work, write_artifacts(work), actions=[action])

    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": asks}))

    await harness.run(LocalRuntime("p", approver=asked(requests)))

    assert [(action.category, told(action)["command"]) for _, action in requests] == [("deploy", list(PUBLISH))]
    assert statuses(harness) == {"a": "PASS"}


@pytest.mark.parametrize(
    "actions",
    [
        "rm -rf /",
        [{"category": "deploy"}],
        [{"category": "deploy", "summary": "x", "command": "rm -rf /"}],
        [{"category": "", "summary": "x", "command": ["true"]}],
        [{"category": "deploy", "summary": "x", "command": ["true"], "approved": True}],
        [
            {
                "category": "deploy",
                "summary": "x",
                "command": ["curl", "-H", "Authorization: Bearer abcdefghijklmnopqrstuvwxyz0123"],
            }
        ],
        [{"category": "deploy", "summary": "x", "command": ["true"], "limit_s": 1e400}],
        [{"category": "deploy", "summary": "x", "command": ["true"]}] * 11,
    ],
)
async def test_a_request_that_can_not_be_understood_is_a_failed_check(tmp_path: Path, actions: object) -> None:
    requests: list[tuple[str, Action]] = []
    asks = lambda work: contract(work, write_artifacts(work), actions=actions)  # noqa: E731
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": [asks, honest]}, pause_s=0.01))

    await harness.run(LocalRuntime("p", approver=asked(requests)))

    judged = next(step for step in harness.step_history if step.input.kind == "judge")
    assert judged.output.status == "FAIL"
    assert requests == []


async def test_a_gate_is_asked_for_before_the_claim_and_not_in_express_mode(tmp_path: Path) -> None:
    from attrs import evolve

    requests: list[tuple[str, Action]] = []
    given = stages("a")
    gated = tuple(evolve(task, gate="the plan is agreed") for task in each_stage(given))
    for mode in ("interactive", "express"):
        harness = pipeline(tmp_path / mode, stages=given, tasks=gated, mode=mode)
        await harness.run(LocalRuntime("p", approver=asked(requests)))

    assert [(key, action.summary) for key, action in requests] == [("claim a 1", "a: the plan is agreed")]


async def test_a_destructive_task_is_asked_for_in_any_mode_and_has_one_attempt(tmp_path: Path) -> None:
    from attrs import evolve

    requests: list[tuple[str, Action]] = []
    given = stages("a")
    tasks = tuple(evolve(task, destructive=True) for task in each_stage(given))
    harness = pipeline(tmp_path / "w", stages=given, tasks=tasks, mode="express", agents=Builders({"a": lambda work: "no"}))

    with pytest.raises(Waiting):
        await harness.run(LocalRuntime("p", approver=asked(requests)))

    assert [action.category for _, action in requests] == ["broad-delete"]
    assert harness.state.tasks[0].attempts == 1


async def test_guardrails_may_say_that_publishing_needs_nobody(tmp_path: Path) -> None:
    rails = Guardrails(require_user_approval_for_publish_deploy_or_force_push=False)

    assert await with_deed(tmp_path / "w", guardrails=rails).run(LocalRuntime("p")) is Ending.COMPLETED


async def test_a_policy_may_ask_for_evidence_of_the_deed(tmp_path: Path) -> None:
    given = stages("a")
    policy = EvidencePolicy(by_kind={"action": Grade.OBSERVED})
    deed = Deed(category="publish", summary="put it out", command=PUBLISH)
    harness = pipeline(tmp_path / "w", stages=given, tasks=each_stage(given, deeds={"a": (deed,)}), evidence_policy=policy)

    assert await harness.run(LocalRuntime("p", approver=asked([]))) is Ending.COMPLETED


async def test_a_deed_that_changes_what_was_judged_does_not_let_it_pass(tmp_path: Path) -> None:
    changes = (sys.executable, "-c", "open('run/artifacts/stages/b/b.json', 'w').write('{\"said\": \"other\"}')")
    harness = with_deed(tmp_path / "w", changes)

    with pytest.raises(Waiting):
        await harness.run(LocalRuntime("p", approver=asked([])))

    assert statuses(harness)["b"] == "BLOCKED"
    assert "stale" in str(harness.state.tasks[1].failed)


async def test_a_deed_under_way_when_the_attempt_is_cut_off_is_not_done_again_blindly(tmp_path: Path) -> None:
    slow = (sys.executable, "-c", "import time; open('published', 'a').write('x'); time.sleep(60)")
    harness, runtime = with_deed(tmp_path / "w", slow), LocalRuntime("p", approver=asked([]))
    with trio.move_on_after(30) as limit:

        async def watch() -> None:
            while not (tmp_path / "w/published").exists():  # noqa: ASYNC110 - it waits for another process
                await trio.sleep(0.02)
            limit.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await harness.run(runtime)

    with pytest.raises(Waiting, match="unknown outcome"):
        await harness.run(LocalRuntime("p", approver=asked([]), after=runtime))

    assert (tmp_path / "w/published").read_text() == "x"


RELEASE = (sys.executable, "release.py")
OTHER = "open('published', 'a').write('other')"


def releases(work: Work) -> object:
    return contract(work, [*write_artifacts(work), write(work, "release.py", "open('published', 'a').write('good')")])


async def test_content_that_is_changed_while_a_person_thinks_is_not_run(tmp_path: Path) -> None:
    harness = with_deed(tmp_path / "w", RELEASE, agents=Builders({"b": releases}))
    contents: list[str] = []

    def approve(key: str, action: Action) -> bool:
        contents.append(told(action)["content"])
        if len(contents) == 1:
            (tmp_path / "w/release.py").write_text(OTHER)
        return True

    await harness.run(LocalRuntime("p", approver=approve))

    assert (tmp_path / "w/published").read_text() == "good"
    assert (harness.state.tasks[1].set_backs, harness.state.tasks[1].attempts) == (1, 2)
    assert contents[0] == contents[1]


async def test_content_that_is_changed_before_anybody_is_asked_is_built_anew(tmp_path: Path) -> None:
    async def slow(work: Work) -> object:
        await trio.sleep(1.5)
        (tmp_path / "w/release.py").write_text(OTHER)
        return honest(work)

    requests: list[tuple[str, Action]] = []
    harness = with_deed(tmp_path / "w", RELEASE, agents=Builders({"a": slow, "b": releases}, pause_s=0.01))

    await harness.run(LocalRuntime("p", approver=asked(requests)))

    assert [key for key, _ in requests] == ["act b 2 1"]
    assert (tmp_path / "w/published").read_text() == "good"


@pytest.mark.parametrize(
    ("category", "command", "rails"),
    [
        ("publish", ["rm", "-rf", "precious"], Guardrails(require_user_approval_for_publish_deploy_or_force_push=False)),
        ("broad-delete", ["git", "push", "--force"], Guardrails(require_user_approval_for_destructive_actions=False)),
        ("tidy", ["git", "push", "--force"], Guardrails(require_user_approval_for_destructive_actions=False)),
        (
            "tidy",
            ["true"],
            Guardrails(
                require_user_approval_for_destructive_actions=False,
                require_user_approval_for_publish_deploy_or_force_push=False,
            ),
        ),
    ],
)
async def test_what_a_builder_calls_it_does_not_spare_a_person_the_question(
    tmp_path: Path, category: str, command: list[str], rails: Guardrails
) -> None:
    requests: list[tuple[str, Action]] = []
    action = {"category": category, "summary": "tidy up", "command": command}
    asks = lambda work: contract(work, write_artifacts(work), actions=[action])  # noqa: E731
    harness = pipeline(tmp_path / "w", "a", agents=Builders({"a": asks}, pause_s=0.01), guardrails=rails)

    with pytest.raises(Waiting):
        await harness.run(LocalRuntime("p", approver=asked(requests, answer=False)))

    assert [told(one)["command"] for _, one in requests] == [command]
