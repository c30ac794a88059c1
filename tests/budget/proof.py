"""Lives of the program: started, killed, started again; and the audit of what they spent."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from attrs import frozen

from harnesses.budgets.budget import NOTHING
from orchestrator.codec import decode
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.zygote import Program

POOL = "pool/all"
_TOKENS_PER_BYTE = 8
"""About: a line such as `h17 12 85` for each spend."""
_LONGEST_S = 900.0


@frozen
class Account:
    """What came of it."""

    harnesses: int
    kills: int
    crashes: int
    limit: int
    spent: int
    """Tokens really spent, as the harnesses told a file at the moment of each spend."""
    recorded: int
    """Tokens in the recorded steps."""
    charged: int
    """Tokens that the store has charged."""
    lost: int
    """Tokens charged for spends that nobody settled, beyond what was really spent in them."""

    @property
    def overshoot(self) -> int:
        """Tokens spent or charged beyond the limit."""
        return max(0, self.spent - self.limit, self.charged - self.limit)

    @property
    def use(self) -> float:
        """The part of the limit that was really spent."""
        return self.spent / self.limit

    def __str__(self) -> str:
        return (
            f"harnesses {self.harnesses:,}   kills {self.kills}   crashes {self.crashes:,}\n"
            f"limit     {self.limit:>12,}\n"
            f"spent     {self.spent:>12,}   counted by the harnesses themselves; {self.recorded:,} of it in recorded steps\n"
            f"charged   {self.charged:>12,}   {self.lost:,} of it for spends that nobody lived to settle\n"
            f"overshoot {self.overshoot:>12,}\n"
            f"use       {self.use:>12.2%}"
        )


class Trial:
    """One pool in one store, and the programs that spend from it.

    Args:
        programs: over how many programs at the same time the harnesses are spread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        harnesses: int,
        limit: int,
        kills: int,
        seed: int,
        programs: int = 1,
        say: bool = False,
    ) -> None:
        self.store, self.spent = folder / "run.db", folder / "spent.txt"
        self._harnesses, self._limit, self._kills, self._programs = harnesses, limit, kills, programs
        self._chance = random.Random(seed)
        self._say = say
        self._errors = folder / "errors.txt"

    def run(self) -> Account:
        """Have the pool spent to the end; return what came of it."""
        running = [self._start(number) for number in range(self._programs)]
        try:
            kills = self._kill_some(running)
            for program in running:
                code = program.wait(_LONGEST_S)
                assert code == 0, f"the program ended with {code}: {self._spoken()}"
        finally:
            for program in running:
                program.kill()
                program.wait()
        return self._audit(kills)

    def _kill_some(self, running: list[subprocess.Popen[bytes]]) -> int:
        """Kill one of the programs after the other, and start it again; return how many were killed."""
        for kills in range(self._kills):
            self._wait_for(self._chance.uniform(0.3, 0.8) * self._limit / (self._kills + 1))
            victim = self._chance.randrange(self._programs)
            if running[victim].poll() is not None:
                return kills
            running[victim].kill()
            running[victim].wait()
            if self._say:
                print(f"killed {kills + 1} times, {self._charged():,} of {self._limit:,} charged", flush=True)
            running[victim] = self._start(victim)
        return self._kills

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        each = self._harnesses // self._programs
        options = [f"--harnesses={each}", f"--first={number * each}", f"--limit={self._limit}"]
        command = ["-m", "tests.budget.program", str(self.store), str(self.spent)]
        seed = f"--seed={self._chance.randrange(10**9)}"
        with self._errors.open("ab") as errors:
            return Program([*command, *options, seed], cwd=ROOT, stderr=errors)

    def _wait_for(self, tokens: float) -> None:
        """Return some moment after so many tokens more have been spent."""
        until = _size(self.spent) + tokens / _TOKENS_PER_BYTE
        deadline = time.monotonic() + _LONGEST_S
        while _size(self.spent) < until:
            assert time.monotonic() < deadline, f"the programs stand still: {self._spoken()}"
            time.sleep(0.002)

    def _spoken(self) -> str:
        return self._errors.read_text(errors="replace")[-2000:]

    def _charged(self) -> int:
        with closing(SqliteReader(self.store)) as reader:
            return reader.accounts()[POOL].spent.tokens

    def _audit(self, kills: int) -> Account:
        """Hold the books against each other."""
        with closing(SqliteReader(self.store)) as reader:
            return self._account(reader, kills)

    def _account(self, reader: SqliteReader, kills: int) -> Account:
        book = reader.accounts()[POOL]
        changes: Counter[str] = Counter()
        recorded = after = 0
        kinds: Counter[str] = Counter()
        while page := reader.records(after=after, limit=10_000):
            after = page[-1].seq
            for record in page:
                kinds[record.kind] += 1
                if record.kind == "step":
                    recorded += decode(record.body)["output"]
                elif record.kind == "budget":
                    body = decode(record.body)
                    changes[body["change"]] += body.get("spent", body.get("amounts", {})).get("tokens", 0)
        spent = sum(int(line.split()[2]) for line in self.spent.read_text().splitlines())
        charged = changes["settled"] + changes["forfeited"]
        assert charged == book.spent.tokens, f"on record {charged}, in the books {book.spent.tokens}"
        assert book.reserved == NOTHING, f"left reserved: {book.reserved}"
        assert not changes["overspent"]
        assert recorded <= spent <= charged, f"recorded {recorded}, spent {spent}, charged {charged}"
        ends = Counter(str(harness.status) for harness in reader.harnesses())
        assert ends == {"budget_spent": self._harnesses}, f"expected every harness to end without budget, was {ends}"
        return Account(
            harnesses=self._harnesses,
            kills=kills,
            crashes=kinds["failed"],
            limit=self._limit,
            spent=spent,
            recorded=recorded,
            charged=charged,
            lost=charged - spent,
        )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
