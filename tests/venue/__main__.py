"""Run a venue until it is killed; print its address first."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from attrs import evolve, fields

from .dialect import Keys
from .hostility import CALM, HOSTILE, Hostility
from .server import Venue


def parse() -> argparse.Namespace:
    """Return the options: one for each kind of hostility, and these."""
    parser = argparse.ArgumentParser(prog="python -m tests.venue", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--books", type=Path, default=":memory:", help="the file in which they are kept")
    parser.add_argument("--key", default="key")
    parser.add_argument("--secret", default="secret")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hostile", action="store_true", help="everything goes wrong now and then")
    for name in fields(Hostility):
        parser.add_argument(
            f"--{name.name.replace('_', '-')}", type=int if isinstance(name.default, int) else float, metavar="X"
        )
    return parser.parse_args()


async def main(options: argparse.Namespace) -> None:
    """Open the door and let time pass."""
    given = {name.name: value for name in fields(Hostility) if (value := getattr(options, name.name)) is not None}
    hostility = evolve(HOSTILE if options.hostile else CALM, **given)
    venue = Venue(options.books, Keys(options.key, options.secret), hostility, options.seed)
    print(f"http://127.0.0.1:{await venue.listen(options.port)}", flush=True)
    await venue.run()


if __name__ == "__main__":
    asyncio.run(main(parse()))
