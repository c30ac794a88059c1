"""Lives of the program that takes a turn with three tool calls: killed or stopped at one moment, and gone on with to its end.

At the end of all lives: no tool has acted twice, as its own file says; no model call that was on record was sent again, as
the model server says; the answer, the file, the transcript and its usage are those of a program that was not killed; and the
budget is charged for one turn, for each tool call and model call, and for at most one model call that was cut off, in full.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from harnesses.agents.model.transcript import as_record
from harnesses.budgets.budget import Spend
from harnesses.effects.effect import EffectOutcome
from orchestrator import StoreUnusable, UnknownHarness
from orchestrator.history import transcripts
from orchestrator.store import SqliteReader
from tests.kill.turn_child import TASK
from tests.model_server import ModelServer
from tests.zygote import run_python

from .calls import tampered
from .lives import ROOT, assert_sound

MOMENTS = ("commit-before", "commit-after", "request", "piece", "answer", "tool", "acted")
MOST_TOKENS, MOST_MONEY = 10_000, Decimal("0.02")
"""What is reserved for a model call at most: 8,192 tokens of output, and the conversation."""
_LONGEST_S = 60.0
_GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


@frozen
class World:
    """What is left when the turn is done."""

    text: str
    file: str
    messages: str
    usage: tuple[int, ...]
    spent: Spend
    """What its budget was charged."""


@frozen
class Way:
    """How a program is ended, and the harness that takes the turn."""

    name: str
    option: str
    harness: tuple[str, ...] = ()


KILL = Way("kill", "--kill")
WAYS = (
    KILL,
    Way("stop", "--stop"),
    Way("kill features", "--kill", ("--features",)),
    Way("stop features", "--stop", ("--features",)),
)


def prepare(server: ModelServer) -> None:
    """Have the server answer with two calls, then one, then a text."""
    server.reset()
    both = [_call("note", "one", "c1"), _call("append", "two", "c2")]
    turns: list[dict[str, Any]] = [
        {"toolCalls": both},
        {"toolCalls": [_call("append", "three", "c3")]},
        {"content": "All done."},
    ]
    for index, response in enumerate(turns):
        server.reply({"userMessage": TASK, "turnIndex": index}, response, chunkSize=4)


def _call(name: str, text: str, id: str) -> dict[str, Any]:
    return {"id": id, "name": name, "arguments": {"text": text}}


def live(folder: Path, server: ModelServer, *how: str, before: list[str] | None = None) -> bool:
    """Let the program live once; return whether it was killed or stopped."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    if not (folder / "work" / ".git").exists():
        subprocess.run(["git", "init", "-q", "work"], cwd=folder, check=True, env={**os.environ, **_GIT})
    arguments = ["-m", "tests.kill.turn_child", str(folder), "--url", server.openai_url, *how]
    env = {**os.environ, "XDG_STATE_HOME": str(folder)}
    with (folder / "errors").open("wb") as errors:
        if before is None:
            code: int = run_python(*arguments, cwd=ROOT, env=env, stdout=errors, stderr=errors, timeout=_LONGEST_S).returncode
        else:
            command = [*before, sys.executable, *arguments]
            done = subprocess.run(command, cwd=ROOT, env=env, stdout=errors, stderr=errors, timeout=_LONGEST_S, check=False)
            code = done.returncode
    killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert killed or code == 0, f"the program ended with code {code}:\n{(folder / 'errors').read_text()[-4000:]}"
    return killed or bool(json.loads((folder / "counts.json").read_text()).get("ended"))


def finished_rounds(folder: Path) -> set[int]:
    """Return the numbers of the model calls that are on record for the step in progress."""
    try:
        with closing(SqliteReader(folder / "run.db")) as reader:
            effects = reader.effects("acting", current=True)
    except (StoreUnusable, UnknownHarness):
        return set()
    keys = [effect.key.split("/") for effect in effects if effect.outcome is EffectOutcome.CONFIRMED]
    return {int(parts[2]) for parts in keys if parts[1:2] == ["round"] and len(parts) == 3}


def rounds_sent(server: ModelServer) -> Counter[int]:
    """Return how often each round was asked for, as the server saw it; a request that was cut off has no body."""
    bodies = [json.loads(one["body"]) if isinstance(one["body"], str) else one["body"] for one in server.requests()]
    return Counter(1 + sum(message["role"] == "assistant" for message in body["messages"]) for body in bodies if body)


def world(folder: Path) -> World:
    """Return what is left."""
    assert_sound(folder / "run.db")
    with closing(SqliteReader(folder / "run.db")) as reader:
        *_, step = reader.steps("acting")
        # Of a turn whose program was killed between its end and its step, the effects are left.
        (shown,) = transcripts(reader, "acting", step.step_number)
        assert shown.is_recorded or "result" in step.output
        turn = as_record(shown.transcript)
        spent = reader.accounts(["harness/acting"])["harness/acting"].spent
    usage = tuple(int(turn.get(name, 0)) for name in ("model_calls", "tool_calls", "input_tokens", "output_tokens"))
    said = json.dumps([{**message, "text": message.get("text", "")} for message in turn["messages"]])
    file = folder / "work" / "file.txt"
    text = step.output.get("text") or step.output["result"]["message"]
    return World(text, file.read_text(), said, usage, spent)


def ended_once(
    folder: Path, server: ModelServer, wanted: World, how: Way, moment: str = "", *, before: list[str] | None = None
) -> bool:
    """Kill or stop a program at one moment, have the next one finish the turn, and assert what has to hold.

    Returns:
        Whether it was ended; if it passed by fewer such moments, it came to its end.
    """
    prepare(server)
    kill, *where = f"{how.name} {moment}", *how.harness
    killed = live(folder, server, *([how.option, moment] if moment else []), *where, before=before)
    known, sent = finished_rounds(folder), rounds_sent(server)
    if killed:
        assert not live(folder, server, *where)
    again = rounds_sent(server) - sent
    assert not known & set(again), f"{kill}: rounds {known} were on record, and {sorted(again)} were sent after that"
    assert max(rounds_sent(server).values()) <= 2
    acts = (folder / "acts").read_text().splitlines() if (folder / "acts").exists() else []
    found = world(folder)
    assert found.file == wanted.file, f"{kill}: the file is {found.file!r}"
    assert found.text == wanted.text
    if "may have happened" in found.messages or "may have been" in found.messages:
        # Cut off in the midst of an act: the model is told so, and it is not repeated.
        assert acts in ([], ["one"])
        return killed
    assert acts == ["one"], f"{kill}: it acted as {acts}"
    if "which will be repeated" in found.messages:
        # Ended before anything of the turn was on record: the new try is told that there was one.
        return killed
    check_spent(found.spent, wanted.spent, kill)
    assert evolve(found, spent=wanted.spent) == wanted, f"{kill}: expected {wanted}, got {found}"
    return killed


def check_spent(spent: Spend, wanted: Spend, kill: str) -> None:
    """Check what the budget was charged: a model call that was cut off is charged by its reservation."""
    assert (wanted.turns, wanted.tool_calls) == (1, 3)
    assert (spent.turns, spent.tool_calls) == (1, 3), f"{kill}: {spent}"
    for name, most in (("tokens", MOST_TOKENS), ("money", MOST_MONEY)):
        extra = getattr(spent, name) - getattr(wanted, name)
        assert 0 <= extra <= most, f"{kill}: {name}: charged {extra} too much, of at most {most}"


def uninterrupted(folder: Path, server: ModelServer, how: Way = KILL) -> tuple[World, dict[str, int]]:
    """Return what a program leaves that is not ended, and how many moments of each kind it passes by."""
    prepare(server)
    assert not live(folder, server, *how.harness)
    return world(folder), json.loads((folder / "counts.json").read_text())


def tampering(calls: str, number: int) -> list[str]:
    """Return a command that kills another one at its n-th system call of a kind."""
    return tampered(calls, f"signal=KILL:when={number}")
