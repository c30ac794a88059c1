"""What the views of a run are, column by column: what `views` tells in SQL, and `docs/views.md` on a page. Pure.

The law: a view has exactly the columns that are described here, of these types; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.analysis.duck import quoted
from orchestrator.analysis.frames import VERSION
from orchestrator.analysis.sql.columns_work import WORK
from orchestrator.analysis.sql.described import HEAD, SEQ, WHERE, Column, View, at

VIEWS: dict[str, View] = {
    "records": View(
        "everything that was recorded, in one order; the other views are made of it",
        (
            *HEAD,
            Column("step", "BIGINT", "", "the step it belongs to: of a step its number, of an event the last step before it"),
            Column("kind", "VARCHAR", "", "`step`, `message`, `intent`, `outcome`, `output`, `budget`, … or that of an event"),
            Column("body", "JSON", "", "all else that is known of it"),
        ),
    ),
    "steps": View(
        "a row for each committed step",
        (
            *HEAD,
            Column("step_number", "BIGINT", "", "counts from 1 in each harness, without gaps, over all its attempts"),
            Column("input", "JSON", "", "what the step was given"),
            Column("output", "JSON", "", "what came of it"),
            Column("delta", "JSON", "", "what it changed of the state; `{}` if nothing"),
            Column("summary", "VARCHAR", "", "the change in words, if the harness gave any"),
            Column("work_s", "DOUBLE", "s", "from the resumption of `execute()` to its `yield`; NULL if not recorded"),
            Column("agent_s", "DOUBLE", "s", "thereof with an agent"),
            Column("effects_s", "DOUBLE", "s", "thereof in effects: `once()`"),
            Column("waiting_s", "DOUBLE", "s", "thereof waiting: for time, messages, approvals, or a budget"),
            Column("held_s", "DOUBLE", "s", "held by an operator before it"),
            Column("previous_commit_s", "DOUBLE", "s", "from the `yield` of the step BEFORE this one until that was on disk"),
            Column("consumed", "BIGINT[]", "", "`seq` of each message that it used up"),
        ),
    ),
    "events": View(
        "a row for each record that is neither a step nor of an effect: the lives of harnesses, messages, approvals, outputs",
        (
            *WHERE,
            Column("kind", "VARCHAR", "", "`started`, `failed`, `restarting`, `completed`, `stopped`, `message`, …"),
            Column("cause", "VARCHAR", "", "why, if it says so"),
            Column("error", "VARCHAR", "", "class of the error, of `failed`"),
            Column("body", "JSON", "", "all else that is known of it"),
        ),
    ),
    "messages": View(
        "a row for each message that was sent to a harness",
        (
            *SEQ,
            Column("harness", "VARCHAR", "", "to whom"),
            Column("sender", "VARCHAR", "", "from whom"),
            Column("message", "JSON", "", "what was sent"),
            Column("consumed_step", "BIGINT", "", "the step that used it up; NULL if none has yet"),
            Column("body", "JSON", "", "the same as `message`, as the file of a store has it"),
        ),
    ),
    "effects": View(
        "a row for each effect of each step: its newest try, and what became of that",
        (
            *WHERE,
            Column("key", "VARCHAR", "", "its name within the step"),
            Column("outcome", "VARCHAR", "", "`confirmed`, `refused`, `not_done`, `unknown`; `begun` if that is all there is"),
            Column("arguments", "JSON", "", "what it was given"),
            Column("result", "JSON", "", "what it came to, if it is confirmed"),
            Column("reason", "VARCHAR", "", "why, if it is not confirmed; else empty"),
            Column("idempotent", "BOOLEAN", "", "whether doing it twice is the same as doing it once"),
            Column("settled_by", "VARCHAR", "", "`operator` if a person has said what became of it; else empty"),
            at("ended", "its outcome was recorded"),
            Column("took_s", "DOUBLE", "s", "from `timestamp` to `ended`, by the wall clock"),
            Column("tries", "BIGINT", "", "how often it was begun"),
        ),
    ),
    "approvals": View(
        "a row for each request for an approval",
        (
            *WHERE,
            Column("id", "VARCHAR", "", "what it is answered by"),
            Column("key", "VARCHAR", "", "its name within the step"),
            Column("category", "VARCHAR", "", "of the action"),
            Column("summary", "VARCHAR", "", "the action in words"),
            Column("arguments", "JSON", "", "the action exactly"),
            Column("digest", "VARCHAR", "", "a hash of the action: the answer is for nothing else"),
            at("expires", "it can not be answered any more"),
            Column(
                "verdict",
                "VARCHAR",
                "",
                "`approved` or `denied`, which wins, also once it is reopened; NULL if nobody has answered",
            ),
            Column("answered_by", "VARCHAR", "", "who"),
            Column("reason", "VARCHAR", "", "why"),
            Column("used", "BOOLEAN", "", "whether the action was begun on the strength of it"),
            at("answered", "it was answered"),
            Column("waited_s", "DOUBLE", "s", "from the request to the answer; NULL if there is none"),
        ),
    ),
    "attempts": View(
        "a row for each attempt that was started, and how it ended",
        (
            Column("seq", "BIGINT", "", "of the event that started it"),
            Column("run", "VARCHAR", "", "the life of the program"),
            Column("harness", "VARCHAR", "", "whose"),
            Column("attempt", "INTEGER", "", "counts from 1 in each harness"),
            at("started", "it began"),
            at("ended", "it ended; NULL if it has not, or was killed"),
            Column("took_s", "DOUBLE", "s", "from `started` to `ended`"),
            Column("after_step", "BIGINT", "", "the last step before it; 0 if there was none"),
            Column("last_step", "BIGINT", "", "the last step at its end"),
            Column("steps", "BIGINT", "", "how many it made"),
            Column(
                *("ended_by", "VARCHAR", ""),
                "kind of event; `taken_down` if it ended for the sake of a sibling, which is no failure; `killed` if nothing "
                "was recorded of its end, and a later one began; NULL if it may be under way",
            ),
            Column("cause", "VARCHAR", "", "why it ended, if that is said"),
            Column("error", "VARCHAR", "", "class of the error, if it failed"),
            Column("restart_delay_s", "DOUBLE", "s", "how long the next one was put off; NULL if there was to be none"),
        ),
    ),
    "harnesses": View(
        "a row for each harness, and where it stands",
        (
            Column("seq", "BIGINT", "", "of its first record"),
            Column("harness", "VARCHAR", "", "its name"),
            Column("status", "VARCHAR", "", "`running`, `backing_off`, `paused`, `completed`, `failed`, `stopped`, …"),
            Column("attempt", "INTEGER", "", "the last one"),
            Column("current_step", "BIGINT", "", "its last step; 0 if there is none"),
            Column("steps", "BIGINT", "", "how many there are in what was opened"),
            at("first_timestamp", "its first record was made"),
            at("last_timestamp", "its last record was made"),
        ),
    ),
    "outputs": View(
        "a row for each line that a program which a harness runs has written",
        (
            *WHERE,
            Column("line", "VARCHAR", "", "without its end"),
            Column("source", "VARCHAR", "", "where it came from, such as `stdout`; else empty"),
        ),
    ),
    "attachments": View(
        "a row for each thing that was put on record beside a step",
        (
            *WHERE,
            Column("kind", "VARCHAR", "", "`evidence`, `task` or `guardrail`"),
            Column("body", "JSON", "", "what it says"),
        ),
    ),
    "budgets": View(
        "a row for each change of a budget",
        (
            *WHERE,
            Column("change", "VARCHAR", "", "`funded`, `reserved`, `settled`, `overspent`, `forfeited` or `charged`"),
            Column("pools", "VARCHAR[]", "", "the budgets that it concerns"),
            Column("reservation", "BIGINT", "", "`seq` of the reservation that it is about"),
            Column("amounts", "JSON", "", "what was reserved, by field"),
            Column("spent", "JSON", "", "what it came to, by field"),
            Column("limits", "JSON", "", "what may be spent, by field"),
        ),
    ),
    **WORK,
    "views": View(
        "a row for each column of each view: this page, in SQL",
        (
            Column("view", "VARCHAR", "", "its name"),
            Column("version", "INTEGER", "", "of its columns: a new one may come, none goes or changes within a version"),
            Column("position", "INTEGER", "", "of the column, from 1"),
            Column("column_name", "VARCHAR", "", "of the column"),
            Column("type", "VARCHAR", "", "of DuckDB"),
            Column("unit", "VARCHAR", "", "of a number: `s` seconds, `share` 0 to 1; else empty"),
            Column("meaning", "VARCHAR", "", "in words"),
        ),
    ),
}
"""Every view that a query may read, by its name."""


def about() -> str:
    """Return the query of the view `views`."""
    rows = ", ".join(_rows())
    return f'SELECT * FROM (VALUES {rows}) t("view", version, "position", column_name, "type", unit, meaning)'


def _rows() -> Iterator[str]:
    for name, view in VIEWS.items():
        for place, column in enumerate(view.columns, 1):
            texts = ", ".join(map(quoted, (column.name, column.type, column.unit, column.meaning)))
            yield f"({quoted(name)}, {VERSION}, {place}, {texts})"
