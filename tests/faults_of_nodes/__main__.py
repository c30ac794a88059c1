"""Have faults strike nodes on PostgreSQL, and judge them: `python -m tests.faults_of_nodes [NAME…] [--mutants]`."""

from __future__ import annotations

import argparse
import time

from tests.faults_of_nodes.faults import FAULTS
from tests.faults_of_nodes.trial import NONE, Fault, Mutant, attempt
from tests.postgres_server import PostgresServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults_of_nodes", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FAULTS)}; default is all")
    parser.add_argument("--mutants", action="store_true", help="also without each protection: the fault has to be noticed")
    options = parser.parse_args()
    if unknown := set(options.names) - set(FAULTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    began, wrong = time.monotonic(), 0
    faults = [FAULTS[name] for name in options.names or FAULTS]
    server = PostgresServer()
    try:
        for fault in faults:
            wrong += not _try(server, fault, NONE)
            for mutant in fault.mutants if options.mutants else ():
                wrong += not _try(server, fault, mutant)
    finally:
        server.close()
    print(f"{len(faults)} faults, {wrong} judged wrong; {time.monotonic() - began:.0f} s")
    if wrong:
        raise SystemExit(1)


def _try(server: PostgresServer, fault: Fault, mutant: Mutant) -> bool:
    """Print what became of a trial, and return whether that was expected."""
    noticed, measured, took_s = attempt(server, fault, mutant)
    is_right = bool(noticed) == bool(mutant.name)
    shown = ", ".join(f"{what} {value:.2f}" for what, value in measured.items())
    what = f"  without: {mutant.name}" if mutant.name else fault.name
    result = ("noticed: " + noticed.splitlines()[0] if noticed else "NOT NOTICED") if mutant.name else noticed or "whole"
    print(f"{what:64} {took_s:5.1f} s  {result}  {shown}{'' if is_right else '  WRONG'}", flush=True)
    return is_right


if __name__ == "__main__":
    main()
