"""A command runs at the highest level that holds here, never below the one demanded; the level is recorded. Real programs."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import pytest
import trio

from harnesses import BaseHarness
from harnesses.agents import AgentMissing, CommandAgent
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.sandbox import Level, Sandbox, run_sandboxed, sandboxed
from harnesses.agents.sandbox import sandboxed_run as running
from harnesses.errors import HarnessMisuse, NotReady
from harnesses.processes.bounded_command import Ran
from harnesses.run_file_harnesses.coding_parts import read_agent
from harnesses.run_file_harnesses.table_arguments import TableProblems
from orchestrator import MemoryStore, Orchestrator, OutcomeKind
from tests.harnesses.agents.attacks import PYTHON
from tests.harnesses.agents.chat.scripted_model import says, scripted
from tests.harnesses.agents.turns import assigned, take_turn

ABSENT = "no-bubblewrap"
LEVELS = [
    pytest.param(level, program, marks=pytest.mark.skipif(not works, reason=f"{level} does not hold on this machine"))
    for level, program, works in (
        (Level.BUBBLEWRAP, "bwrap", Sandbox().works()),
        (Level.LANDLOCK, ABSENT, Sandbox(level="landlock", program=ABSENT).works()),
    )
]
each_level = pytest.mark.parametrize(("level", "program"), LEVELS)


async def ran(sandbox: Sandbox, folder: Path, *command: str, **how: object) -> Ran:
    """Run a command in a sandbox."""
    return (await run_sandboxed(partial(sandboxed, command, folder, sandbox, **how), limit_s=30, cwd=folder))[0]  # type: ignore[arg-type]


@each_level
async def test_the_highest_level_is_used_and_recorded(level: Level, program: str, tmp_path: Path) -> None:
    log: list[str] = []
    agent = CommandAgent(["true"], sandbox=Sandbox(level="landlock", program=program))

    result = await take_turn(agent, assigned(tmp_path), log)

    assert result.sandbox == f"{level}, no network"
    assert log == [f"[sandbox: {level}, no network]"]


async def test_nothing_starts_below_the_level_that_is_demanded(tmp_path: Path) -> None:
    agent = CommandAgent(["touch", "ran"], sandbox=Sandbox(level="bubblewrap", program=ABSENT))

    with pytest.raises(NotReady, match="expected the package bubblewrap; install it"):
        await take_turn(agent, assigned(tmp_path))

    assert os.listdir(tmp_path) == []


class Asking(BaseHarness[int, int, int]):
    """Asks an agent in its one step."""

    def __init__(self, agent: CommandAgent, folder: Path) -> None:
        super().__init__(0)
        self._agent, self._folder = agent, folder

    async def execute(self):
        await take_turn(self._agent, assigned(self._folder))
        yield 1, 1


async def test_a_harness_whose_level_is_not_reached_is_blocked_with_the_remedy(tmp_path: Path) -> None:
    agent = CommandAgent(["true"], sandbox=Sandbox(program=ABSENT))

    async with Orchestrator(MemoryStore()) as orchestrator:
        outcome = await orchestrator.start(Asking(agent, tmp_path), name="asking").wait()

    assert outcome.kind is OutcomeKind.BLOCKED
    assert "expected the package bubblewrap; install it" in str(outcome.cause)


def test_a_run_file_describes_a_sandbox() -> None:
    table = {
        "level": "landlock",
        "network": ["pypi.org:443"],
        "memory_bytes": 1_000_000,
        "cpu_s": False,
        "hidden": ["secrets"],
    }
    problems = TableProblems("run.toml", beside=Path("/srv"))

    agent = read_agent({"command": ["agent"], "sandbox": table}, "agent", problems)

    assert problems.found == []
    assert isinstance(agent, CommandAgent)
    limits = {"memory_bytes": 1_000_000, "cpu_s": None}
    assert agent._sandbox == Sandbox(level="landlock", network=["pypi.org:443"], hidden=["/srv/secrets"], **limits)


@pytest.mark.parametrize(
    ("sandbox", "said"),
    [
        ({"level": "high"}, "level: expected one of none, landlock, bubblewrap, was 'high'"),
        ({"network": ["a b"]}, "network: expected hosts such as pypi.org:443"),
        ({"network": 5}, "network: expected true or false or a list, was 5"),
        ({"processes": 0}, "processes: expected a whole number from 1 up, or None, got 0"),
        ({"cpu_s": True}, "cpu_s: expected a whole number, was True"),
        ({"program": "sh"}, "unknown key 'program'"),
        ("bwarp", "expected bwrap or a table, was 'bwarp'"),
    ],
)
def test_what_is_wrong_in_a_run_file_is_told_by_its_key(sandbox: object, said: str) -> None:
    problems = TableProblems("run.toml")

    assert read_agent({"command": ["agent"], "sandbox": sandbox}, "agent", problems) is None
    assert said in "".join(problems.found)


@each_level
async def test_a_program_that_is_missing_within_a_sandbox_is_told_as_missing(
    level: Level, program: str, tmp_path: Path
) -> None:
    with pytest.raises(AgentMissing, match="no-such-agent"):
        await take_turn(
            CommandAgent(["no-such-agent"], sandbox=Sandbox(level="landlock", program=program)), assigned(tmp_path)
        )


async def test_without_any_level_secrets_are_removed_all_the_same(tmp_path: Path) -> None:
    sandbox = Sandbox(level="none", program=ABSENT)
    around = {"PATH": "/usr/bin:/bin", "MY_API_KEY": "n0-s3cret-4t-all", "HARMLESS": "seen"}

    shown = await ran(sandbox, tmp_path, "env", environment=around, added={"GIVEN_KEY": "g1ven-s3cret-k3y"})

    assert "n0-s3cret" not in shown.tail
    assert "seen" in shown.tail
    assert "g1ven" in shown.tail


@each_level
@pytest.mark.parametrize(
    ("limits", "program_text", "expected"),
    [
        ({"memory_bytes": 64 << 20}, "bytearray(80 << 20)", "MemoryError"),
        ({"cpu_s": 1}, "while True: pass", None),
        ({"open_files": 20}, "[os.dup(0) for _ in range(30)]", "Too many open files"),
        (
            {"file_bytes": 1_000},
            "file = open('large', 'wb', 0); file.write(bytes(1_000)); file.write(b'x')",
            "File too large",
        ),
    ],
    ids=["memory", "processor time", "open files", "file size"],
)
async def test_limits_hold(
    level: Level, program: str, limits: dict[str, int], program_text: str, expected: str | None, tmp_path: Path
) -> None:
    sandbox = Sandbox(level="landlock", program=program, **limits)  # type: ignore[arg-type]

    ended = await ran(sandbox, tmp_path, PYTHON, "-I", "-S", "-c", f"import os\n{program_text}")

    assert ended.code in ((1,) if expected else (-9, 137))
    assert (expected or "") in ended.tail


@each_level
async def test_the_temporary_directory_is_private_and_removed(level: Level, program: str, tmp_path: Path) -> None:
    shown = await ran(Sandbox(level="landlock", program=program), tmp_path, "sh", "-c", 'mktemp "$TMPDIR/made-XXXXXXXXXX"')

    assert shown.code == 0, shown
    assert not os.path.lexists(shown.tail.strip())  # noqa: ASYNC240


@each_level
async def test_only_allowed_hosts_are_reached_and_others_are_told(level: Level, program: str, tmp_path: Path) -> None:
    log: list[str] = []

    async def answer(client: trio.SocketStream) -> None:
        await client.receive_some()
        await client.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await client.aclose()

    fetch = (
        "import sys, urllib.request as get\n"
        "for url in sys.argv[1:]:\n"
        "    try: print(get.urlopen(url, timeout=10).read().decode())\n"
        "    except Exception as error: print(error)\n"
    )
    async with trio.open_nursery() as nursery:
        served = [await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1")) for _ in range(2)]
        allowed, other = (listeners[0].socket.getsockname()[1] for listeners in served)
        sandbox = Sandbox(level="landlock", program=program, network=[f"localhost:{allowed}"])
        urls = [f"http://localhost:{port}/" for port in (allowed, other)]
        shown = await ran(sandbox, tmp_path, PYTHON, "-I", "-S", "-c", fetch, *urls, log=log.append)
        nursery.cancel_scope.cancel()

    assert shown.tail.splitlines() == ["hello", "HTTP Error 403: Forbidden"]
    assert log == [
        f"[sandbox: {level}, network localhost:{allowed}]",
        f"[sandbox: localhost:{other} refused: not in the allowed hosts]",
    ]


async def test_an_error_within_the_block_is_raised_as_it_is(tmp_path: Path) -> None:
    sandbox = Sandbox(level="none", network=["localhost:1"])

    with pytest.raises(ValueError, match="mine"):
        async with sandboxed(["true"], tmp_path, sandbox):
            raise ValueError("mine")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"level": "high"}, "level: expected one of none, landlock, bubblewrap, got 'high'"),
        ({"network": ["not a host"]}, "network: expected hosts such as"),
        ({"processes": 0}, "processes: expected a whole number from 1 up, or None, got 0"),
        ({"memory_bytes": True}, "memory_bytes: expected a whole number from 1 up, or None, got True"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(HarnessMisuse, match=re.escape(said)):
        Sandbox(**wrong)  # type: ignore[arg-type]


async def test_a_command_whose_mask_has_lost_its_place_is_started_again(tmp_path: Path) -> None:
    """The text is what bubblewrap prints if a Unix socket is gone; the first try prints it, the second one runs."""
    gone = f"bwrap: Can't mkdir parents for {tmp_path}/gone.sock: Read-only file system"
    script = f'[ -e tried ] && echo ran && exit; touch tried; echo "{gone}" >&2; exit 1'

    ended = await ran(Sandbox(level="none"), tmp_path, "sh", "-c", script)

    assert (ended.code, ended.tail) == (0, "ran\n")


@pytest.mark.parametrize("path", ["{}/kept.sock", "{}/other text"])
async def test_a_command_that_has_run_is_not_started_again(tmp_path: Path, path: str) -> None:
    (tmp_path / "kept.sock").touch()
    text = f"bwrap: Can't mkdir parents for {path.format(tmp_path)}: Read-only file system\\nmore"
    script = f'echo x >> tried; printf "{text}" >&2; exit 1'

    ended = await ran(Sandbox(level="none"), tmp_path, "sh", "-c", script)

    assert ended.code == 1
    assert (tmp_path / "tried").read_text() == "x\n"
    assert running._TRIES > 1


async def test_no_turn_of_a_model_agent_begins_below_the_level_that_is_demanded(tmp_path: Path) -> None:
    provider = scripted(says("done"))
    agents = [ModelAgent(provider.client(), sandbox=Sandbox(level=level, program=ABSENT)) for level in ("bubblewrap", "none")]
    below, above = agents

    with pytest.raises(AgentMissing, match="expected the package bubblewrap; install it"):
        await take_turn(below, assigned(tmp_path))
    assert provider.requests == []

    assert (await take_turn(above, assigned(tmp_path))).sandbox == Sandbox(program=ABSENT).describe()
