"""What the views of a run are, column by column: what `views` tells in SQL, and `docs/reference/views.md` on a page. Pure.

The law: a view has exactly the columns that are described here, of these types; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from orchestrator.analysis.frames import VERSION
from orchestrator.analysis.sources.duckdb_session import quoted


@frozen
class Column:
    """One column of a view."""

    name: str
    type: str
    """As DuckDB writes it."""
    unit: str
    """`s` seconds, `share` 0 to 1, `money` in the currency of the account; empty where there is none."""
    meaning: str


@frozen
class View:
    """One view: what a row is, and the columns in their order."""

    rows: str
    columns: tuple[Column, ...]


def at(name: str, what: str) -> Column:
    """Return a column that says when something happened."""
    return Column(name, "TIMESTAMP", "UTC", f"when {what}")


SEQ = (
    Column("seq", "BIGINT", "", "place among all records: what happened before what"),
    at("timestamp", "it was recorded"),
)
HEAD = (
    *SEQ,
    Column("run", "VARCHAR", "", "the life of the program that recorded it; empty for messages from elsewhere"),
    Column("harness", "VARCHAR", "", "whose it is; empty for what concerns all"),
    Column("attempt", "INTEGER", "", "which life of the harness, from 1; 0 before the first"),
)
WHERE = (*HEAD, Column("step_number", "BIGINT", "", "the step it belongs to, made or being made; else the last one before it"))


_MONEY = "DECIMAL(38,18)"

WORK: dict[str, View] = {
    "features": View(
        "a row for each try at a feature, or at a task of a pipeline, and for each change of where one stands",
        (
            *WHERE,
            Column("kind", "VARCHAR", "", "what the step did: `turn`, `recheck`, `recover`, `orders`, `judge`, …"),
            Column("feature", "VARCHAR", "", "its id"),
            Column("turn", "INTEGER", "", "which try at it, from 1"),
            Column("is_try", "BOOLEAN", "", "whether it was a try, and not something said of it"),
            Column("status", "VARCHAR", "", "`passed`, `not_validated`, `interrupted`, `failed`, `set_back`, `blocked`, …"),
            Column("passed", "BOOLEAN", "", "whether the try passed; NULL if it counts as none"),
            Column("regressed", "BOOLEAN", "", "whether it had passed before, and does not any more"),
            Column("blocked", "BOOLEAN", "", "whether it waits for a person since"),
            Column("reason", "VARCHAR", "", "why, in at most 300 characters"),
            Column("validator", "VARCHAR", "", "who judged it"),
            Column("commit", "VARCHAR", "", "the commit of the work, if there is a repository"),
            Column("duration_s", "DOUBLE", "s", "how long the try took"),
            Column("agent_s", "DOUBLE", "s", "thereof the agent"),
            Column("tokens", "BIGINT", "", "what the agent says it has used"),
            Column("money", _MONEY, "money", "what the agent says it has cost"),
            Column("tool_calls", "BIGINT", "", "what the agent says it has called"),
        ),
    ),
    "feature_standing": View(
        "a row for each feature or task that was ever listed, and where it stands",
        (
            Column("harness", "VARCHAR", "", "whose it is"),
            Column("feature", "VARCHAR", "", "its id"),
            Column("status", "VARCHAR", "", "`passed`, `pending` or `blocked`"),
            Column("tries", "BIGINT", "", "that have a result"),
            Column("tries_to_pass", "BIGINT", "", "until it first passed; NULL if it never has"),
            Column("interruptions", "BIGINT", "", "tries without a result"),
            Column("regressions", "BIGINT", "", "how often it was set back"),
            Column("first_step", "BIGINT", "", "the first step about it"),
            Column("last_step", "BIGINT", "", "the last step about it"),
            Column("passed_step", "BIGINT", "", "the step in which it first passed"),
            at("first_at", "the first step about it was made"),
            at("passed_at", "it first passed"),
            at("last_at", "the last step about it was made"),
            Column("duration_s", "DOUBLE", "s", "of all its tries"),
            Column("agent_s", "DOUBLE", "s", "thereof the agent"),
            Column("tokens", "BIGINT", "", "of all its tries"),
            Column("money", _MONEY, "money", "of all its tries"),
            Column("last_failure", "VARCHAR", "", "why it last did not pass"),
            Column("listed_step", "BIGINT", "", "the step that listed it"),
        ),
    ),
    "trades": View(
        "a row for each fill of a trading harness",
        (
            *WHERE,
            at("time", "it was filled, as the venue says"),
            at("bar_time", "the bar that the step was about began"),
            Column("symbol", "VARCHAR", "", "what was traded"),
            Column("side", "VARCHAR", "", "`buy` or `sell`"),
            Column("quantity", _MONEY, "", "units of it"),
            Column("price", _MONEY, "money", "of a unit"),
            Column("fee", _MONEY, "money", "of the fill"),
            Column("realised", _MONEY, "money", "what a sale brought beyond average cost; NULL if it is one of several"),
            Column("order_id", "VARCHAR", "", "as the harness calls the order"),
            Column("fill_id", "VARCHAR", "", "as the venue calls the fill"),
            Column("wanted_by", "VARCHAR", "", "what had the order placed"),
        ),
    ),
    "equity": View(
        "a row for each step of a trading harness: where the account stood after it",
        (
            *WHERE,
            at("time", "the bar began that the step was about"),
            Column("equity", _MONEY, "money", "what the account is worth"),
            Column("cash", _MONEY, "money", "thereof in cash"),
            Column("exposure_share", "DOUBLE", "share", "of the equity that is not in cash; negative if more is"),
            Column("drawdown_share", "DOUBLE", "share", "below the highest equity until then"),
            Column("risk", "VARCHAR", "", "what the limits said"),
            Column("latched", "BOOLEAN", "", "whether no order may be placed"),
            Column("positions", "JSON", "", "units by symbol"),
        ),
    ),
}


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
            at("expires", "it cannot be answered any more"),
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
