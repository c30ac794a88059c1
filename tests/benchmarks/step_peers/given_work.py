"""What every program is given, and what it tells: the same texts, and the time of the work alone."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIRST_STATE: dict[str, Any] = {
    "count": 0,
    "price": "100.00",
    "cash": "10000.00",
    "note": "nothing yet",
    "symbol": "EURUSD",
    "venue": "paper",
    "tokens": 1000,
    "limit": 100_000,
    "is_open": False,
    "label": "a harness at work",
}


def given() -> list[list[list[Any]]]:
    """Return what each harness works on in each of its steps, read from the file that is named first."""
    return json.loads(Path(sys.argv[1]).read_text())


def change(turn: list[Any], state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Make a step: return five changed fields of ten, what goes in and what comes out."""
    prompt, text, price, id, cash, note = turn
    count = state["count"] + 1
    changed = {"count": count, "price": note[:7], "cash": cash, "note": note, "tokens": state["tokens"] + count}
    return changed, {"prompt": prompt, "tokens": count * 17}, {"text": text, "price": price, "id": id}


def tell(work: Callable[[], None]) -> None:
    """Do the work, and print what it took."""
    begun, used = time.perf_counter(), time.process_time()
    work()
    print(json.dumps({"wall_s": time.perf_counter() - begun, "processor_s": time.process_time() - used}))
