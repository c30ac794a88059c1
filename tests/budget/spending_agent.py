"""A program that spends: run under the name `claude` or `codex`, it speaks as that does, and does what its plan says.

The plan is JSON in `SPEND_PLAN`:

    messages    each is told of with its tokens and one tool call; Codex tells its tokens at the end
    tokens      of each message
    cost        of the turn; Claude Code tells it at the end
    pause_s     after each message
    hangs       whether it never comes to its end

Each message that it has told of is a line in the file `SPEND_TOLD`: process, message, tokens. What Codex tells is the total
of its thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = {
    "messages": 3,
    "tokens": 100,
    "cost": 0.0,
    "pause_s": 0.0,
    "hangs": False,
    **json.loads(os.environ["SPEND_PLAN"]),
}
TOLD = Path(os.environ["SPEND_TOLD"])


def event(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def tell(number: int) -> None:
    with TOLD.open("a") as file:
        file.write(f"{os.getpid()} {number} {PLAN['tokens']}\n")


def work(number: int) -> None:
    Path("right.txt").write_text("right\n")
    Path("one.txt").write_text(f"right {number}\n")
    time.sleep(PLAN["pause_s"])


def claude() -> None:
    session = str(uuid.uuid4())
    event(type="system", subtype="init", session_id=session)
    for number in range(PLAN["messages"]):
        message: dict[str, Any] = {
            "id": f"msg_{os.getpid()}_{number}",
            "content": [{"type": "tool_use", "id": f"call_{os.getpid()}_{number}", "name": "Edit", "input": {"n": number}}],
            "usage": {"input_tokens": 0, "cache_read_input_tokens": PLAN["tokens"] - 10, "output_tokens": 10},
        }
        event(type="assistant", session_id=session, message=message)
        event(type="assistant", session_id=session, message=message)
        tell(number)
        work(number)
    while PLAN["hangs"]:
        time.sleep(60)
    tokens = PLAN["tokens"] * PLAN["messages"]
    usage = {"input_tokens": 0, "cache_read_input_tokens": tokens - 60, "output_tokens": 60}
    event(type="result", subtype="success", result="done", session_id=session, usage=usage, total_cost_usd=PLAN["cost"])


def codex() -> None:
    thread = sys.argv[-2] if sys.argv[-3] == "resume" else str(uuid.uuid4())
    event(type="thread.started", thread_id=thread)
    place = TOLD.with_name(f"thread-{thread}")
    total = int(place.read_text()) if place.exists() else 0
    for number in range(PLAN["messages"]):
        event(type="item.completed", item={"id": f"item_{number}", "type": "command_execution", "command": f"make {number}"})
        total += PLAN["tokens"]
        place.write_text(str(total))
        tell(number)
        work(number)
    while PLAN["hangs"]:
        time.sleep(60)
    usage = {"input_tokens": total - 60, "cached_input_tokens": 20, "output_tokens": 60}
    event(type="turn.completed", usage=usage)


sys.stdin.read()
claude() if Path(sys.argv[0]).name == "claude" else codex()
