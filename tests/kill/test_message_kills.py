"""G15: killed at any moment, each message of a step is there once, no question is handled twice, and no reply is lost.

A longer run: `python -m tests.kill.test_message_kills 100`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from orchestrator.store import SqliteReader
from orchestrator.store.head import head_path
from orchestrator.store.proof import prove

ROOT = Path(__file__).parents[2]
STEPS = 60


def live(path: Path, seconds: float) -> bool:
    """Run the program for a while, and kill it; return whether it had ended by itself."""
    command = [sys.executable, "-m", "tests.kill.message_child", str(path), str(STEPS)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return False
    assert code == 0
    return True


def kill_often(path: Path, kills: int, chance: random.Random) -> None:
    """Kill the program at random moments, the first ones within its first steps, and let it end at last."""
    for _ in range(kills):
        begin = time.monotonic()
        while not path.exists() and time.monotonic() - begin < 10:
            if live(path, 1.0):
                break
        if live(path, 0.4 + chance.random()):
            break
    assert live(path, 120)


def look(path: Path) -> None:
    """Assert what was promised."""
    with closing(SqliteReader(path)) as store:
        asked = [(step.input, step.output) for step in store.steps("asking", limit=10_000)]
        handled = [step.input for step in store.steps("doubling", limit=10_000)]
        heard = [step.input for step in store.steps("listening", limit=10_000)]
        assert store.replies("asking") == []
        assert store.mailbox("listening") == []
    assert list(prove(path, head_path(path).read_text("utf-8"), deep=True).findings) == []
    assert asked == [(number, 2 * number) for number in range(1, STEPS + 1)]
    assert handled == list(range(1, STEPS + 1))
    assert heard == [2 * number for number in range(1, STEPS + 1)]


def test_messages_survive_kills_at_random_moments_once(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    kill_often(path, 6, random.Random(1))

    look(path)


if __name__ == "__main__":
    import tempfile

    for seed in range(int(sys.argv[1])):
        with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
            kill_often(Path(folder) / "run.db", 10, random.Random(seed))
            look(Path(folder) / "run.db")
