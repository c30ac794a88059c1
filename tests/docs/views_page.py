"""`docs/reference/views.md`."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from orchestrator.analysis.frames import VERSION
from orchestrator.analysis.sql.sql_columns import VIEWS
from orchestrator.analysis.sql.sql_room import Page, Room
from orchestrator.store.file.schema import VERSION as SCHEMA
from orchestrator.text.value_lines import brief
from tests.docs.small_store import record
from tests.docs.store_views import STORE_VIEWS
from tests.docs.tables import answer, rows

_CELL = 40
_SAMPLES = {
    "records": "SELECT seq, timestamp, harness, attempt, step, kind, left(body, 40) AS body FROM records ORDER BY seq LIMIT 3",
    "steps": "SELECT seq, harness, step_number, input, output, round(work_s, 3) AS work_s"
    " FROM steps WHERE harness = 'flaky' ORDER BY seq LIMIT 3",
    "events": "SELECT seq, timestamp, harness, kind, cause FROM events WHERE harness = 'flaky' ORDER BY seq LIMIT 3",
    "messages": "SELECT seq, timestamp, harness, message, consumed_step FROM messages ORDER BY seq LIMIT 3",
    "effects": "SELECT harness, step_number, key, outcome, arguments, took_s, tries"
    " FROM effects WHERE harness = 'publisher' ORDER BY seq LIMIT 3",
    "approvals": "SELECT id, step_number, category, verdict, answered_by, waited_s, used FROM approvals ORDER BY seq LIMIT 3",
    "attempts": "SELECT harness, attempt, took_s, steps, ended_by, cause"
    " FROM attempts WHERE harness = 'flaky' ORDER BY seq LIMIT 3",
    "harnesses": "SELECT harness, status, attempt, current_step, last_timestamp FROM harnesses ORDER BY harness LIMIT 3",
    "outputs": "SELECT seq, harness, step_number, source, line FROM outputs ORDER BY seq LIMIT 3",
    "attachments": "SELECT seq, harness, step_number, kind, body FROM attachments ORDER BY seq LIMIT 3",
    "transcripts": "SELECT harness, step_number, agent, model, messages, input_tokens, output_tokens, cost"
    " FROM transcripts ORDER BY seq LIMIT 3",
    "budgets": "SELECT seq, harness, change, reservation, amounts, spent FROM budgets ORDER BY seq LIMIT 3",
    "features": "SELECT step_number, feature, turn, status, passed, agent_s, tokens"
    " FROM features ORDER BY seq, feature LIMIT 3",
    "feature_standing": "SELECT feature, status, tries, tries_to_pass, agent_s, tokens"
    " FROM feature_standing ORDER BY feature LIMIT 3",
    "trades": "SELECT step_number, symbol, side, quantity::INTEGER AS quantity, round(price, 2) AS price"
    " FROM trades ORDER BY seq, fill_id LIMIT 3",
    "equity": "SELECT step_number, time, round(equity, 2) AS equity, round(drawdown_share, 4) AS drawdown"
    " FROM equity ORDER BY seq LIMIT 3",
    "views": "SELECT view, position, column_name, type, unit FROM views ORDER BY view, position LIMIT 3",
}
_HEAD = f"""\
# The views of a run

What `orchestrator sql RUN`, `analysis.query(run, …)` and the frames of `analysis.open(…)` have to offer: the same views,
whether the run is read from a store, a log, or exported Parquet. This is **version {VERSION}** of them: within a version a
column may come, and none goes or changes its meaning. In SQL, `FROM views` has all that is told here.

Times are `TIMESTAMP` in UTC, without a zone. Durations are seconds, and their names end in `_s`; a name that ends in
`_share` is of a number from 0 to 1. Money is `DECIMAL(38,18)`: sums of it are exact, and before two of them are multiplied
they are to be cast to something narrower. `seq` is the one order of everything: what has the smaller one was on disk first.

The samples are of `run.jsonl`, which lies beside this page, and so are the worked questions in [questions.md](questions.md).
"""
_STORE = f"""\
# The views in the file of a store

A store is a file of SQLite, and has views of its own, for `sqlite3`, DuckDB, or whatever else reads such files, also while
a run goes on: readers do not hold up who writes, nor he them. They are those of schema version {SCHEMA}
(`PRAGMA user_version`).

```console
$ sqlite3 -readonly run.db "select harness, status, current_step from harness_status"
$ duckdb -c "ATTACH 'run.db' AS run (TYPE sqlite, READ_ONLY); SELECT harness, count(*) FROM run.steps GROUP BY ALL"
```

What is different from the views above:

* They are how it stands now: two queries one after the other may see two different moments. `orchestrator sql` sees one.
* Times are text, and JSON is text; what a step's time went into is in the `body` of `records` only.
* Messages and the arguments of effects are as they were recorded, with the secrets that are in them.
* There are no walls: such a program can read other files, and write this one if it is not told to be read-only.
* A program that runs harnesses is not to open its own store by DuckDB's extension for SQLite: that closes the file once too
  often, and SQLite's locks go with it. `analysis.open` reads a copy then.

The tables beside the views are none of them: they may change with any version.
"""


def page(room: Room) -> str:
    """Return the text of the page."""
    return "\n".join((*_views(room), *_store_views())) + "\n"


def _views(room: Room) -> Iterator[str]:
    yield _HEAD
    yield from (f"* [`{name}`](#{name}): {view.rows}" for name, view in VIEWS.items())
    for name, view in VIEWS.items():
        sample = _sample(room, name)
        yield f"\n## {name}\n\n{view.rows[0].upper()}{view.rows[1:]}.\n"
        cells = zip(view.columns, sample, strict=True)
        lines = ((f"`{one.name}`", one.type, one.unit, one.meaning, value) for one, value in cells)
        yield from rows(("column", "type", "unit", "meaning", "for example"), lines)
        yield f"\n```sql\n{_SAMPLES[name]}\n```\n\n```text\n{answer(room, _SAMPLES[name])}\n```"


def _sample(room: Room, name: str) -> list[str]:
    """Return a value of each column that has any: the first one that is not NULL."""
    order = "ALL" if name in ("feature_standing", "views") else "seq"
    cells = ["" for _ in VIEWS[name].columns]
    for said in room.ask(f"FROM {name} ORDER BY {order}"):
        for row in said.rows if isinstance(said, Page) else ():
            for place, value in enumerate(row):
                if not cells[place] and value not in (None, "", [], {}):
                    cells[place] = f"`{brief(str(value).lower() if isinstance(value, bool) else value, _CELL)}`"
    return cells


def _store_views() -> Iterator[str]:
    yield f"\n{_STORE}"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        record(Path(folder) / "run.db", copy)
        with closing(sqlite3.connect(f"file:{copy}?mode=ro", uri=True)) as db:
            for name, (what, meanings) in STORE_VIEWS.items():
                yield f"\n## {name} in the file\n\n{what[0].upper()}{what[1:]}.\n"
                lines = ((f"`{column}`", meanings[column], sample) for column, sample in _store_sample(db, name))
                yield from rows(("column", "meaning", "for example"), lines)


def _store_sample(db: sqlite3.Connection, name: str) -> Iterator[tuple[str, str]]:
    """Yield each column of a view, and a value in it."""
    found = db.execute(f"SELECT * FROM {name}")
    columns = [one for one, *_ in found.description]
    every = found.fetchall()
    for place, column in enumerate(columns):
        value = next((row[place] for row in every if row[place] not in (None, "")), "")
        said = re.sub(r"\b[0-9a-f]{12}\b", "4f2a90c1d7e3", str(value))
        said = re.sub(r"\b[0-9a-f]{10}\b", "9c01d2e3f4", said)
        # Steps say themselves when they were made, by the real clock.
        said = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "2026-01-05T09:00:00.500000Z", said)
        yield column, f"`{brief(said, _CELL)}`" if said else ""
