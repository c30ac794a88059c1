"""The rows of the fleet on the screen of `orchestrator watch`: harnesses below their supervisors, worst first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_INDENT = "  "
BELOW = "/"
"""The end of the key of a supervisor; the name of no harness has it."""


def tree_rows(
    rows: Sequence[Mapping[str, Any]], supervisors: Sequence[Mapping[str, Any]], now_s: float
) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield keys and cells: first the harnesses without a supervisor, then each supervisor, with those below it.

    Args:
        rows: the rows of the fleet, in the order that harnesses of one supervisor are to have.
        supervisors: all of them, parents first; those without a row below them are left out.
        now_s: wall time, seconds since 1970.
    """
    below: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        below.setdefault(row["supervisor"] or "", []).append(row)
    used = {"/".join(parts[:depth]) for path in below for parts in [path.split("/")] for depth in range(1, len(parts) + 1)}
    yield from ((row["harness"], _cells(row, 0, now_s)) for row in below.get("", ()))
    for one in supervisors:
        path = one["supervisor"]
        if path in used:
            depth = path.count("/")
            yield f"{path}{BELOW}", _supervisor_cells(one, depth)
            yield from ((row["harness"], _cells(row, depth + 1, now_s)) for row in below.get(path, ()))


def _supervisor_cells(one: Mapping[str, Any], depth: int) -> Sequence[object]:
    name, limit = one["supervisor"].rpartition("/")[2], f"{one['restarts']} of {one['intensity']} restarts"
    said = f"{one['strategy']}, {limit} in {one['period_s']:g} s"
    return f"{_INDENT * depth}{name}/", one["activity"] or "", "", "", "", said


def _cells(row: Mapping[str, Any], depth: int, now_s: float) -> Sequence[object]:
    age = "" if row["began"] is None else f"{max(0.0, now_s - row['began']):.0f} s"
    name = f"{_INDENT * depth}{row['harness']}"
    return name, row["activity"], row["current_step"], age, row["attempt"], row["cause"]
