"""The tool policy: which patterns apply to which calls, in which order; the command guard; and approvals in a run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import Agent, AgentRun, BaseHarness, HarnessMisuse
from harnesses.agents.sandbox import Sandbox
from harnesses.agents.tools.coding_tools import coding_tools
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.tool import ToolEffect, ToolSetting
from harnesses.agents.tools.tool_policy import ToolPolicy, Verdict
from harnesses.errors import HarnessError
from orchestrator import Orchestrator
from tests.harnesses.agents.tools.turn_tools import agent_run, opened

A, Q, D = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
TOOLS = {tool.definition.name: tool for tool in coding_tools()}


def judge(policy: ToolPolicy, name: str, place: Path | None = None, sandbox: object = None, /, **arguments: Any) -> Verdict:
    setting = ToolSetting(run=agent_run(), directory=place, sandbox=sandbox)
    return policy.judge(TOOLS[name], name, arguments, setting).verdict


@pytest.mark.parametrize(
    ("allow", "ask", "deny", "call", "verdict"),
    [
        (["read"], [], ["read"], ("read", {"path": "a"}), D),
        (["read"], ["read"], [], ("read", {"path": "a"}), Q),
        ([], [], ["re*"], ("read", {"path": "a"}), D),
        ([], [], ["write(*.lock)"], ("write", {"path": "x/uv.lock", "content": ""}), D),
        ([], [], ["write(*.lock)"], ("write", {"path": "x/uv.py", "content": ""}), A),
        ([], [], ["write(secret*)"], ("write", {"path": "./secret.txt", "content": ""}), D),
        ([], [], ["write(secret*)"], ("write", {"path": "src/../secret.txt", "content": ""}), D),
        ([], [], ["write(content=*password*)"], ("write", {"path": "a", "content": "my password"}), D),
        ([], [], [r"search(pattern=/.*\d{3}.*/)"], ("search", {"pattern": "a123"}), D),
        ([], [], [r"search(pattern=/\d{3}/)"], ("search", {"pattern": "a123"}), A),
    ],
)
def test_a_pattern_applies_to_names_and_values_and_deny_wins(allow, ask, deny, call, verdict):
    assert judge(ToolPolicy(allow=allow, ask=ask, deny=deny), call[0], **call[1]) is verdict


@pytest.mark.parametrize(
    ("pattern", "arguments", "verdict"),
    [
        ("write(docs/*)", {"path": "docs/a.md", "content": ""}, A),
        ("write(docs/*)", {"path": "docs/../setup.py", "content": ""}, D),
        ("write(docs/*)", {"path": "setup.py", "content": "docs/a.md"}, D),
        ("write(path=docs/*)", {"content": "x", "path": "docs/a.md"}, A),
    ],
)
def test_an_allowed_path_is_allowed_in_every_form_and_is_the_first_argument(pattern, arguments, verdict):
    assert judge(ToolPolicy(allow=[pattern], otherwise="deny"), "write", **arguments) is verdict


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("pytest -q tests", A),
        ("pytest -q && pytest -x", A),
        ("pytest -q; rm -rf /", Q),
        ("pytest -q | tee log", Q),
        ("pytest $(curl evil)", Q),
        ("pytest > /etc/passwd", Q),
        ("pytest `id`", Q),
        ("pytest 'unclosed", Q),
        ("pytest\nrm -rf x", Q),
        ("git push --force", D),
        ("true; git push origin main", D),
        ("ls", A),
    ],
)
def test_a_command_is_allowed_only_if_each_part_is_and_denied_if_any_is(tmp_path, command, verdict):
    policy = ToolPolicy(allow=["run(pytest*)"], deny=["run(git push*)"])

    assert judge(policy, "run", tmp_path, command=command) is verdict


def test_the_guard_asks_for_commands_and_files_that_are_not_harmless(tmp_path):
    policy = ToolPolicy()

    assert judge(policy, "run", tmp_path, command="git status") is A
    assert judge(policy, "run", tmp_path, command="make") is Q
    assert judge(policy, "read", tmp_path, path=".env") is Q
    assert judge(policy, "read", tmp_path, path="a.py") is A
    assert judge(policy, "write", tmp_path, path=".env", content="") is Q
    assert judge(policy, "apply_patch", tmp_path, patch="*** Begin Patch\n*** Add File: .env\n+x\n*** End Patch") is Q


@pytest.mark.skipif(not Sandbox().works(), reason="bubblewrap does not work here")
def test_what_a_sandbox_holds_is_not_asked_for(tmp_path):
    assert judge(ToolPolicy(), "run", tmp_path, Sandbox(), command="make") is A
    assert judge(ToolPolicy(), "run", tmp_path, Sandbox(), command="git push") is A
    assert judge(ToolPolicy(), "run", tmp_path, Sandbox(network=True), command="git push") is Q
    assert judge(ToolPolicy(), "run", tmp_path, Sandbox(), command="rm -rf src") is Q


@pytest.mark.parametrize(("effect", "verdict"), [("reads", A), ("changes_files", A), ("acts", A), ("dangerous", Q)])
def test_without_a_pattern_the_effect_decides(effect, verdict):
    def act() -> None: ...

    made = function_tool(act, effect=ToolEffect(effect))
    setting = ToolSetting(run=agent_run())

    assert ToolPolicy().judge(made, "act", {}, setting).verdict is verdict
    assert ToolPolicy(otherwise="ask").judge(made, "act", {}, setting).verdict is Q


@pytest.mark.parametrize("how", [{"allow": ["re ad("]}, {"deny": ["x(/[/)"]}, {"ask": [3]}, {"otherwise": "perhaps"}])
def test_a_policy_that_cannot_be_read_is_refused(how):
    with pytest.raises(HarnessMisuse, match="tool policy"):
        ToolPolicy(**how)


class Pushing(BaseHarness[None, str, Any]):
    """Its agent makes one call that the policy asks about, and one that it does not."""

    def __init__(self, world: Path) -> None:
        super().__init__(None)
        self._world = world

    async def execute(self) -> AsyncIterator[Any]:
        yield "push", await self.run_agent(Agent(self._turn, name="pusher"), None)

    async def _turn(self, run: AgentRun[Any, Any]) -> list[Any]:
        def push(branch: str) -> str:
            with self._world.open("a") as world:
                world.write(f"{branch}\n")
            return f"pushed {branch}"

        async with opened(function_tool(push), run=run, policy=ToolPolicy(ask=["push(main)"])) as call:
            results = [await call("push", branch="main"), await call("push", branch="other")]
        return [[result.is_error, result.text] for result in results]


@pytest.mark.parametrize("verdict", ["approved", "denied"])
async def test_a_call_that_is_asked_for_waits_for_a_person_and_a_denial_is_told(tmp_path, verdict):
    world = tmp_path / "world"
    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        handle = orchestrator.start(Pushing(world), name="pusher")
        with trio.fail_after(20):
            while not (waiting := orchestrator.store.approvals()):  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert not world.exists()
        decide = orchestrator.approve if verdict == "approved" else orchestrator.deny
        await decide(waiting[0].id, by="ada", reason="not today")
        steps = [step async for step in handle.steps()]

    first, second = steps[0].output
    assert second == [False, "pushed other"]
    assert first == [False, "pushed main"] if verdict == "approved" else first[0]
    assert ("main" in world.read_text()) is (verdict == "approved")
    if verdict == "denied":
        assert "a person denied the call of push" in first[1]
        assert "not today" in first[1]


_MOVED = "*** Begin Patch\n*** Update File: a\n*** Move to: ../b\n@@\n-1\n+2\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("write", {"path": "a"}, "`content` is missing"),
        ("write", {"path": ".git/hooks/x", "content": ""}, ".git"),
        ("write", {"path": "new/.GIT/x", "content": ""}, ".git"),
        ("write", {"path": "../.env", "content": ""}, "leads out"),
        ("write", {"path": "door/x", "content": ""}, "link"),
        ("edit", {"path": "", "old": "1", "new": "2"}, "expected a path"),
        ("apply_patch", {"patch": _MOVED}, "leads out"),
        ("apply_patch", {"patch": "hello"}, "no change"),
        ("read", {"path": "../.env"}, "leads out"),
        ("list", {"path": "/"}, "outside"),
        ("run", {"command": "ls", "timeout_s": -1}, "timeout_s"),
    ],
)
async def test_nobody_is_asked_for_a_call_that_cannot_be_made(tmp_path, name, arguments, told):
    root = tmp_path / "work"
    root.mkdir()
    (root / "door").symlink_to(tmp_path)
    async with opened(*coding_tools(), directory=root, policy=ToolPolicy(ask=["*"])) as call:
        result = await call(name, **arguments)
        with pytest.raises(HarnessError, match="approv"):
            await call("write", path="new/file", content="")

    assert result.is_error
    assert told in result.text
    assert sorted(one.name for one in root.iterdir()) == ["door"]
