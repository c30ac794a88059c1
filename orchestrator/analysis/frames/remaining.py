"""What of each harness is there, and which of it is its own: runs are pruned, logs begin late, forks have another's steps.

Temporary tables, made when they are first asked for:

remaining   a row for each harness: its first step that is there, how many are missing after that, and the last that was copied
kept        a row for each attempt of its own: what rates go by. Of one whose first steps are gone it begins with the first
            step that is there, and `rated` are the steps after that one

The law: no sum of time or money and no rate has a copied step in it, or time of which the steps are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import WeakSet

from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.gathered import gather
from orchestrator.analysis.sources import StoreSource
from orchestrator.text.terminal_text import one_line

OWN = "(SELECT s.* FROM steps s JOIN remaining r ON r.harness = s.harness WHERE s.step_number > r.copied)"
"""The steps that are the harness's own; needs `look`."""
_SHOWN = 5
"""Harnesses of which a sentence is said each."""
_REMAINING = """
    CREATE OR REPLACE TEMP TABLE remaining AS
    SELECT g.harness AS harness, coalesce(min(g.first_step), 1) AS first_step,
           coalesce(max(g.last_step) - min(g.first_step) + 1 - sum(g.steps), 0)::BIGINT AS missing,
           coalesce(any_value(f.step), 0) AS copied
    FROM gathered g LEFT JOIN (SELECT harness, max(step) AS step FROM heard WHERE kind = 'forked' GROUP BY harness) f
        ON f.harness = g.harness
    WHERE g.harness <> '' GROUP BY g.harness
"""
_LIVED = """
    SELECT l.*, g.first_step,
           (l.is_started OR g.first_step = 1) AND coalesce(g.first_step = l.after_step + 1, true) AS is_whole
    FROM lives l JOIN gathered g ON g.harness = l.harness AND g.attempt = l.attempt
    JOIN remaining r ON r.harness = l.harness WHERE coalesce(g.last_step > r.copied, l.is_started)
"""
_KEPT = """
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT harness, attempt, began AS since, coalesce(ended, last) AS until, steps - (NOT is_started)::INTEGER AS rated
    FROM ({lived}) WHERE is_whole
"""
_CUT = """
    INSERT INTO kept SELECT l.harness, l.attempt, min(s."timestamp"), any_value(coalesce(l.ended, l.last)), count(*) - 1
    FROM ({lived}) l JOIN (SELECT harness, attempt, "timestamp" FROM steps) s
        ON s.harness = l.harness AND s.attempt = l.attempt
    WHERE NOT l.is_whole GROUP BY l.harness, l.attempt
"""
_looked: WeakSet[Run] = WeakSet()


def look(run: Run) -> None:
    """Make the tables `remaining` and `kept`, unless they are there."""
    if run in _looked:
        return
    gather(run)
    run.carry_out(_REMAINING)
    run.carry_out(_KEPT.format(lived=_LIVED))
    if run.rows(f"SELECT 1 FROM ({_LIVED}) WHERE NOT is_whole LIMIT 1"):
        run.rows(_CUT.format(lived=_LIVED))
    _looked.add(run)


def what_is_gone(run: Run, names: Iterable[str] | None = None) -> Iterator[str]:
    """Yield a sentence for each harness of which there is but a part."""
    look(run)
    wanted = None if names is None else set(names)
    rows = run.rows("SELECT harness, first_step FROM remaining WHERE first_step > 1 ORDER BY harness")
    found = [(name, first) for name, first in rows if wanted is None or name in wanted]
    how = "was pruned" if isinstance(run.source, StoreSource) else "is not on record here from its beginning"
    for name, first in found[:_SHOWN]:
        yield f"{one_line(name)} {how}: steps before {first} are gone; figures are of what is left."
    if len(found) > _SHOWN:
        yield f"The same goes for {len(found) - _SHOWN} more: their first steps are gone."


def what_was_copied(run: Run, names: Iterable[str] | None = None) -> str:
    """Return a note on steps that forks have of others; empty if none has."""
    look(run)
    wanted = None if names is None else set(names)
    rows = run.rows("SELECT harness, copied FROM remaining WHERE copied > 0 AND first_step <= copied ORDER BY harness")
    found = [f"{one_line(name)} up to {copied}" for name, copied in rows if wanted is None or name in wanted]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (
        f"Steps that a fork has taken over count in no time, money or rate: {', '.join(found[:_SHOWN])}{more}."
        if found
        else ""
    )
