"""`python -m tests.benchmarks [NAME …]`: one JSON line for each measure."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.analysis import analysis
from tests.benchmarks.features import features
from tests.benchmarks.fleet import fleet
from tests.benchmarks.measures import MEASURES as OTHERS
from tests.benchmarks.memory import memory
from tests.benchmarks.models import model_rounds, model_streams
from tests.benchmarks.nodes import nodes
from tests.benchmarks.observing import observing
from tests.benchmarks.page import page
from tests.benchmarks.questions import questions
from tests.benchmarks.redaction import redaction
from tests.benchmarks.servers import postgres, seals, status
from tests.benchmarks.sharing import workers
from tests.benchmarks.streaming import streaming
from tests.benchmarks.trading_speed import trading
from tests.benchmarks.travel import travel
from tests.benchmarks.watching import watching

MEASURES = {
    **OTHERS,
    "analysis": analysis,
    "features": features,
    "fleet": fleet,
    "memory": memory,
    "model_rounds": model_rounds,
    "model_streams": model_streams,
    "nodes": nodes,
    "observing": observing,
    "page": page,
    "postgres": postgres,
    "questions": questions,
    "redaction": redaction,
    "seals": seals(),
    "status": status,
    "streaming": streaming,
    "trading": trading,
    "travel": travel,
    "watching": watching,
    "workers": workers,
}


def main(names: list[str]) -> int:
    """Run the measures named, or all."""
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        print(f"no measure {unknown[0]!r}: expected {', '.join(MEASURES)}", file=sys.stderr)
        return 2
    for name in names or MEASURES:
        with tempfile.TemporaryDirectory() as folder:
            figures = MEASURES[name](Path(folder))
        print(json.dumps({"measure": name, "cores": os.cpu_count(), **figures}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
