"""What the views about features and trading are, column by column. Pure."""

from __future__ import annotations

from orchestrator.analysis.sql.described import WHERE, Column, View, at

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
