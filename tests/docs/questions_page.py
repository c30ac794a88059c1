"""`docs/reference/questions.md`."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.analysis.sql.sql_room import Room
from tests.docs.tables import answer
from tests.docs.worked_questions import QUESTIONS

_HEAD = """\
# Worked questions

Each is asked of `run.jsonl`, which lies beside this page: three minutes of seven harnesses that trade, make
features, crash, wait for people, read mail and go round in circles. Try them, and change them:

```console
$ orchestrator sql docs/reference/run.jsonl --interactive
```

or ask them of a run of your own, a store, a log, or exported Parquet. The columns are described in [views.md](views.md). What
follows each query is what the command shows; a test sees to it.
"""


def page(room: Room) -> str:
    """Return the text of the page."""
    return "\n".join(_lines(room))


def _lines(room: Room) -> Iterator[str]:
    yield _HEAD
    for number, one in enumerate(QUESTIONS, 1):
        query = one.query.strip()
        yield f"## {number}. {one.title}\n\n{one.text}\n\n```sql\n{query}\n```\n\n```text\n{answer(room, query)}\n```\n"
