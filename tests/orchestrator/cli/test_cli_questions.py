"""The verbs `ask` and `query`: a harness of a running program answers another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.control.socket_places import sockets
from tests.orchestrator.commanding import Command, ended, heads, wait_until


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def test_a_running_harness_is_asked_and_queried_from_outside(command: Command) -> None:
    process = command.start("run", command.run_file("Answering"))
    wait_until(lambda: heads(command.folder / "run.db").get("answering") == 1 and sockets(command.folder / "run.db"))

    asked, text, late, state, unknown, wrong, failed, nobody, big = command.each(
        ["ask", "answering", "21"],
        ["ask", "answering", "21", "--text"],
        ["ask", "answering", "0", "--timeout", "0.2"],
        ["query", "answering", "times", "2", "7"],
        ["query", "answering", "plus"],
        ["query", "answering", "times", "2", "{"],
        ["query", "answering", "times"],
        ["ask", "nobody", "1"],
        ["ask", "answering", "x" * 60_000, "--timeout", "9000"],
    )
    last, gone = command.each(["ask", "answering", "99"], ["query", "answering", "times", "1"])

    assert (asked.code, asked.out) == (0, "42\n")
    assert (text.code, text.out) == (0, '"2121"\n')
    assert (late.code, late.out) == (1, "")
    assert "ask 'answering': expected a reply within 0.2 s, got none" in late.err
    assert (state.code, state.out) == (0, '{"value":7}\n')
    assert (unknown.code, wrong.code, failed.code, nobody.code, big.code) == (2, 2, 1, 2, 2)
    assert "query 'plus' of Answering: expected one of times" in unknown.err
    assert "query of 'answering' failed: TypeError" in failed.err
    assert "no harness 'nobody'" in nobody.err
    assert "timeout_s up to 3600" in big.err
    assert (last.code, last.out) == (0, "198\n")
    assert (gone.code, gone.out) in ((1, ""), (0, '{"value":99}\n'))
    assert ended(process).code == 0


def test_a_question_with_nobody_there_says_so(command: Command) -> None:
    assert command("run", command.run_file("Three")).code == 0

    for verb in (["ask", "three", "1"], ["query", "three", "anything"]):
        done = command(*verb)
        assert (done.code, done.out) == (1, "")
        assert "no program runs on" in done.err
        assert "expected one to answer" in done.err
        assert "Traceback" not in done.err
