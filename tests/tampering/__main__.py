"""`python -m tests.tampering [--count N] [--seed N]`: tamper with stores, and tell what was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .proof import tamper_often
from .stores import make_bases


def main() -> int:
    """Tamper, and return 1 if anything was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bases = make_bases(Path(folder))
        tally = tamper_often(bases, Path(folder), options.count, options.seed, lambda text: print(text, file=sys.stderr))
    print(tally)
    print("  ".join(f"{name} {count}" for name, count in sorted(tally.deeds.items())))
    for line in [*tally.missed, *tally.apart][:50]:
        print(line)
    return 1 if tally.missed or tally.apart else 0


if __name__ == "__main__":
    sys.exit(main())
