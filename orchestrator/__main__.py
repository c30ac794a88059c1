"""Entry point of `python -m orchestrator`, which is the `orchestrator` command."""

from __future__ import annotations

import sys

from orchestrator.cli import main

if __name__ == "__main__":
    sys.exit(main())
