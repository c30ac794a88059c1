"""Descriptions of the views of a run, column by column: for the view `views` in SQL, and `docs/reference/views.md`. Pure.

Invariant: a view has exactly the columns described here, with these types; a test compares them.
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
    """DuckDB's name of the type."""
    unit: str
    """`s` seconds, `share` 0 to 1, `money` in the currency of the account; empty if there is none."""
    meaning: str


@frozen
class View:
    """A view: what a row is, and its columns in order."""

    rows: str
    columns: tuple[Column, ...]


def at(name: str, what: str) -> Column:
    """Return a column with the time of something."""
    return Column(name, "TIMESTAMP", "UTC", f"when {what}")


SEQ = (
    Column("seq", "BIGINT", "", "position among all records, in order of recording"),
    at("timestamp", "it was recorded"),
)
HEAD = (
    *SEQ,
    Column("run", "VARCHAR", "", "the run that recorded it; empty for messages from elsewhere"),
    Column("harness", "VARCHAR", "", "the harness; empty for records about all of them"),
    Column("attempt", "INTEGER", "", "number of the attempt, from 1; 0 before the first"),
)
WHERE = (*HEAD, Column("step_number", "BIGINT", "", "the step it belongs to, recorded or in progress; else the last one"))


_MONEY = "DECIMAL(38,18)"

WORK: dict[str, View] = {
    "features": View(
        "a row for each try at a feature, or at a task of a pipeline, and for each change of its status",
        (
            *WHERE,
            Column("kind", "VARCHAR", "", "what the step did: `turn`, `recheck`, `recover`, `orders`, `judge`, …"),
            Column("feature", "VARCHAR", "", "its id"),
            Column("turn", "INTEGER", "", "which try at it, from 1"),
            Column("is_try", "BOOLEAN", "", "whether it was a try, and not a change of status"),
            Column("status", "VARCHAR", "", "`passed`, `not_validated`, `interrupted`, `failed`, `set_back`, `blocked`, …"),
            Column("passed", "BOOLEAN", "", "whether the try passed; NULL if it counts as none"),
            Column("regressed", "BOOLEAN", "", "whether it had passed before, and no longer does"),
            Column("blocked", "BOOLEAN", "", "whether it waits for human action since then"),
            Column("reason", "VARCHAR", "", "why, in at most 300 characters"),
            Column("validator", "VARCHAR", "", "the validator"),
            Column("commit", "VARCHAR", "", "the commit of the work, if there is a repository"),
            Column("duration_s", "DOUBLE", "s", "how long the try took"),
            Column("agent_s", "DOUBLE", "s", "the agent's part of it"),
            Column("tokens", "BIGINT", "", "usage reported by the agent"),
            Column("money", _MONEY, "money", "cost reported by the agent"),
            Column("tool_calls", "BIGINT", "", "calls reported by the agent"),
        ),
    ),
    "feature_standing": View(
        "a row for each feature or task that was ever listed, with its status",
        (
            Column("harness", "VARCHAR", "", "the harness"),
            Column("feature", "VARCHAR", "", "its id"),
            Column("status", "VARCHAR", "", "`passed`, `pending` or `blocked`"),
            Column("tries", "BIGINT", "", "tries with a result"),
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
            Column("agent_s", "DOUBLE", "s", "the agent's part of it"),
            Column("tokens", "BIGINT", "", "of all its tries"),
            Column("money", _MONEY, "money", "of all its tries"),
            Column("last_failure", "VARCHAR", "", "reason why it last did not pass"),
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
            Column("realised", _MONEY, "money", "gain of a sale over average cost; NULL if it is one of several"),
            Column("order_id", "VARCHAR", "", "the harness's id of the order"),
            Column("fill_id", "VARCHAR", "", "the venue's id of the fill"),
            Column("wanted_by", "VARCHAR", "", "why the order was placed"),
        ),
    ),
    "equity": View(
        "a row for each bar of a trading harness: the account after it; several bars of a backtest may share a step",
        (
            *WHERE,
            at("time", "the bar began that the step was about"),
            Column("equity", _MONEY, "money", "value of the account"),
            Column("cash", _MONEY, "money", "the part in cash"),
            Column("exposure_share", "DOUBLE", "share", "share of the equity that is not in cash; negative if more is"),
            Column("drawdown_share", "DOUBLE", "share", "below the highest equity so far"),
            Column("risk", "VARCHAR", "", "result of the limits"),
            Column("latched", "BOOLEAN", "", "whether placing orders is blocked"),
            Column("positions", "JSON", "", "units by symbol"),
        ),
    ),
}


VIEWS: dict[str, View] = {
    "records": View(
        "all records, in one order; the other views are derived from it",
        (
            *HEAD,
            Column("step", "BIGINT", "", "the step it belongs to: of a step its number, of an event the last step before it"),
            Column("kind", "VARCHAR", "", "`step`, `message`, `intent`, `outcome`, `output`, `budget`, … or that of an event"),
            Column("body", "JSON", "", "all other fields"),
        ),
    ),
    "steps": View(
        "a row for each committed step",
        (
            *HEAD,
            Column("step_number", "BIGINT", "", "counts from 1 in each harness, without gaps, over all its attempts"),
            Column("input", "JSON", "", "input of the step"),
            Column("output", "JSON", "", "output of the step"),
            Column("delta", "JSON", "", "change of the state; `{}` if none"),
            Column("summary", "VARCHAR", "", "summary of the change, if the harness gave one"),
            Column("work_s", "DOUBLE", "s", "from the resumption of `execute()` to its `yield`; NULL if not recorded"),
            Column("agent_s", "DOUBLE", "s", "time in agents, part of `work_s`"),
            Column("effects_s", "DOUBLE", "s", "time in effects (`once()`), part of `work_s`"),
            Column("waiting_s", "DOUBLE", "s", "time waiting for time, messages, approvals, or a budget, part of `work_s`"),
            Column("held_s", "DOUBLE", "s", "paused by an operator before it"),
            Column("previous_commit_s", "DOUBLE", "s", "from the `yield` of the step BEFORE this one until that was on disk"),
            Column("consumed", "BIGINT[]", "", "`seq` of each message that it consumed"),
        ),
    ),
    "events": View(
        "a row for each record that is neither a step nor of an effect: lifecycle events, messages, approvals, outputs",
        (
            *WHERE,
            Column("kind", "VARCHAR", "", "`started`, `failed`, `restarting`, `completed`, `stopped`, `message`, …"),
            Column("cause", "VARCHAR", "", "cause, if there is one"),
            Column("error", "VARCHAR", "", "class of the error of `failed`"),
            Column("body", "JSON", "", "all other fields"),
        ),
    ),
    "messages": View(
        "a row for each message that was sent to a harness",
        (
            *SEQ,
            Column("harness", "VARCHAR", "", "the recipient"),
            Column("sender", "VARCHAR", "", "the sender"),
            Column("message", "JSON", "", "the message"),
            Column("consumed_step", "BIGINT", "", "the step that consumed it; NULL if none has yet"),
            Column("body", "JSON", "", "the same as `message`, as in the view of the store's file"),
        ),
    ),
    "effects": View(
        "a row for each effect of each step: its newest attempt and outcome",
        (
            *WHERE,
            Column("key", "VARCHAR", "", "its name within the step"),
            Column(
                "outcome",
                "VARCHAR",
                "",
                "`confirmed`, `refused`, `not_done`, `unknown`, `failed`, `interrupted`; `begun` if there is no outcome",
            ),
            Column("arguments", "JSON", "", "arguments of the effect"),
            Column("result", "JSON", "", "its result, if it is confirmed"),
            Column("reason", "VARCHAR", "", "reason, if it is not confirmed; else empty"),
            Column("idempotent", "BOOLEAN", "", "whether doing it twice is the same as doing it once"),
            Column("keep", "BOOLEAN", "", "whether a call of it that is cut off is a result, which blocks nothing"),
            Column("settled_by", "VARCHAR", "", "`operator` if a person settled it; else empty"),
            at("ended", "its outcome was recorded"),
            Column("took_s", "DOUBLE", "s", "until the call ended, by the wall clock; NULL if only a person has settled it"),
            Column("tries", "BIGINT", "", "how often it was begun"),
        ),
    ),
    "approvals": View(
        "a row for each approval request",
        (
            *WHERE,
            Column("id", "VARCHAR", "", "id for the answer"),
            Column("key", "VARCHAR", "", "its name within the step"),
            Column("category", "VARCHAR", "", "category of the action"),
            Column("summary", "VARCHAR", "", "summary of the action"),
            Column("arguments", "JSON", "", "arguments of the action"),
            Column("digest", "VARCHAR", "", "hash of the action; the answer is valid for nothing else"),
            at("expires", "it expires"),
            Column(
                "verdict",
                "VARCHAR",
                "",
                "`approved` or `denied`, which takes precedence, even when reopened; NULL without an answer",
            ),
            Column("answered_by", "VARCHAR", "", "who"),
            Column("reason", "VARCHAR", "", "why"),
            Column("used", "BOOLEAN", "", "whether the action was begun with this approval"),
            at("answered", "it was answered"),
            Column("waited_s", "DOUBLE", "s", "from the request to the answer; NULL if there is none"),
        ),
    ),
    "attempts": View(
        "a row for each attempt that was started, and how it ended",
        (
            Column("seq", "BIGINT", "", "of the event that started it"),
            Column("run", "VARCHAR", "", "the run"),
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
                "kind of event; `taken_down` if it ended because of a sibling, which is not a failure; `killed` if nothing "
                "was recorded of its end, and a later one began; NULL if it may be running",
            ),
            Column("cause", "VARCHAR", "", "cause of its end, if there is one"),
            Column("error", "VARCHAR", "", "class of the error, if it failed"),
            Column("restart_delay_s", "DOUBLE", "s", "delay of the next attempt; NULL if there was none"),
        ),
    ),
    "harnesses": View(
        "a row for each harness, with its status",
        (
            Column("seq", "BIGINT", "", "of its first record"),
            Column("harness", "VARCHAR", "", "its name"),
            Column("status", "VARCHAR", "", "`running`, `backing_off`, `paused`, `completed`, `failed`, `stopped`, …"),
            Column("attempt", "INTEGER", "", "number of the last attempt"),
            Column("current_step", "BIGINT", "", "number of its last step; 0 if there is none"),
            Column("steps", "BIGINT", "", "number of steps in what was opened"),
            at("first_timestamp", "its first record was made"),
            at("last_timestamp", "its last record was made"),
        ),
    ),
    "outputs": View(
        "a row for each line written by a program that a harness runs",
        (
            *WHERE,
            Column("line", "VARCHAR", "", "without its end"),
            Column("source", "VARCHAR", "", "source of the line, such as `stdout`; else empty"),
        ),
    ),
    "attachments": View(
        "a row for each record attached to a step",
        (
            *WHERE,
            Column("kind", "VARCHAR", "", "`evidence`, `task` or `guardrail`"),
            Column("body", "JSON", "", "content of the record"),
        ),
    ),
    "transcripts": View(
        "a row for each transcript of an agent's turn; `orchestrator transcript` shows what was said",
        (
            *WHERE,
            Column("agent", "VARCHAR", "", "name of the agent"),
            Column("session", "VARCHAR", "", "id of the conversation that the turn belongs to; empty if it stands alone"),
            Column("turn", "BIGINT", "", "number of the turn within its session, from 1"),
            Column("model", "VARCHAR", "", "`provider:model` that was asked first"),
            Column("stop_reason", "VARCHAR", "", "why the model stopped last: `end_turn`, `max_tokens`, `refusal`, …"),
            Column("error", "VARCHAR", "", "why the turn ended without an answer; empty if it has one"),
            Column("messages", "BIGINT", "", "number of messages"),
            Column("model_calls", "BIGINT", "", "number of model calls"),
            Column("tool_calls", "BIGINT", "", "number of tool calls"),
            Column("tool_errors", "BIGINT", "", "number of those that failed"),
            Column("input_tokens", "BIGINT", "", "tokens read by the model, cached ones included"),
            Column("output_tokens", "BIGINT", "", "tokens written by the model, reasoning included"),
            Column("cached_tokens", "BIGINT", "", "those of `input_tokens` that came from the provider's cache"),
            Column("reasoning_tokens", "BIGINT", "", "those of `output_tokens` that were spent on reasoning"),
            Column("cost", _MONEY, "money", "of all model calls, in US dollars; 0 if the model has no price"),
            Column("compactions", "BIGINT", "", "how often older messages were replaced by a summary"),
            Column("file", "VARCHAR", "", "name of the file with the messages, if they are large; else NULL"),
        ),
    ),
    "budgets": View(
        "a row for each change of a budget",
        (
            *WHERE,
            Column("change", "VARCHAR", "", "`funded`, `reserved`, `settled`, `overspent`, `forfeited` or `charged`"),
            Column("pools", "VARCHAR[]", "", "the pools that it concerns"),
            Column("reservation", "BIGINT", "", "`seq` of its reservation"),
            Column("amounts", "JSON", "", "reserved amounts, by field"),
            Column("spent", "JSON", "", "charged amounts, by field"),
            Column("limits", "JSON", "", "limits, by field"),
        ),
    ),
    **WORK,
    "views": View(
        "a row for each column of each view: this page, in SQL",
        (
            Column("view", "VARCHAR", "", "its name"),
            Column(
                "version", "INTEGER", "", "of the columns: within a version columns may be added, none is removed or changed"
            ),
            Column("position", "INTEGER", "", "position of the column, from 1"),
            Column("column_name", "VARCHAR", "", "name of the column"),
            Column("type", "VARCHAR", "", "DuckDB's name of its type"),
            Column("unit", "VARCHAR", "", "unit of a number: `s` seconds, `share` 0 to 1; else empty"),
            Column("meaning", "VARCHAR", "", "description of the column"),
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
