"""Arguments that an attacker writes: nothing that is denied or needs approval is shown or changed, in whatever spelling."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harnesses.agents.tools import path_forms
from harnesses.agents.tools.coding_tools import coding_tools
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.tool import ToolEffect, ToolSetting
from harnesses.agents.tools.tool_policy import ToolPolicy, Verdict
from harnesses.errors import HarnessError
from tests.harnesses.agents.tools.turn_tools import agent_run, opened

MARK = "key-4711"
POLICY = ToolPolicy(deny=["*(secret/*)"], ask=["*(deploy/*)"])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for path in ("secret/x", "secret/in/y", ".env", "app/.env.local", ".ssh/id_rsa", "deploy/go", "server.pem"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{MARK}\n")
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("plain\n")
    for link, target in (("door", "secret"), ("note", ".env"), ("src/back", "../secret/in"), ("up", "src/deep")):
        (root / link).symlink_to(target)
    (root / ".gitignore").write_text(".env\nsecret/\n")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


def patch(text: str) -> dict[str, Any]:
    return {"patch": f"*** Begin Patch\n{text}\n*** End Patch"}


READS = ["secret/x", "./secret/x", "secret//x", "src/../secret/x", "{root}/secret/x", "{root}//secret/./x", "door/x"]
READS += ["src/back/y", "src/back/../x", "{root}/door/x", "up/../../secret/x", "secret/in/../x", "secret/x/", "secret/x/."]
READS += [".env", "./.env", "{root}/.env", "note", "src/../note", "app/.env.local", ".ssh/id_rsa", "deploy/go", "server.pem"]
SEARCHES: list[dict[str, Any]] = [{}, {"path": "."}, {"path": "secret"}, {"path": "door"}, {"path": "secret/x"}]
SEARCHES += [{"path": ".env"}, {"path": "note"}, {"path": "{root}"}, {"path": "{root}/.env"}, {"path": "src/back"}]
SEARCHES += [{"glob": glob} for glob in (".env", ".env*", "*", "**/*", "secret/**", "!src", "{.env,x}", "[.]env", "../*", "x")]
CALLS = [
    *(("read", {"path": path}) for path in READS),
    *(("search", {"pattern": ".", **how}) for how in SEARCHES),
    *(("edit", {"path": path, "old": "zzz key", "new": ""}) for path in ("secret/x", "{root}/secret/x", ".env", "note")),
    *(("write", {"path": path, "content": "changed"}) for path in ("{root}/secret/x", "door/x", "note", "up/../../secret/x")),
    ("write", {"content": "src/a.py", "path": "secret/x"}),
    ("apply_patch", patch("*** Update File: secret/x\n@@\n-wrong\n+changed")),
    ("apply_patch", patch("*** Update File: {root}/door/x\n@@\n-wrong\n+changed")),
    ("apply_patch", patch("*** Update File: .env\n*** Move to: src/b.py")),
    ("apply_patch", patch("*** Update File: note\n@@\n-key\n+changed")),
    ("apply_patch", patch("*** Update File: src/a.py\n*** Move to: secret/new\n@@\n-plain\n+changed")),
    ("apply_patch", {"patch": f"--- a/src/../secret/x\n+++ b/secret/x\n@@ -1 +1 @@\n-{MARK}\n+changed\n"}),
    ("apply_patch", patch("*** Delete File: secret/./x")),
    *(("list", {"path": path, "depth": 3}) for path in (".", "{root}", "secret", "door", "src/back", "secret/in/..")),
]


def filled(value: Any, root: Path) -> Any:
    return value.replace("{root}", str(root)) if isinstance(value, str) else value


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CALLS)])
async def test_no_spelling_of_a_call_shows_or_changes_what_is_kept_back(place, name, arguments):
    before = contents(place)
    async with opened(*coding_tools(), directory=place, policy=POLICY) as call:
        try:
            text = (await call(name, **{key: filled(value, place) for key, value in arguments.items()})).text
        except HarnessError as error:  # It needs approval, and nobody is there to ask.
            text = str(error)

    assert MARK not in text
    assert not {"secret/", "x", "y", ".env", ".ssh/", "app/.env.local", "deploy/go", "server.pem"} & set(text.split("\n"))
    assert contents(place) == before


def contents(root: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in root.rglob("*") if path.is_file() and ".git" not in path.parts}


async def test_what_is_left_is_found_and_listed(place):
    async with opened(*coding_tools(), directory=place, policy=POLICY) as call:
        found = await call("search", pattern="plain", glob="*.py")
        listed = await call("list", depth=2)

    assert found.text == "src/a.py:1:plain"
    assert {"src/", "src/a.py", "door@"} <= set(listed.text.split("\n"))


async def test_a_policy_that_allows_a_path_has_it_searched(place):
    async with opened(*coding_tools(), directory=place, policy=ToolPolicy(allow=["search(path=.env)"])) as call:
        found = await call("search", pattern="key", path=".env")

    assert found.text == f".env:1:{MARK}"


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
async def test_a_glob_does_not_override_gitignore(place):
    (place / "built.log").write_text("plain\n")
    (place / ".gitignore").write_text("*.log\n")
    async with opened(*coding_tools(), directory=place) as call:
        found = await call("search", pattern="plain", glob="*.log")

    assert found.text == "nothing matches"


@pytest.mark.parametrize("path", ["SECRET/x", "Secret/new", "{root}/sEcret/x"])
def test_case_does_not_matter_where_the_file_system_ignores_it(place, monkeypatch, path):
    monkeypatch.setattr(path_forms, "_ignores_case", lambda path: True)
    read = coding_tools()[0]
    setting = ToolSetting(run=agent_run(), directory=place)

    assert POLICY.judge(read, "read", {"path": filled(path, place)}, setting).verdict is Verdict.DENY


@pytest.mark.parametrize("paths", [None, ["source", "target"], lambda arguments: arguments["target"]])
def test_any_tool_declares_its_paths(place, paths):
    def move(source: str, target: list[str]) -> None: ...

    tool = function_tool(move, effect=ToolEffect.CHANGES_FILES, paths=paths)
    setting = ToolSetting(run=agent_run(), directory=place)
    given = {"source": "a", "target": ["b", f"{place}/door/x"]}

    assert POLICY.judge(tool, "move", given, setting).verdict is Verdict.DENY
    assert ToolPolicy(deny=["move(target=secret/x)"]).judge(tool, "move", given, setting).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("pattern", "name", "arguments", "is_allowed"),
    [
        ("write(src/*)", "write", {"content": "src/a.py", "path": "setup.py"}, False),
        ("write(src/*)", "write", {"content": "", "path": "{root}/src/a.py"}, True),
        ("write(src/*)", "write", {"path": "src/back/y", "content": ""}, False),
        ("apply_patch(src/*)", "apply_patch", patch("*** Update File: src/a.py\n@@\n-plain\n+x"), True),
        ("apply_patch(src/*)", "apply_patch", patch("*** Update File: src/a.py\n*** Move to: setup.py"), False),
    ],
)
def test_a_path_is_allowed_only_if_the_file_itself_is(place, pattern, name, arguments, is_allowed):
    tool = next(one for one in coding_tools() if one.definition.name == name)
    setting = ToolSetting(run=agent_run(), directory=place)
    given = {key: filled(value, place) for key, value in arguments.items()}
    policy = ToolPolicy(allow=[pattern], otherwise="deny")

    assert (policy.judge(tool, name, given, setting).verdict is Verdict.ALLOW) is is_allowed
