"""A misuse is told in one line, with place, cause and remedy: alone, in a program of its own, and by the command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.orchestrator.commanding import Command, Ended

HEAD = """\
import asyncio, time, trio
from attrs import frozen
from harnesses import BaseHarness
from orchestrator import Backoff, Orchestrator

@frozen
class Count:
    total: int = 0

async def work(): pass

"""
WAYS = {
    "alone": 'if __name__ == "__main__":\n    trio.run(Bad().run)\n',
    "program": """\
async def main():
    async with Orchestrator(intensity=0) as orchestrator:
        orchestrator.start(Bad(), name="Bad")

if __name__ == "__main__":
    trio.run(main)
""",
    "script": 'async def supervise(orchestrator):\n    orchestrator.start(Bad(), name="Bad")\n',
    "run file": "",
}
MADE = "    def __init__(self): super().__init__(Count())\n"
BODIES = {
    "forgotten super().__init__": (
        "    def __init__(self): self.x = 1\n    async def execute(self): yield 1, 1\n",
        r"Bad.__init__ \(bad.py:\d+\) has not called BaseHarness.__init__: expected .*; call super\(\).__init__\(",
    ),
    "used before super().__init__": (
        "    def __init__(self):\n        self.current_step\n        super().__init__(Count())\n"
        "    async def execute(self): yield 1, 1\n",
        r"Bad.__init__ \(bad.py:\d+\) has not called BaseHarness.__init__: .*; call super\(\).__init__\(initial_state\) first",
    ),
    "initial state of another type": (
        "    def __init__(self): super().__init__(5)\n    async def execute(self): yield 1, 1\n",
        r"Bad: initial_state: expected Count, as BaseHarness\[…\] says, got 5; pass Count\(…\) \(bad.py:\d+\)",
    ),
    "a class as initial state": (
        "    def __init__(self): super().__init__(Count)\n    async def execute(self): yield 1, 1\n",
        r"initial_state: expected a state, got the class Count; pass Count\(…\), an object of it \(bad.py:\d+\)",
    ),
    "asyncio.sleep": (
        f"{MADE}    async def execute(self):\n        await asyncio.sleep(1)\n        yield 1, 1\n",
        r"harness 'Bad', step 1: execute\(\) called asyncio \(bad.py:\d+\): expected Trio.*; use trio.sleep",
    ),
    "asyncio.Queue": (
        f"{MADE}    async def execute(self):\n        await asyncio.Queue().get()\n        yield 1, 1\n",
        r"harness 'Bad', step 1: execute\(\) called asyncio \(bad.py:\d+\): expected Trio.*; use trio.sleep",
    ),
    "trio.run in execute()": (
        f"{MADE}    async def execute(self):\n        trio.run(work)\n        yield 1, 1\n",
        r"harness 'Bad', step 1: execute\(\) called trio.run \(bad.py:\d+\): expected `await`.*; await the function itself",
    ),
    "forgotten yield": (
        f"{MADE}    async def execute(self):\n        await work()\n",
        r"'Bad', step 1 \(bad.py:\d+\): execute\(\) is not an async generator.* got a coroutine.*; `yield \(input, output\)`",
    ),
    "forgotten async": (
        f"{MADE}    def execute(self):\n        yield 1, 1\n",
        r"harness 'Bad', step 1 \(bad.py:\d+\): .* got a plain generator: write `async def`; `yield",
    ),
    "a state of another type": (
        f"{MADE}    async def execute(self):\n        self.update_state(lambda count: 7)\n        yield 1, 1\n",
        r"harness 'Bad', step 1 \(bad.py:\d+\): update_state: the change returned 7: expected a Count, got int; return",
    ),
    "no state returned": (
        f"{MADE}    async def execute(self):\n        self.update_state(lambda count: None)\n        yield 1, 1\n",
        r"harness 'Bad', step 1 \(bad.py:\d+\): update_state: the change returned None: expected a Count; return the new",
    ),
    "a state for a change": (
        f"{MADE}    async def execute(self):\n        self.update_state(Count(7))\n        yield 1, 1\n",
        r"'Bad', step 1 \(bad.py:\d+\): update_state: expected a function .*, got Count\(total=7\); call self.update_state\(",
    ),
    "a frozen state assigned to": (
        f"{MADE}    async def execute(self):\n        self.state.total = 7\n        yield 1, 1\n",
        r"harness 'Bad', step 1: the state is read-only: .* got Count.total in place \(bad.py:\d+\); call self.update_state",
    ),
    "no pair": (
        f"{MADE}    async def execute(self):\n        yield 1\n",
        r"harness 'Bad', step 1 \(bad.py:15\): execute\(\) yielded 1: expected StepYield.* a pair; `yield \(input, output\)`",
    ),
    "an output that cannot be stored": (
        f"{MADE}    async def execute(self):\n        yield 1, object()\n",
        r"harness 'Bad', step 1 \(bad.py:15\): output cannot be stored: expected .*; convert it before the yield",
    ),
    "is_complete() as a coroutine function": (
        f"{MADE}    async def execute(self): yield 1, 1\n    async def is_complete(self): return True\n",
        r"'Bad', step 2: is_complete\(\) \(bad.py:15\) is a coroutine function: .*; write `def is_complete\(self\)`",
    ),
    "run() in execute()": (
        f"{MADE}    async def execute(self):\n        await self.run()\n        yield 1, 1\n",
        r"'Bad', step 1 \(bad.py:\d+\): run\(\) was called from execute\(\), which it is running; yield the steps instead",
    ),
    "a module that is not installed": (
        f"{MADE}    async def execute(self):\n        import there_is_none\n        yield 1, 1\n",
        r"harness 'Bad', step 1: module 'there_is_none' is not installed \(bad.py:\d+\): expected it in .*; run `pip install`",
    ),
}
CRASH = f"{MADE}    async def execute(self):\n        yield 1, 1 / 0\n"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def run(command: Command, body: str, way: str, *options: str, **environment: str) -> Ended:
    command.write("bad.py", f"{HEAD}class Bad(BaseHarness[Count, int, int]):\n{body}\n{WAYS[way]}")
    if way in ("alone", "program"):
        return command.run("bad.py", **environment)
    file = "bad.py"
    if way == "run file":
        command.write("run.toml", '[[harness]]\nname = "Bad"\nharness = "bad:Bad"\nrestart = "temporary"\n')
        file = "run.toml"
    return command("run", file, "--quiet", *options, **environment)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("misuse", BODIES)
def test_a_misuse_is_told_in_one_line_with_place_cause_and_remedy(command: Command, misuse: str, way: str) -> None:
    body, line = BODIES[misuse]

    ended = run(command, body, way)

    assert len(ended.err.splitlines()) == 1, ended.err
    assert re.search(line, ended.err), ended.err
    assert ended.out == ""


@pytest.mark.parametrize("way", WAYS)
def test_a_traceback_is_shown_where_it_is_asked_for(command: Command, way: str) -> None:
    body, line = BODIES["no pair"]
    environment = {"ORCHESTRATOR_TRACEBACK": "1"} if way in ("alone", "program") else {}
    options = () if environment else ("--traceback",)

    ended = run(command, body, way, *options, **environment)

    assert "Traceback (most recent call last)" in ended.err
    assert re.search(line, ended.err), ended.err


@pytest.mark.parametrize("way", WAYS)
def test_a_crash_keeps_its_traceback(command: Command, way: str) -> None:
    ended = run(command, CRASH, way)

    assert ended.code == 1
    assert "yield 1, 1 / 0" in ended.err
    assert ended.err.rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (
            "asyncio.run(Bad(Count()).run())",
            r"Bad.run\(\) was awaited outside of Trio: expected trio.run.*got asyncio.run",
        ),
        (
            "asyncio.run(main())",
            r"Orchestrator\(…\) was awaited outside of Trio: expected trio.run\(main\), got asyncio.run",
        ),
    ],
)
def test_a_program_run_by_asyncio_is_told_in_one_line(command: Command, main: str, line: str) -> None:
    program = "async def main():\n    async with Orchestrator(): pass\n"
    harness = "class Bad(BaseHarness[Count, int, int]):\n    async def execute(self): yield 1, 1\n"
    command.write("bad.py", f'{HEAD}{harness}{program}if __name__ == "__main__":\n    {main}\n')

    for ended in (command.run("bad.py"), command("run", "bad.py")):
        assert len(ended.err.splitlines()) == 1, ended.err
        assert re.search(rf"orchestrator: {line}.*; write trio.run\(.*\(bad.py:\d+\)", ended.err), ended.err


def test_a_program_that_calls_trio_run_at_its_top_is_a_program(command: Command) -> None:
    harness = f"class Good(BaseHarness[Count, int, int]):\n{MADE}    async def execute(self): yield 1, 1\n"
    main = (
        "async def main():\n    async with Orchestrator() as orchestrator:\n        orchestrator.start(Good(), name='good')\n"
    )
    command.write("good.py", f"{HEAD}{harness}{main}trio.run(main)\nprint('ended')\n")

    ended = command("run", "good.py")

    assert (ended.code, ended.out) == (0, "ended\n")


@pytest.mark.parametrize("way", ["alone", "program", "script"])
@pytest.mark.parametrize(
    ("act", "line"),
    [
        ("time.sleep(1.6)", r"\(time.sleep\): .*; use `await self.sleep\(…\)`, or `await trio.to_thread.run_sync\(…\)`"),
        ("asyncio.run(asyncio.sleep(1.6))", r"\(asyncio.run\): .*; use `await trio.to_thread.run_sync\(asyncio.run, …\)`"),
    ],
)
def test_what_blocks_the_loop_is_named_with_its_line_and_the_remedy(command: Command, act: str, line: str, way: str) -> None:
    ended = run(command, f"{MADE}    async def execute(self):\n        {act}\n        yield 1, 1\n", way)

    assert ended.code == 0
    told = rf"harness 'Bad' has blocked the loop for \d\.\d s at bad.py:\d+ in execute {line}"
    assert re.search(told, ended.err), ended.err


def test_a_run_file_needs_no_state_for_a_harness_without_one(command: Command) -> None:
    command.write("none.py", f"{HEAD}class Stateless(BaseHarness[None, int, int]):\n    async def execute(self): yield 1, 1\n")
    file = command.write("run.toml", '[[harness]]\nname = "a"\nharness = "none:Stateless"\n')

    ended = command("run", file, "--quiet")

    assert (ended.code, ended.err) == (0, "")


def test_doctor_warns_of_a_store_that_the_first_run_will_make(command: Command) -> None:
    command.write("none.py", f"{HEAD}class Stateless(BaseHarness[None, int, int]):\n    async def execute(self): yield 1, 1\n")
    file = command.write("run.toml", '[[harness]]\nname = "a"\nharness = "none:Stateless"\n')

    done = command("doctor", file, "--store", "new.db")

    assert "new.db is not there yet" in done.out
    assert "new.db is not there\n" not in done.out
