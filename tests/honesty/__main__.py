"""Try every agent of the corpus, and print a table: `python -m tests.honesty`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import trio

from .corpus import ALL_CHEATS, ALL_HONEST
from .trial import Result, hear_all

_ANSWER = {True: "yes", False: "no", None: ""}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.honesty", description=__doc__)
    parser.add_argument("--only", default="", help="agents whose name holds this text")
    parser.add_argument("--evidence", action="store_true", help="also print what was found")
    options = parser.parse_args()
    began = time.monotonic()
    agents = [agent for agent in (*ALL_CHEATS, *ALL_HONEST) if options.only in agent.name]
    with tempfile.TemporaryDirectory() as folder:
        results = trio.run(lambda: hear_all(Path(folder), agents, thoroughly=True))
    wrong = 0
    print(f"{'agent':78} plain run  its tests  accepted  refused by    s")
    for result in results:
        expected = result.agent in ALL_HONEST
        wrong += result.accepted != expected
        print(_row(result) + ("" if result.accepted == expected else "  WRONG"), flush=True)
        if options.evidence or result.accepted != expected:
            print("    " + result.verdict.evidence.replace("\n", "\n    "))
    honest = sum(result.agent in ALL_HONEST for result in results)
    fooled = sum(bool(result.plainly) for result in results if result.agent not in ALL_HONEST)
    print(
        f"{len(results) - honest} cheating agents, {fooled} of which a plain run takes for done; {honest} honest ones; "
        f"{wrong} judged wrong; {time.monotonic() - began:.0f} s"
    )
    if wrong:
        raise SystemExit(1)


def _row(result: Result) -> str:
    refused = "" if result.accepted else result.verdict.validator.split(" & ")[-1]
    return (
        f"{result.agent.name:78} {_ANSWER[result.plainly]:9}  {_ANSWER[result.tests_alone]:9}  "
        f"{_ANSWER[result.accepted]:8}  {refused:12} {result.took_s:4.1f}"
    )


main()
