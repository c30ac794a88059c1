"""Starts the program and the one that posts beside it, kills both again and again, and says what has become of all."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

from attrs import frozen

from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove
from tests.flood.child import own
from tests.zygote import Program


@frozen
class Tally:
    """What has become of the messages."""

    messages: int
    """On record."""
    sent: int
    """Of them different ones: sender and number."""
    delivered: int
    """In recorded steps."""
    in_order: bool
    """Whether the steps of each receiver have its messages in the order of the store, each once, as it was sent."""
    kills: int
    crashes: int

    def __str__(self) -> str:
        order = "each once and in order" if self.in_order else "NOT each once and in order"
        return (
            f"{self.messages:,} messages, {self.delivered:,} delivered, {order}; {self.kills} kills, {self.crashes:,} crashes"
        )


def flood(path: Path, *, count: int, senders: int, kills: int, chance: float = 0.01, every_s: float = 2.0) -> Tally:
    """Have `count` messages sent by `senders`, and both programs killed up to `kills` times; return what was found."""
    each = count // senders
    outside = own(senders).stop
    # The receivers exist before anybody writes to them.
    program, beside = _start(path, senders, each, chance), None
    died = 0
    while (code := program.poll()) is None or code < 0:
        if code is not None:
            program = _start(path, senders, each, chance)
        if (beside is None or beside.returncode not in (None, 0)) and _has_ears(path):
            beside = _start(path, f"{outside}-{senders}", each)
        if beside is not None:
            beside.poll()
        with suppress(subprocess.TimeoutExpired):
            program.wait(every_s * random.uniform(0.2, 1.8))
        if died < kills and program.poll() is None:
            died += 1
            for one in (program, *([beside] if beside is not None and random.random() < 0.3 else [])):
                one.send_signal(signal.SIGKILL)
                one.wait()
    assert program.returncode == 0, f"the program ended with {program.returncode}"
    assert beside is not None
    assert beside.wait() == 0
    return _count(path, died)


def _start(path: Path, *args: object) -> subprocess.Popen[bytes]:
    return Program(["-m", "tests.flood.child", str(path), *(str(arg) for arg in args)])


def _has_ears(path: Path) -> bool:
    for _ in range(200):
        with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as db:
            if db.execute("SELECT count(*) FROM harnesses WHERE name LIKE 'ear%'").fetchone()[0] == 4:
                return True
        time.sleep(0.05)
    return False


def _count(path: Path, kills: int) -> Tally:
    with closing(sqlite3.connect(path)) as db:
        messages, sent = db.execute("SELECT count(*), count(DISTINCT body) FROM mailbox").fetchone()
        (crashes,) = db.execute("SELECT count(*) FROM records WHERE kind = 'failed'").fetchone()
        in_order, delivered = True, 0
        for (ear,) in db.execute("SELECT id FROM harnesses WHERE name LIKE 'ear%'").fetchall():
            posted = db.execute("SELECT seq, body, consumed_step FROM mailbox WHERE harness = ? ORDER BY seq", (ear,))
            for step, text in db.execute(
                "SELECT step, body FROM records WHERE harness = ? AND kind = 'step' ORDER BY step", (ear,)
            ):
                body = json.loads(text)
                for seq, message in zip(body["consumed"], body["input"], strict=True):
                    delivered += 1
                    expected = posted.fetchone()
                    in_order &= expected is not None and (seq, message, step) == (
                        expected[0], json.loads(expected[1]), expected[2]
                    )  # fmt: skip
            in_order &= posted.fetchone() is None
    findings = prove(path, head_path(path).read_text(), deep=True).findings
    assert not findings, findings
    return Tally(messages, sent, delivered, in_order, kills, crashes)
