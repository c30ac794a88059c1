"""What a backtest runs: a trial for each combination and period, kept beside its store.

    STORE-backtest.json     the run file as it was, and each trial with a digest of all that its result depends on

Invariant: a trial is never mistaken for another one of its name. If its options, its data or its code have changed since it
began, the backtest does not start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import msgspec
from attrs import evolve, field, frozen

from harnesses.files.safe_files import draft_of
from harnesses.run_file_harnesses.trading_table import with_options
from harnesses.trading.risk import limits_from
from orchestrator.cli.backtest.parameter_grid import Options, label
from orchestrator.cli.backtest.walk_forward import Fold
from orchestrator.cli.run.run_file import RunFile, Table
from orchestrator.errors import UsageError

TRADING = "trading"
_DATES: Mapping[str, Callable[[str], date | time]] = {
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
}


@frozen(kw_only=True)
class Trial:
    """A harness to run: one combination over one period."""

    name: str
    """Of the harness in the store."""
    harness: str
    """Its name in the run file."""
    options: Options
    begin: datetime | None = None
    """The first slice; None for that of the recording."""
    since: datetime | None = None
    """From when on it trades; the slices before only warm up its indicators. None for all."""
    end: datetime | None = None
    """The first slice after it; None for the end of the recording."""
    fold: int | None = None
    dates: Mapping[str, str] = field(factory=dict[str, str])
    """Which options are dates or times, by name: JSON knows only texts."""
    digest: str = ""
    """Of all that its result depends on."""


@frozen
class Plan:
    """All trials of a store."""

    file: str
    """Absolute path of the run file."""
    text: str
    """Of the run file as it was when the backtest began."""
    trials: Mapping[str, Trial] = field(factory=dict[str, Trial])


def plan_of(store: Path) -> Path:
    """Return the file beside a store that says what its trials are."""
    return store.with_name(f"{store.name}-backtest.json")


def trading_table(file: RunFile, name: str | None) -> Table:
    """Return the table of the trading harness with this name; without a name, of the only one.

    Raises:
        UsageError: there is none, or there are several; it would trade elsewhere than on paper; or on margin with a
            shared account, which a run refuses.
    """
    tables = {one.config.name: one for one in file.harnesses if one.config.harness == TRADING}
    if not tables:
        raise UsageError(f"{file.path}: expected a harness with a table `trading`, was none; write one")
    if name is None and len(tables) > 1:
        raise UsageError(f"{file.path}: expected one trading harness, got {', '.join(tables)}; choose one with --harness NAME")
    if name is not None and name not in tables:
        raise UsageError(f"{file.path}: no trading harness {name!r}: expected one of {', '.join(tables)}; correct --harness")
    table = tables[name or next(iter(tables))]
    broker = table.config.arguments.get("broker", "paper")
    options: Mapping[str, object] = cast(Mapping[str, object], broker) if isinstance(broker, Mapping) else {}
    if broker != "paper" and "paper" not in options:
        raise UsageError(
            f'{table.where}: broker: expected one on paper for a backtest, got {broker!r:.100}; write broker = "paper", or '
            "broker = { paper = true, … } in a run file of its own"
        )
    if "account" in table.config.arguments and options.get("margin") is not None:
        raise UsageError(
            f"{table.where}: account: expected a broker without margin, because a sub-book has no loans, got one with it; "
            "leave out account or margin"
        )
    return table


def max_jump_of(table: Table) -> Decimal:
    """Return by how much a close may differ from the one before, as a part of it, so that it is believed."""
    limits = table.config.arguments.get("limits")
    given = {**(cast(Mapping[str, object], limits) if isinstance(limits, Mapping) else {}), **table.config.constraints}
    return limits_from({"max_jump": given["max_jump"]} if "max_jump" in given else {}).max_jump


def table_of(trial: Trial, table: Table) -> Table:
    """Return the table of a trial: that of its harness, with its name and options, and a venue of its own.

    A harness that shares an account has the cash that it has been allotted, all by itself.
    """
    arguments = dict(table.config.arguments)
    account = arguments.pop("account", None)
    if isinstance(account, Mapping):
        broker = arguments.get("broker")
        own = {"cash": cast(Mapping[str, object], account).get("cash")}
        arguments["broker"] = {"paper": True, **(broker if isinstance(broker, Mapping) else {}), **own}
        arguments.pop("cash", None)
    arguments["strategy"] = with_options(arguments.get("strategy", "rsi"), trial.options)
    if isinstance(arguments.get("broker"), Mapping):
        broker = cast(Mapping[str, object], arguments["broker"])
        arguments["broker"] = {key: value for key, value in broker.items() if key != "path"}
    elif "broker" not in arguments:
        arguments["broker"] = {"paper": True, **({"cash": arguments.pop("cash")} if "cash" in arguments else {})}
    config = evolve(table.config, name=trial.name, arguments=arguments, approve="", restart="transient")
    return evolve(table, config=config, supervisor=None, pool=None)


def trial_of(table: Table, options: Options, fold: Fold | None = None, *, is_test: bool = False) -> Trial:
    """Return the trial of a combination, over the whole recording or a part of it."""
    name, parts = table.config.name, [label(options)] if options else []
    dates = {key: type(value).__name__ for key, value in options.items() if type(value).__name__ in _DATES}
    if fold is None:
        return Trial(name=".".join([name, *parts]), harness=name, options=options, dates=dates)
    where = f"fold-{fold.number}{'-test' if is_test else ''}"
    return Trial(
        name=".".join([name, where, *parts]),
        harness=name,
        options=options,
        dates=dates,
        begin=fold.begin,
        since=fold.test if is_test else None,
        end=fold.end if is_test else fold.test,
        fold=fold.number,
    )


# digests


def stamp(trial: Trial, table: Table, data: Mapping[str, str]) -> Trial:
    """Return a trial with the digest of all that its result depends on.

    Args:
        data: digests of files, by path.
    """
    one = table_of(trial, table)
    facts: Any = [
        one.config.arguments,
        one.config.constraints,
        trial.begin,
        trial.since,
        trial.end,
        sorted(data.items()),
    ]
    return evolve(trial, digest=hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest())


def digests(table: Table) -> dict[str, str]:
    """Return the digests of the files that a harness is made from: its market data, and the modules of its functions."""
    found: dict[str, str] = {}
    for path in {*_data(table), *_modules(table.config.arguments)}:
        if path.is_file():
            with path.open("rb") as file:
                found[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _data(table: Table) -> Iterator[Path]:
    feed = table.config.arguments.get("feed")
    if isinstance(feed, Mapping):
        known = cast(Mapping[str, Any], feed)
        files = known.get("files")
        texts: list[object] = [*cast(Mapping[str, object], files).values()] if isinstance(files, Mapping) else []
        texts += [known["splits"]] if "splits" in known else []
        yield from (table.beside.absolute() / Path(str(text)).expanduser() for text in texts)


def _modules(value: object) -> Iterator[Path]:
    """Yield the files of the modules that functions are from."""
    if isinstance(value, Mapping):
        known = cast(Mapping[str, object], value)
        if isinstance(function := known.get("function"), str):
            spec = find_spec(function.partition(":")[0])
            if spec is not None and spec.origin:
                yield Path(spec.origin)
        for inner in known.values():
            yield from _modules(inner)


# the file


def read_plan(store: Path) -> Plan | None:
    """Return the plan beside a store; None if there is none yet.

    Raises:
        UsageError: it cannot be read.
    """
    path = plan_of(store)
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
        return evolve(plan, trials={name: _with_dates(trial) for name, trial in plan.trials.items()})
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, KeyError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}; give another --store") from error


def _with_dates(trial: Trial) -> Trial:
    """Return a trial whose options that are dates or times are so again."""
    dates = {key: _DATES[kind](str(trial.options[key])) for key, kind in trial.dates.items()}
    return evolve(trial, options={**trial.options, **dates})


def write_plan(store: Path, plan: Plan) -> None:
    """Write the plan beside a store, whole or not at all."""
    with draft_of(plan_of(store)) as file:
        file.write(msgspec.json.encode(plan))


def merge(before: Plan | None, now: Plan, store: Path) -> Plan:
    """Return the new plan, with the trials of earlier ones that it does not have. Pure.

    Raises:
        UsageError: a trial of the same name was another one.
    """
    known: Mapping[str, Trial] = {} if before is None else before.trials
    changed = [name for name, trial in now.trials.items() if name in known and known[name].digest != trial.digest]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise UsageError(
            f"{store} has {changed[0]}{more} from other options, data or code: expected those of {now.file} as it is now; "
            "give another --store, or restore what has changed"
        )
    return evolve(now, trials={**known, **now.trials})
