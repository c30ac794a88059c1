"""Put payloads through every surface, and print what was active: `python -m tests.inert [COUNT]`, 10,000 by default."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.inert.payloads import payloads, together
from tests.inert.proof import Proof, proof_of

_AT_ONCE = 250
"""Texts of one store: what the surfaces show at once."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.inert", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=4, help="payloads of one text (default: 4)")
    parser.add_argument("--processes", type=int, default=2, help="batches at the same time (default: 2)")
    options = parser.parse_args()
    texts = together(payloads(options.count), options.each)
    proof, began, done = Proof(), time.monotonic(), 0
    with ProcessPoolExecutor(options.processes, get_context("spawn"), max_tasks_per_child=1) as processes:
        batches = [texts[first : first + _AT_ONCE] for first in range(0, len(texts), _AT_ONCE)]
        proving = {processes.submit(proof_of, batch): batch for batch in batches}
        for proved in as_completed(proving):
            part = proved.result()
            for surface, found in part.wrong.items():
                print(f"{surface}: {len(found)} active, the first: {found[0][:300]}", file=sys.stderr)
            proof.join(part)
            done, active = done + len(proving[proved]), sum(map(len, proof.active.values()))
            print(f"{done} of {len(texts)} texts, {active} active, {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"{'surface':44} {'outputs':>7} {'texts shown':>14} {'active':>6}")
    for surface, outputs in proof.outputs.items():
        found = proof.active[surface]
        print(f"{surface:44} {outputs:7} {len(proof.shown[surface]):14} {len(found):6}  {'; '.join(found[:2])[:200]}")
    shown = len(set[int]().union(*proof.shown.values()))
    print(f"{options.count} payloads in {len(texts)} texts, {shown} of them shown, on {len(proof.outputs)} surfaces")
    print(f"{len(proof.wrong)} surfaces with something active")
    return 1 if proof.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
