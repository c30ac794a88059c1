"""Progress: features and tasks, trading accounts, and counters in the states of other harnesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from orchestrator.analysis.answers.answer import Answer, Cell, Table, listed, moment, money, seconds, share, shown, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.frames.run_tables import what_is_gone
from orchestrator.analysis.presets.coding_questions import Feature, Worked, worked
from orchestrator.analysis.presets.trading_questions import Account, Drawdown, Together, accounts, shared_accounts

Row = tuple[Cell, ...]
_FEATURES = (
    "harness what listed passed blocked pending regressed set_backs tries interrupted passed_at_once tries_to_pass_median "
    "tries_to_pass_max passed_per_h left_low_s left_high_s"
)
_TRADING = (
    "harness begin end steps first_equity last_equity gain_share yearly_gain_share max_drawdown_share turnover turns "
    "exposure_share fees trades refused expired sales hit_share sharpe"
)
_ACCOUNTS = "account harnesses first_equity last_equity gain_share fees trades positions"
_ACCOUNTS_NOTE = "The sum of the harnesses that share an account; what nobody has been allotted is not in it."
_STANDINGS = ("blocked", "pending", "passed")
_SYMBOLS = "harness symbol trades sales hit_share turnover fees gain"
_FEATURES_NOTE = (
    "A try counts if it came to an end; interrupted ones are listed apart. regressed: passed, then set back. The pace is by "
    "the clock on the wall, pauses included. left_low_s to left_high_s: what is left takes that long in 80 % of resamples of "
    "the times between passes so far; empty where it has ended, or fewer than five have passed. What is blocked waits for "
    "a person, and is not in it."
)
_TRADING_NOTE = (
    "By the formulas of the trading report. Gains are of the equity after the first step; hits are sales that brought more "
    "than their units had cost on average, fees included; purchases that cover a short position count as sales. The gains of "
    "symbols leave out what loans have cost. exposure_share: what is not cash, the mean of all steps; "
    "unlike in the report, short positions count as negative. sharpe: mean over deviation of the returns from day to day, "
    "for as many days a year as were seen, without a riskless rate and as if days were "
    "independent; empty for less than a month or 20 days."
)


def answer(run: Run, *, harness: str | None = None) -> Answer:
    """Return the progress of each harness."""
    run.expect()
    lists, books = worked(run, harness), accounts(run, harness)
    kinds = {one.harness: one.what for one in lists} | {one.harness: "trading" for one in books}
    every = _harnesses(run, harness)
    others = [row for row in every if row[0] not in kinds]
    counters = _counters(run, [str(row[0]) for row in others])
    overview = [(shown(row[0]), kinds.get(row[0], "steps"), *row[1:3], *map(moment, row[3:])) for row in every]
    tables = [Table("harnesses", "harness what status steps first last", overview)]
    if lists:
        tables += _of_lists(lists)
    if books:
        tables += _of_books(books)
    if counters:
        note = "The last values that the steps have set: whole numbers and others, at the top of the state."
        tables.append(Table("counters", "harness counter value step", counters, note))
    told = [*(_said(one) for one in lists), *(_said_of(one) for one in books), *_told(others, counters)]
    told += what_is_gone(run, [row[0] for row in every])
    return Answer("progress", tables, told or ["Nothing is recorded yet."])


def _harnesses(run: Run, harness: str | None) -> list[tuple[Any, ...]]:
    return run.rows(
        """SELECT harness, status, steps, first_timestamp, last_timestamp FROM harnesses
           WHERE harness = coalesce(?, harness) ORDER BY harness""",
        [harness],
    )


# lists


def _of_lists(lists: Sequence[Worked]) -> list[Table]:
    distribution = [
        (shown(one.harness), tries, count) for one in lists for tries, count in sorted(Counter(one.tries_to_pass).items())
    ]
    names = {(one.harness, each.id): shown(each.id) for one in lists for each in one.features}
    burn_up = [
        (harness, moment(each.at), each.step, names[one.harness, each.feature], each.event, each.passing, each.listed)
        for one in lists
        for harness in (shown(one.harness),)
        for each in one.changes
    ]
    return [
        Table("features", _FEATURES, [_features(one) for one in lists], _FEATURES_NOTE),
        Table("tries_to_pass", "harness tries features", distribution),
        Table("burn_up", "harness timestamp step feature event passing listed", burn_up),
        Table(
            "standing",
            "harness feature status tries tries_to_pass set_backs passed_step last_failure",
            [
                _standing(harness, names[one.harness, each.id], each)
                for one in lists
                for harness in (shown(one.harness),)
                for each in sorted(one.features, key=lambda each: _STANDINGS.index(each.status))
            ],
        ),
    ]


def _features(one: Worked) -> Row:
    projected = one.projected
    return (
        *(shown(one.harness), one.what, len(one.features), *(len(one.of(each)) for each in ("passed", "blocked", "pending"))),
        *(len(one.regressed), sum(each.regressions for each in one.features), sum(each.tries for each in one.features)),
        *(sum(each.interruptions for each in one.features), one.tries_to_pass.count(1), one.tries_median),
        *(max(one.tries_to_pass, default=None), one.per_hour),
        *((None, None) if projected is None else (projected.low, projected.high)),
    )


def _standing(harness: str, feature: str, each: Feature) -> Row:
    head = (harness, feature, each.status, each.tries, each.tries_to_pass)
    return (*head, each.regressions, each.passed_step, each.last_failure)


def _said(one: Worked) -> str:
    every, passed, blocked = len(one.features), len(one.of("passed")), one.of("blocked")
    parts = [f"{shown(one.harness)}: {passed} of {times(every, one.what[:-1])} passed"]
    if one.tries_to_pass:
        most = max(one.tries_to_pass)
        parts.append(f"{one.tries_to_pass.count(1)} at the first try" + (f", one after {most}" if most > 1 else ""))
    if blocked:
        parts.append(f"blocked: {listed(shown(each.id) for each in blocked)}")
    if one.regressed:
        parts.append(f"set back after they had passed: {listed(shown(each.id) for each in one.regressed)}")
    if one.projected is not None:
        low, high = seconds(one.projected.low), seconds(one.projected.high)
        parts.append(f"as it has gone so far, the {one.left} that are left take {low} to {high}")
    elif one.is_going_on and one.left:
        parts.append("too few have passed yet to say how long the rest takes")
    return "; ".join(parts) + "."


# trading


def _of_books(books: Sequence[Account]) -> list[Table]:
    symbols: list[Row] = []
    for one in books:
        for name, each in sorted(one.symbols.items()):
            hits = each.hits / each.sales if each.sales and one.is_known else None
            money_of = (money(each.turnover), money(each.fees), money(each.gain) if one.is_known else None)
            symbols.append((shown(one.harness), shown(name), each.fills, each.sales, hits, *money_of))
    spells = [(one, name, spell) for one in books for name in ("deepest", "longest") if (spell := getattr(one, name))]
    together = [_together(one) for one in shared_accounts(books)]
    return [
        Table("trading", _TRADING, [_trading(one) for one in books], _TRADING_NOTE),
        *([Table("accounts", _ACCOUNTS, together, _ACCOUNTS_NOTE)] if together else []),
        Table(
            "symbols",
            _SYMBOLS,
            symbols,
            "gain: realised, less fees; what is held still is not in it. Empty where nothing tells what was held at first.",
        ),
        Table(
            "drawdowns",
            "harness which depth_share begin low end is_over length_s",
            [_drawdown(*each) for each in spells],
            "From the highest equity so far until it is reached again, by the time of the bars.",
        ),
    ]


def _together(one: Together) -> Row:
    held = ", ".join(f"{symbol} {units:f}" for symbol, units in sorted(one.units.items()) if units)
    money_of = (money(one.first), money(one.last), one.gain, money(one.fees))
    return (shown(one.name), shown(", ".join(one.harnesses)), *money_of, one.fills, shown(held))


def _trading(one: Account) -> Row:
    hits, sales = one.hits
    return (
        *(shown(one.harness), moment(one.begin), moment(one.end), one.steps, money(one.first), money(one.last)),
        *(float(one.gain), one.yearly_gain, one.deepest.depth if one.deepest else 0.0, money(one.turnover), one.turns),
        *(one.exposure / one.steps, money(one.fees), one.fills, one.refused, one.expired, sales),
        *(hits / sales if sales and hits is not None else None, one.sharpe),
    )


def _drawdown(one: Account, which: str, spell: Drawdown) -> Row:
    length = (spell.end - spell.begin).total_seconds()
    when = (moment(spell.begin), moment(spell.low), moment(spell.end))
    return (shown(one.harness), which, spell.depth, *when, spell.is_over, length)


def _said_of(one: Account) -> str:
    hits, sales = one.hits
    yearly = "" if one.yearly_gain is None else f", {one.yearly_gain:+.2%} a year"
    parts = [f"{shown(one.harness)}: equity {one.first:,.2f} to {one.last:,.2f}, {float(one.gain):+.2%}{yearly}"]
    if one.deepest is not None:
        parts.append(f"at worst {one.deepest.depth:.2%} below its height, on {one.deepest.low:%Y-%m-%d}")
    parts.append(f"{times(one.fills, 'trade')}, fees {one.fees:,.2f}")
    if sales and hits is not None:
        parts.append(f"{hits} of {times(sales, 'sale')} won, {share(hits / sales)}")
    if one.after:
        parts.append(f"trades are those after step {one.after}, where what is left begins")
    if not one.is_known:
        parts.append("what sales have won is not known, as nothing tells what was held then")
    return "; ".join(parts) + "."


# whatever else


def _counters(run: Run, names: Sequence[str]) -> list[Row]:
    if not names:
        return []
    rows = run.rows(
        """
        SELECT harness, entry.key AS counter, arg_max(entry.value, step_number), max(step_number) FROM (
            SELECT harness, step_number,
                   unnest(map_entries(json_transform(json_extract(delta, '$.set'), '"MAP(VARCHAR, JSON)"'))) AS entry
            FROM step_results WHERE list_contains(?, harness) AND json_type(delta, '$.set') = 'OBJECT'
        ) WHERE json_type(entry.value) IN ('UBIGINT', 'BIGINT', 'DOUBLE') GROUP BY harness, counter ORDER BY harness, counter
        """,
        [list(names)],
    )
    return [(shown(name), shown(counter), str(value), step) for name, counter, value, step in rows]


def _told(rows: Iterable[tuple[Any, ...]], counters: Sequence[Row]) -> list[str]:
    said = list[str]()
    for name, status, steps, *_ in rows:
        of = [f"{counter} {value}" for owner, counter, value, _ in counters if owner == shown(name)]
        said.append(f"{shown(name)}: {status} after {times(steps, 'step')}{f'; {listed(of)}' if of else ''}.")
    return said
