"""What goes on beside the program that is killed: another process verifies, prunes, forks, exports, asks and orders.

python -m tests.kill.beside STORE --seed 7

Each act is a verb of the command, run as its users run it. What it says goes to standard output as JSON, a line for each act.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from orchestrator.cli import main as command
from tests import ROOT
from tests.zygote import Program

from .workload import KINDS

_FAILED = {5, 70}
"""Exit codes that no act may have: integrity, and a traceback. Others are of acts that come while the program is dead."""
_LONGEST_S = 60.0


def acts(chance: random.Random, number: int, folder: Path) -> list[list[str]]:
    """Return the next commands, in order."""
    name = chance.choice(list(KINDS))
    step = str(chance.randint(0, 400))
    export = str(folder / f"{number}.jsonl")
    return chance.choice(
        [
            [["verify"]],
            [["verify", "--deep"]],
            [["prune", "--keep", str(chance.randint(50, 400)), "--context", "20"]],
            [["fork", name, step, "--as", f"fork-{number}"]],
            [["export", name, "--output", export]],
            [["export", "--what", "records", "--output", export]],
            [["analyze", "summary"]],
            [["state", name, step]],
            [["steps", name, "--limit", "50"], ["status"]],
            [["send", "hearing", '{"number": 0}']],
            [["pause", name], ["resume", name]],
            [["approvals"], ["effects"], ["budgets"]],
        ]
    )


def act(arguments: list[str]) -> tuple[int, str]:
    """Run one command; return its exit code and the last line of what it said."""
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            code = command(arguments)
    except SystemExit as error:
        code = error.code
    except BaseException:
        return 70, traceback.format_exc()[-2000:]
    lines = said.getvalue().strip().splitlines()
    return int(code or 0), lines[-1] if lines else ""


class Beside:
    """Acts beside the lives over one store, from its start to `end`."""

    def __init__(self, store: Path, seed: int) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed in `end`)
        words = ["-m", "tests.kill.beside", str(store), f"--seed={seed}"]
        self._process = Program(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=self._said, stderr=subprocess.STDOUT)

    def kill(self) -> Counter[str]:
        """Kill it with `kill -9`, whatever it is doing; return how often each act was done, if none of them failed."""
        self._process.kill()
        self._process.communicate()
        return self._done(partial=True)

    def end(self) -> Counter[str]:
        """Have the acts end; return how often each was done, if none of them failed."""
        self._process.communicate(timeout=_LONGEST_S)
        return self._done(partial=False)

    def _done(self, *, partial: bool) -> Counter[str]:
        self._said.seek(0)
        text = self._said.read()
        self._said.close()
        assert partial or self._process.returncode == 0, text[-4000:]
        lines = text.splitlines(keepends=True)
        done = [json.loads(line) for line in (lines[:-1] if partial and not text.endswith("\n") else lines)]
        failed = [one for one in done if one["code"] in _FAILED]
        assert not failed, f"{len(failed)} acts beside failed, first: {failed[0]}"
        return Counter(one["act"][0] if one["code"] == 0 else f"{one['act'][0]} (too early or late)" for one in done)


def main() -> None:
    """Act until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, number = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        while not _has_ended():
            number += 1
            for words in acts(chance, number, Path(folder)):
                code, said = act([*words, "--store", str(options.store)])
                print(json.dumps({"act": words, "code": code, "said": said}), flush=True)


def _has_ended() -> bool:
    import select

    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    main()
