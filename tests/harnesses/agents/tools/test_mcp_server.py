"""MCP servers: real ones that others wrote, over stdio and HTTP, in a sandbox and without; and one that misbehaves."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from harnesses.agents.sandbox import Sandbox
from harnesses.agents.tools.function_tool import function_tool
from harnesses.agents.tools.mcp_server import McpServer
from harnesses.agents.tools.tool import ToolEffect
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.errors import BudgetExhausted, HarnessMisuse, NotReady, Stopping
from tests.harnesses.agents.tools.turn_tools import Caller, agent_run, opened
from tests.npm_packages import npm_package
from tests.pypi_packages import pypi_package

ANYTHING = ToolPolicy(allow=["*"])
ODD = Path(__file__).with_name("odd_server.py")
SANDBOX = Sandbox()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    (root / "a.txt").write_text("hello\n")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


def files_server(root: Path) -> McpServer:
    program = npm_package("@modelcontextprotocol/server-filesystem", "2026.8.31") / "dist" / "index.js"
    return McpServer(["node", str(program), str(root)])


def git_server() -> McpServer:
    folder = pypi_package("mcp-server-git", "2026.10.19")
    who = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@localhost",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@localhost",
    }
    return McpServer([sys.executable, "-m", "mcp_server_git"], env={"PYTHONPATH": str(folder), **who}, name="git")


def odd(mode: str, place: Path, **how: object) -> McpServer:
    return McpServer([sys.executable, "-I", str(ODD), mode, str(place / "notes")], name="odd", **how)  # type: ignore[arg-type]


def effects(call: Caller) -> dict[str, ToolEffect]:
    return {tool.definition.name: tool.effect for group in call.box._groups for tool in group}


# real servers


async def test_a_server_for_files_is_used_over_stdio(place):
    async with opened(files_server(place), directory=place, policy=ANYTHING) as call:
        read = await call("read_text_file", path=str(place / "a.txt"))
        outside = await call("read_text_file", path="/etc/passwd")
        wrong = await call("read_text_file", pfad="x")

    assert (read.text, read.is_error) == ("hello\n", False)
    assert outside.is_error
    assert "Access denied" in outside.text
    assert wrong.is_error
    assert "path" in wrong.text


async def test_a_server_for_git_is_used_beside_it_and_names_stay_apart(place):
    def git_add() -> None: ...

    async with opened(files_server(place), git_server(), function_tool(git_add), directory=place, policy=ANYTHING) as call:
        names = {definition.name for definition in call.box.definitions}
        added = await call("git__git_add", repo_path=str(place), files=["a.txt"])
        committed = await call("git_commit", repo_path=str(place), message="first")

    assert {"git_add", "git__git_add", "git_commit", "write_file"} <= names
    assert "Files staged" in added.text
    assert "Changes committed" in committed.text


async def test_the_default_policy_asks_for_what_a_server_does_unless_it_is_trusted_to_read(place):
    async with opened(git_server(), directory=place) as call:
        ruling = call.box._policy.judge(call.box._find("git_status"), "git_status", {}, call.box._setting)  # type: ignore[arg-type]
        distrusted = effects(call)
    trusting = McpServer(git_server().command, env=git_server().env, name="git", trusted=True)
    async with opened(trusting, directory=place) as call:
        status = await call("git_status", repo_path=str(place))

    assert ruling.action is not None
    assert distrusted["git_status"] is ToolEffect.ACTS
    assert distrusted["git_reset"] is ToolEffect.DANGEROUS
    assert "a.txt" in status.text


@pytest.mark.skipif(not SANDBOX.works(), reason="bubblewrap does not work here")
async def test_a_server_in_a_sandbox_needs_no_approval_and_reaches_only_the_directory(place):
    (place.parent / "secret.txt").write_text("secret")
    server = files_server(place)
    wide = McpServer([*server.command, str(place.parent)], name="wide")
    async with opened(wide, directory=place, sandbox=SANDBOX) as call:
        assert set(effects(call).values()) == {ToolEffect.CHANGES_FILES}
        assert not (await call("write_file", path=str(place / "c.txt"), content="unasked")).is_error
    async with opened(wide, directory=place, sandbox=SANDBOX, policy=ANYTHING) as call:
        written = await call("write_file", path=str(place / "b.txt"), content="from a sandbox")
        await call("write_file", path=str(place.parent / "c.txt"), content="escaped")
        hook = await call("write_file", path=str(place / ".git" / "hooks" / "pre-commit"), content="escaped")

    assert not written.is_error
    assert (place / "b.txt").read_text() == "from a sandbox"
    assert hook.is_error
    assert not (place.parent / "c.txt").exists()  # It may have been written to a /tmp of the sandbox.


@pytest.fixture(scope="module")
def http_server() -> Iterator[str]:
    program = npm_package("@modelcontextprotocol/server-everything", "2026.8.31") / "dist" / "index.js"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["node", str(program), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "listening" in line:
            break
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()
    process.stderr.close()


# The SDK leaves generators of its HTTP client to the garbage collector when a stream ends.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
async def test_a_server_is_used_over_http(http_server):
    async with opened(McpServer(url=http_server), policy=ANYTHING) as call:
        echoed = await call("echo", message="across")
        image = await call("get-tiny-image")

    assert echoed.text == "Echo: across"
    assert "[image of type image/png, not shown]" in image.text


async def test_a_server_that_stays_away_blocks_like_one_that_does_not_start():
    server = McpServer(url="http://127.0.0.1:9/mcp", start_timeout_s=3)
    begun = trio.current_time()

    with pytest.raises(
        NotReady, match=r"MCP server '127\.0\.0\.1' cannot be used: expected an answer within 3 s, got .*; start"
    ):
        async with opened(server):
            pass

    assert trio.current_time() - begun > 0.5


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
async def test_a_server_that_comes_back_is_used(http_server):
    refused = list[trio.SocketStream]()

    async def pass_on(stream: trio.SocketStream) -> None:
        if not refused:
            refused.append(stream)
            await stream.aclose()
            return
        there = await trio.open_tcp_stream("127.0.0.1", urlsplit(http_server).port or 0)
        async with stream, there, trio.open_nursery() as both:
            both.start_soon(_pipe, stream, there)
            await _pipe(there, stream)
            both.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, pass_on, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with opened(McpServer(url=f"http://127.0.0.1:{port}/mcp"), policy=ANYTHING) as call:
            echoed = await call("echo", message="back")
        nursery.cancel_scope.cancel()

    assert (echoed.text, len(refused)) == ("Echo: back", 1)


async def _pipe(source: trio.SocketStream, target: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for data in source:
            await target.send_all(data)


# one that misbehaves


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(place):
    async with opened(odd("hangs", place), directory=place, policy=ANYTHING, timeout_s=0.5) as call:
        result = await call("echo", text="a")
        with trio.fail_after(5):
            while "notifications/cancelled" not in (place / "notes").read_text():  # noqa: ASYNC110
                await trio.sleep(0.02)

    assert "took longer than 0.5 s" in result.text


async def test_a_server_that_dies_is_told_and_the_turn_goes_on(place):
    async with opened(odd("dies", place), directory=place, policy=ANYTHING) as call:
        with trio.fail_after(10):
            results = [await call("echo", text="a") for _ in range(2)]

    assert [result.is_error for result in results] == [True, True]
    assert "MCP server 'odd': echo has failed" in results[0].text


@pytest.mark.parametrize("mode", ["plain", "chats", "floods", "shouts"])
async def test_noise_does_no_harm(place, mode):
    lines: list[str] = []
    run = agent_run()
    object.__setattr__(run, "log", lines.append)
    async with opened(odd(mode, place), directory=place, policy=ANYTHING, run=run) as call:
        result = await call("echo", text="still here")

    assert result.text == "still here"
    assert max(map(len, lines), default=0) < 1_000


async def test_a_message_without_end_ends_the_connection(place):
    async with opened(odd("big", place), directory=place, policy=ANYTHING, timeout_s=20) as call:
        result = await call("echo", text="a")

    assert result.is_error
    assert "took longer" not in result.text


async def test_a_server_that_cannot_start_blocks_with_the_last_line_that_it_said(place):
    program = "import sys; print('first', file=sys.stderr); sys.exit('no configuration found')"
    server = McpServer([sys.executable, "-c", program], name="odd")
    with pytest.raises(NotReady, match=r"MCP server 'odd'.*\(no configuration found\)"):
        async with opened(server, directory=place):
            pass


async def test_a_server_that_does_not_answer_is_given_up(place):
    server = odd("mute", place, start_timeout_s=1.0)
    with trio.fail_after(15), pytest.raises(NotReady, match="not answered within 1 s"):
        async with opened(server, directory=place):
            pass


async def test_tools_that_are_not_valid_are_left_out_and_hints_do_not_lower_a_guard(place):
    lines, run = list[str](), agent_run()
    object.__setattr__(run, "log", lines.append)
    async with opened(odd("lies", place), directory=place, policy=ANYTHING, run=run) as call:
        known = effects(call)
        schemas = {definition.name: json.loads(definition.input_schema) for definition in call.box.definitions}
        typed = await call("typed", text="a")
        echo = await call("echo", text="a")

    assert known == {
        "echo": ToolEffect.ACTS, "alternatives": ToolEffect.ACTS, "wipe": ToolEffect.DANGEROUS, "typed": ToolEffect.ACTS,
    }  # fmt: skip
    assert schemas["alternatives"] == {"properties": {}, "type": "object"}
    assert typed.is_error
    left_out = [line for line in lines if "left out" in line]
    for name in ("no schema at all", "no object", "7", "", "deep", "", "\u00e9", "echo", "huge"):
        assert any(f"tool {name!r} is left out" in line for line in left_out), name
    unknown = "which cannot be shown]"
    assert echo.text.splitlines() == [
        f"[content of the kind 'hologram\\x1b[31m', {unknown}", "[image of type image/png, not shown]",
        f"[content of the kind '', {unknown}", "fine",
    ]  # fmt: skip


async def test_a_list_that_does_not_end_is_read_until_it_repeats(place):
    async with opened(odd("turns", place), directory=place, policy=ANYTHING) as call:
        assert [definition.name for definition in call.box.definitions] == ["echo"]


async def test_an_answer_that_is_nested_too_deeply_ends_the_connection(place):
    with trio.fail_after(15), pytest.raises(NotReady, match="odd"):
        async with opened(odd("deep", place), directory=place):
            pass


async def test_an_error_of_a_server_is_told_without_control_characters(place):
    async with opened(odd("scolds", place), directory=place, policy=ANYTHING) as call:
        result = await call("echo", text="a")

    assert result.text.endswith("bad \\x1b[31m")


async def test_a_changed_list_is_followed(place):
    async with opened(odd("grows", place), directory=place, policy=ANYTHING) as call:
        before = len(call.box.definitions)
        await call("echo", text="grow")
        with trio.fail_after(5):
            while len(call.box.definitions) == before:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert (await call("echo2", text="new")).text == "new"


async def test_the_environment_of_a_server_has_no_secrets_but_those_it_is_given(place, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    async with opened(odd("secret", place, env={"ODD_TOKEN": "for-you"}), directory=place, policy=ANYTHING) as call:
        seen = (await call("echo", text="")).text

    assert "sk-not-for-servers" not in seen
    assert "for-you" in seen


@pytest.mark.parametrize("error", [BudgetExhausted("spent"), ValueError("broken"), Stopping()])
async def test_an_error_of_the_turn_passes_as_it_is_and_the_server_is_ended(place, error):
    with pytest.raises(type(error)) as caught:
        async with opened(odd("plain", place), directory=place):
            raise error

    assert caught.value is error


async def test_logging_stays_as_it_was(place):
    before = (list(logging.getLogger().handlers), logging.getLogger().level)
    async with opened(odd("plain", place), directory=place, policy=ANYTHING) as call:
        await call("echo", text="a")
        assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


async def test_a_missing_program_blocks(place):
    with pytest.raises(NotReady, match="no-such-server"):
        async with opened(McpServer(["no-such-server"]), directory=place):
            pass


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["npx", "-y", "@modelcontextprotocol/server-filesystem@1.2", "."], "server-filesystem"),
        (["uvx", "mcp-server-git"], "mcp-server-git"),
        (["/opt/bin/tools", "--all"], "tools"),
        (["python3", "-m", "my_server"], "my_server"),
    ],
)
def test_a_server_is_named_after_what_is_run(words, name):
    assert McpServer(words).name == name


@pytest.mark.parametrize("how", [{}, {"command": ["a"], "url": "http://localhost"}])
def test_a_server_has_a_command_or_a_url(how):
    with pytest.raises(HarnessMisuse, match="a command or a url"):
        McpServer(**how)
