"""Loops: the same step, or the same two or three, again and again; states that no longer change.

A step repeats if its fingerprint is that of the step 1, 2 or 3 before it; a loop is at least 5 repeating steps in a row with
the same distance, the rule of the guardrail `no_progress`. Longer periods are not detected. The fingerprint is the one that
the guardrail has recorded; without that guardrail, it is of the input, the output and the change of the state, and a step
that makes a list longer repeats no other.

    same      the fingerprints are equal
    unchanged the state did not change in at least 20 steps in a row
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.analysis.answers.answer import Answer, Table, moment, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone
from orchestrator.analysis.questions.record_scan import harnesses
from orchestrator.analysis.sources import StoreSource
from orchestrator.text.terminal_text import one_line

AGAIN, UNCHANGED = 5, 20
PERIODS = 3
LOOPS = "$.loops.recent"
"""Where the guardrail `no_progress` keeps fingerprints, latest first, in `governance`."""
GROWS = '"(append|keep)":'
"""Matches a change of the state that makes another one each time it is made."""
_FIELDS = {"input": "JSON", "output": "JSON", "delta": "JSON", "governance": "JSON"}
_MOST = 200
"""Limit on the reported loops, longest first."""
_NOTE = (
    f"a loop is at least {AGAIN} steps in a row that repeat the step 1, 2 or 3 before: by the fingerprints of `no_progress`, "
    f"or else with its input, output and change of the state; unchanged: at least {UNCHANGED} steps in a row that did not "
    "change the state"
)
_KINDS = (*(("same", period, 1 << period - 1) for period in (1, 2, 3)), ("unchanged", 0, 1 << PERIODS))
"""Kinds of loops: name, distance and bit."""
_LOOKS = f"""
    CREATE OR REPLACE TEMP TABLE loop_looks AS
    SELECT list_position(?, harness)::INTEGER AS place, step,
           CASE WHEN json_exists(governance, '{LOOPS}') THEN nullif(json_extract_string(governance, '{LOOPS}[0]'), '')
                WHEN regexp_matches(delta::VARCHAR, '{GROWS}') THEN NULL
                ELSE hash(input::VARCHAR, output::VARCHAR, delta::VARCHAR)::VARCHAR END AS same,
           coalesce(delta::VARCHAR, '{{{{}}}}') = '{{{{}}}}' AS is_unchanged
    FROM ({{steps}}) WHERE list_contains(?, harness)
"""
_COPIED = """
    CREATE OR REPLACE TEMP TABLE loop_looks AS
    SELECT list_position(?, harness)::INTEGER AS place, step, same, is_unchanged FROM ({loops}) WHERE list_contains(?, harness)
"""
_MARKS = """
    CREATE OR REPLACE TEMP TABLE loop_marks AS
    SELECT place, step, ({bits} + CASE WHEN is_unchanged THEN {unchanged} ELSE 0 END)::UTINYINT AS marks
    FROM loop_looks WINDOW one AS (PARTITION BY place ORDER BY step)
"""
_RUNS = """
    SELECT place, '{kind}', {period}, min(step) - {period}, max(step), count(*) + {period} AS steps FROM (
        SELECT place, step, step - row_number() OVER (PARTITION BY place ORDER BY step) AS island
        FROM loop_marks WHERE marks & {bit} <> 0
    ) GROUP BY place, island HAVING count(*) >= {least} ORDER BY steps DESC, place, min(step) LIMIT {most}
"""


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return where harnesses repeated themselves, longest loop first.

    Raises:
        UsageError: there is no such harness.
    """
    run.expect()
    names = harnesses(run, harness)
    every: list[tuple[Any, ...]] = [(names[row[0] - 1], *row[1:]) for row in _found(run, names)]
    found = told_once(every)[:_MOST]
    shown = _shown(run, found)
    rows = [(*row, *shown.get(row[:5], (None, None, ""))) for row in found]
    columns = "harness kind period first_step last_step steps first last output"
    return Answer("loops", (Table("loops", columns, rows, _NOTE),), [*_sentences(rows), *what_is_gone(run, names)])


def _found(run: Run, names: list[str]) -> list[tuple[Any, ...]]:
    """Return the longest loops of each kind. Computed in small parts, so that a million outputs need little memory."""
    loops = run.source.loops() if isinstance(run.source, StoreSource) else None
    steps = run.source.own(("step",), _FIELDS)
    run.rows(_LOOKS.format(steps=steps) if loops is None else _COPIED.format(loops=loops), [names, names])
    bits = " + ".join(
        f'CASE WHEN "{kind}" = lag("{kind}", {period}) OVER one THEN {bit} ELSE 0 END'
        for kind, period, bit in _KINDS
        if period
    )
    run.rows(_MARKS.format(bits=bits, unchanged=_KINDS[-1][2]))
    rows: list[tuple[Any, ...]] = []
    for kind, period, bit in _KINDS:
        least = AGAIN if period else UNCHANGED
        rows.extend(run.rows(_RUNS.format(kind=kind, period=period, bit=bit, least=least, most=_MOST)))
    run.rows("DROP TABLE loop_looks")
    run.rows("DROP TABLE loop_marks")
    return rows


def told_once(found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return loops without redundant ones: period 1 is also 2 and 3."""
    kept: list[tuple[Any, ...]] = []
    within: dict[str, list[tuple[Any, ...]]] = {}
    for row in sorted(found, key=lambda row: (row[0], row[1] == "unchanged", row[2], row[3])):
        name, kind, _, first, last = row[:5]
        known = within.setdefault(name, [])
        if kind == "unchanged" or not any(other[3] <= first + PERIODS and last <= other[4] for other in known):
            kept.append(row)
            if kind != "unchanged":
                known.append(row)
    return sorted(kept, key=lambda row: (-row[5], row[0], row[3], row[1]))


def _shown(run: Run, found: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return when each loop began and ended, and its last output, shortened."""
    places = sorted({(row[0], step) for row in found for step in row[3:5]})
    query = """
        SELECT harness, step_number, "timestamp", left(output::VARCHAR, 1000) FROM steps
        WHERE list_contains(?, step_number) AND list_contains(?, harness)
    """
    rows = run.rows(query, [[step for _, step in places], sorted({name for name, _ in places})]) if places else []
    told = {(name, step): (at, text) for name, step, at, text in rows}
    shown: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for name, kind, period, first, last, _ in found:
        (begin, _), (end, text) = told.get((name, first), (None, "")), told.get((name, last), (None, ""))
        output = "" if kind == "unchanged" else one_line(text or "", 120)
        shown[name, kind, period, first, last] = (moment(begin), moment(end), output)
    return shown


def _sentences(rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    if not rows:
        yield "No loop is seen."
    for name, kind, period, first, last, steps, _, _, output in rows[:5]:
        where = f"{name}: {times(steps, 'step')}, {first} to {last},"
        if kind == "unchanged":
            yield f"{where} changed nothing in the state."
        else:
            what = "the same output" if period == 1 else f"the same {period} outputs"
            yield f"{where} gave {what} again and again: {output}"
