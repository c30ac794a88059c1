"""No order twice: many orders at a venue that goes wrong, while the program that places them is killed, in three ways.

    python -m tests.venue.proof --orders 100000 --kills 40 [--way once|retry|remember]

Positions and cash are what the harnesses know: the executions of the orders that are on record as theirs. The error is what
the venue's books have beside that.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio
from attrs import define, field, fields, frozen

from harnesses.trading.exchange.ccxt_client import CcxtClient
from harnesses.trading.market.orders import ZERO
from tests import ROOT, zygote

from .ordering import BTC
from .placing import HALTED, WAYS, WINDOW_S, reach
from .running import RunningVenue, closed

_UNKNOWN = """
WITH marks AS (
    SELECT seq, harness, step, attempt, kind, body ->> '$.key' AS key, body ->> '$.outcome' AS outcome
    FROM records WHERE kind IN ('intent', 'outcome')
), told AS (
    SELECT *, lead(kind) OVER same AS next_kind, lead(attempt) OVER same AS next_attempt FROM marks
    WINDOW same AS (PARTITION BY harness, step, key ORDER BY seq)
)
SELECT count(*) FROM told
WHERE outcome = 'unknown' OR (kind = 'intent' AND next_kind = 'outcome' AND next_attempt > attempt)
"""
"""Effects whose outcome nobody told while they were under way: no answer, or a kill before it was on record."""


@frozen
class Result:
    """What a way came to."""

    way: str
    wanted: int
    placed: int
    """Orders at the venue."""
    duplicates: int
    """Orders at the venue under an id that another one has."""
    missing: int
    """Orders that were wanted and are not on record, or not at the venue."""
    unknown: int | None
    """Times that nobody said what had become of an order; None where that is not on record."""
    unsettled: int
    """Of those, what is still not known at the end."""
    halted: int
    """Harnesses that wait for a person."""
    position_error: Decimal
    cash_error: Decimal
    kills: int
    seconds: float
    venue_kills: int

    @property
    def exact(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.duplicates or self.missing or self.unsettled or self.position_error or self.cash_error)


@define
class Program:
    """One of the programs that place orders: it is started again whenever it is killed."""

    store: Path
    arguments: list[str]
    due_s: float = 0.0
    """When it is killed next."""
    process: zygote.Program = field(init=False)

    def start(self) -> None:
        """Begin another life."""
        words = ["-m", "tests.venue.placing", *self.arguments]
        self.process = zygote.Program(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=2)

    def kill(self) -> None:
        """Kill it with `kill -9`."""
        self.process.kill()
        self.process.wait()


def run(
    way: str,
    folder: Path,
    *,
    orders: int,
    kills: int,
    programs: int = 2,
    harnesses: int = 60,
    seed: int = 1,
    kill_every_s: float = 4.0,
    venue_kills: int = 0,
    hostility: tuple[str, ...] = ("--hostile",),
    window_s: float = WINDOW_S,
    say: bool = False,
) -> Result:
    """Place so many orders, with at most so many kills, and count.

    Args:
        kill_every_s: about how often one of them is killed.
        hostility: options of the venue.
        window_s: for how long after it was sent the venue may take an order.
    """
    chance = random.Random(seed)
    zygote.preload("ccxt", "tests.venue.ordering")
    with RunningVenue(folder / "books.db", "--seed", str(seed), "--late-s", "0.9", *hostility) as venue:
        shares = [orders // programs + (number < orders % programs) for number in range(programs)]
        options: dict[str, object] = {"venue": venue.url, "way": way, "window": window_s}
        running = [_program(folder, options, number, share, harnesses) for number, share in enumerate(shares)]
        began = time.monotonic()
        try:
            killed, killed_venue = _let_live(running, venue, chance, kills, kill_every_s * programs, venue_kills, say)
        finally:
            for program in running:
                program.kill()
        seconds = time.monotonic() - began
        venue.control("calm")
        return trio.run(_count, way, orders, running, venue, killed, seconds, killed_venue)


def _program(folder: Path, options: dict[str, object], number: int, share: int, harnesses: int) -> Program:
    store = folder / f"{options['way']}-{number}.db"
    given = {**options, "name": f"p{number}", "harnesses": min(harnesses, share), "orders": share}
    return Program(store, [str(store)] + [f"--{name}={value}" for name, value in given.items()])


def _let_live(
    running: list[Program],
    venue: RunningVenue,
    chance: random.Random,
    kills: int,
    kill_every_s: float,
    venue_kills: int,
    say: bool,
) -> tuple[int, int]:
    """Run every program to its end; return how often one was killed, and the venue."""
    killed = killed_venue = 0
    for program in running:
        program.start()
        program.due_s = time.monotonic() + chance.uniform(0.5, 2 * kill_every_s)
    venue_due_s = time.monotonic() + chance.uniform(1.0, 4 * kill_every_s)
    said_s = time.monotonic()
    while alive := [program for program in running if program.process.returncode is None]:
        time.sleep(0.02)
        now_s = time.monotonic()
        if killed_venue < venue_kills and now_s > venue_due_s:
            venue.revive()
            killed_venue += 1
            venue_due_s = now_s + chance.uniform(1.0, 4 * kill_every_s)
        for program in alive:
            code = program.process.poll()
            if code is not None:
                assert code in (0, HALTED), f"a program has ended by itself with code {code}"
            elif killed < kills and now_s > program.due_s:
                program.kill()
                killed += 1
                program.start()
                program.due_s = now_s + chance.uniform(0.5, 2 * kill_every_s)
        if say and now_s - said_s > 10:
            said_s = now_s
            print(f"  {venue.control('progress')['orders']} orders, {killed} kills", file=sys.stderr, flush=True)
    return killed, killed_venue


async def _count(
    way: str, wanted: int, running: list[Program], venue: RunningVenue, killed: int, seconds: float, killed_venue: int
) -> Result:
    """Hold what is on record against the venue's books."""
    await closed(venue)
    recorded: dict[str, str] = {}
    unknown = unsettled = halted = 0
    for program in running:
        connection = sqlite3.connect(program.store)
        for (text,) in connection.execute("SELECT output FROM steps"):
            report: dict[str, Any] = json.loads(text)
            recorded[report["client_id"]] = report["venue_id"]
        unknown += connection.execute(_UNKNOWN).fetchone()[0]
        unsettled += connection.execute("SELECT count(*) FROM effects WHERE outcome IN ('begun', 'unknown')").fetchone()[0]
        halted += connection.execute("SELECT count(*) FROM harness_status WHERE status = 'blocked'").fetchone()[0]
        connection.close()
    placed = [order[0] for order in venue.control("orders")]
    books = venue.books()
    assert books["on_disk_the_same"]
    position, cash = await _known(venue.url, set(recorded.values()))
    return Result(
        way=way,
        wanted=wanted,
        placed=len(placed),
        duplicates=len(placed) - len(set(placed)),
        missing=wanted - len(recorded) + len(set(recorded) - set(placed)),
        unknown=unknown if way == "once" else None,
        unsettled=unsettled,
        halted=halted,
        position_error=Decimal(books["balances"]["BTC"]) - Decimal(books["deposits"]["BTC"]) - position,
        cash_error=Decimal(books["balances"]["USDT"]) - Decimal(books["deposits"]["USDT"]) - cash,
        kills=killed,
        seconds=seconds,
        venue_kills=killed_venue,
    )


async def _known(url: str, venue_ids: set[str]) -> tuple[Decimal, Decimal]:
    """Return what the executions of these orders have done to position and cash."""
    client = CcxtClient("binance", reach(url, 1))
    await client.get_ready()
    position, cash, first = ZERO, ZERO, 0
    while page := await client.ask("fetch_my_trades", BTC, None, 1000, private=True, params={"fromId": first}):
        for trade in page:
            if trade["order"] in venue_ids:
                sign = 1 if trade["side"] == "buy" else -1
                position += sign * Decimal(trade["amount"])
                cash -= sign * Decimal(trade["amount"]) * Decimal(trade["price"])
                if trade["fee"]["currency"] == "BTC":
                    position -= Decimal(trade["fee"]["cost"])
                else:
                    cash -= Decimal(trade["fee"]["cost"])
        first = max(int(trade["id"]) for trade in page) + 1
    return position, cash


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.1f}"
        case Decimal():
            return f"{value.normalize():f}" if value else "0"
        case _:
            return f"{value:,}"


def table(results: list[Result]) -> str:
    """Return the results, a column each."""
    lines = [f"{'':<16}" + "".join(f"{result.way:>18}" for result in results)]
    for name in fields(Result)[1:]:
        values = [getattr(result, name.name) for result in results]
        texts = [_text(value) for value in values]
        lines.append(f"{name.name.replace('_', ' '):<16}" + "".join(f"{text:>18}" for text in texts))
    lines.append(f"{'orders/s':<16}" + "".join(f"{result.placed / result.seconds:>18.0f}" for result in results))
    return "\n".join(lines)


def main() -> int:
    """Run the ways that are asked for; return 1 if `once` is not exact."""
    parser = argparse.ArgumentParser(prog="python -m tests.venue.proof")
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--venue-kills", type=int, default=1)
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--programs", type=int, default=2)
    parser.add_argument("--harnesses", type=int, default=60, help="in each program")
    parser.add_argument("--kill-every", type=float, default=4.0, metavar="S")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    results: list[Result] = []
    for way in options.way or WAYS:
        with tempfile.TemporaryDirectory(prefix="proof-") as folder:
            result = run(
                way,
                Path(folder),
                orders=options.orders,
                kills=options.kills,
                programs=options.programs,
                harnesses=options.harnesses,
                seed=options.seed,
                kill_every_s=options.kill_every,
                venue_kills=options.venue_kills,
                say=True,
            )
        results.append(result)
        print(table(results), flush=True)
    return 0 if all(result.exact for result in results if result.way == "once") else 1


if __name__ == "__main__":
    sys.exit(main())
