"""A run file: which harnesses to run, and how. TOML in, values out; `make_harness` then makes what a table describes.

    store = "run.db"                    paths are relative to the run file
    metrics = "127.0.0.1:9464"          where the numbers of the run are served to Prometheus
    traces = "http://127.0.0.1:4318"    the collector that spans are sent to; true for what OTEL_* variables say
    strategy = "one_for_one"            and the other options of `Orchestrator`
    budget = { money = "50.00" }        of all harnesses together; the fields of `harnesses.budgets.budget.Budget`
    guardrails = { max_steps = 1000 }   of each of them; the fields of `harnesses.governance.Guardrails`
    memory = { project = "shop" }       of its pipelines; see `harnesses.run_file_harnesses.memory_table`
    [[supervisor]] and [[pool]]         see `groups`
    [[alert]] and [ping]                who is told of what; see `orchestrator.alerts.alert_rules`

    [[harness]]                         the fields of `harnesses.HarnessConfig`
    name = "eurusd"
    harness = "trading:make"            a class, or a function that makes the harness
    initial_state = { cash = "1000" }   converted to the state type that it declares
    arguments = { limit = 10 }          what else it is called with; `beside` is the folder of the run file, if it asks for it
    approve = "trading:rule"            which of its effects need a person's approval
    budget = { steps = 100 }            of this one
    guardrails = { max_task_attempts = 3, no_progress = { steps = 5, policy = "block" } }     of this one; the tighter limit
                                        of each holds; handed on as `guardrails` if it asks for them
    supervisor = "desk"                 which it is started under, and
    pool = "models"                     what it spends from with others
    needs = ["git"]                     labels of the nodes that can run it, and
    cpus = 1                            the processors that are kept for it there; see `orchestrator.nodes`

Instead of `harness`, one of `trading`, `features`, `coding` and `pipeline`: a table that describes a ready-made one.

Every mistake is a `UsageError` of one line with the place in the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from decimal import InvalidOperation
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import attrs
import msgspec
from attrs import field, frozen
from msgspec import UNSET, Meta

from harnesses.budgets.budget import Budget, budget_of
from harnesses.config import HarnessConfig
from harnesses.data.record_size import CEILING_BYTES, MAX_RECORD_BYTES
from harnesses.errors import HarnessMisuse
from harnesses.governance.errors import GuardrailError
from harnesses.governance.limits.guardrails import Guardrails, read_guardrails, read_together
from harnesses.run_file_harnesses.memory_table import memory_of
from orchestrator.alerts.alert_rules import Alerts, AlertTable, PingTable, Rule, check_ping, rule_of
from orchestrator.cli.run.ready_made import READY_MADE, take_word, way_out
from orchestrator.cli.run.supervisor_tables import Groups, PoolTable, SupervisorTable, in_order
from orchestrator.errors import UsageError
from orchestrator.restart import Backoff, Restart, Strategy
from orchestrator.store.places.store_location import place_of
from orchestrator.store.postgres.postgres_address import address_in

_ConvertedT = TypeVar("_ConvertedT")
_Seconds = Annotated[float, Meta(gt=0, le=1e9)]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXPECTED = re.compile(r"Expected `(.+?)`(.*)", re.DOTALL)


@frozen(kw_only=True)
class RunFile:
    """A checked run file; the classes that it names are not loaded yet."""

    path: Path
    harnesses: tuple[Table, ...]
    store: Path | None = None
    log: Path | None = None
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    """Keyword arguments of `Orchestrator`."""
    groups: Groups = field(factory=Groups)
    alerts: Alerts = field(factory=Alerts)

    def only(self, names: Collection[str]) -> RunFile:
        """Return the file with these harnesses alone, as far as it has them."""
        return attrs.evolve(self, harnesses=tuple(one for one in self.harnesses if one.config.name in names))

    def together(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of harnesses that one process has to run: those that are restarted together."""
        if self.options.get("strategy", Strategy.ONE_FOR_ONE) is not Strategy.ONE_FOR_ONE:
            return (tuple(one.config.name for one in self.harnesses),)
        found: dict[tuple[str, str], list[str]] = {}
        for one in self.harnesses:
            top = self.groups.top(one.supervisor)
            key = ("harness", one.config.name) if top is None else ("supervisor", top)
            found.setdefault(key, []).append(one.config.name)
        return tuple(map(tuple, found.values()))


@frozen
class Table:
    """A `[[harness]]` table."""

    config: HarnessConfig[Any]
    given: frozenset[str]
    """The keys that are in the file; the other fields have their defaults."""
    where: str
    """For messages."""
    budget: Budget | None = None
    beside: Path = Path()
    """The folder of the run file."""
    guardrails: Guardrails = field(factory=Guardrails)
    """Those of all harnesses, and its own."""
    limits: frozenset[str] = frozenset()
    """The names of its own ones."""
    shared_limits: frozenset[str] = frozenset()
    """The names of those of all harnesses."""
    shared_budget: Budget | None = None
    """Budget that all harnesses share."""
    supervisor: str | None = None
    pool: str | None = None
    memory: Mapping[str, Any] | None = None
    """That of all pipelines."""
    needs: tuple[str, ...] = ()
    """Labels of the nodes that can run it; `orchestrator run` does not ask for them."""
    cpus: float = 0.0
    """Processors of its node that are kept for it."""


@frozen(kw_only=True)
class _Top:
    """What a run file may say outside of the tables, and of what type."""

    harness: list[dict[str, Any]]
    store: str | None = None
    log: str | None = None
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Annotated[int, Meta(ge=0)] = 5
    period_s: _Seconds = 60.0
    backoff: Backoff | None = None
    grace_s: _Seconds = 5.0
    drain_s: _Seconds = 10.0
    deadline_s: _Seconds | None = None
    redact: bool = True
    max_record_bytes: Annotated[int, Meta(ge=1_000, le=CEILING_BYTES)] = MAX_RECORD_BYTES
    control: bool = True
    metrics: str | int | None = None
    traces: str | bool | None = None
    supervisor: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    pool: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    memory: dict[str, Any] | None = None
    alert: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    ping: dict[str, Any] | None = None


@frozen(kw_only=True)
class _Member:
    """Where a harness belongs."""

    supervisor: str | None = None
    pool: str | None = None
    needs: tuple[str, ...] = ()
    cpus: Annotated[float, Meta(ge=0, le=1e6)] = 0.0


_MEMBER = tuple(one.name for one in attrs.fields(_Member))


@frozen
class Shared:
    """What all harnesses of a file have."""

    budget: Budget | None
    groups: Groups
    memory: Mapping[str, Any] | None


_NOT_OPTIONS = ("store", "log", "harness", "supervisor", "pool", "memory", "alert", "ping")


def read_run_file(path: Path) -> RunFile:
    """Read and check a run file.

    Raises:
        UsageError: it cannot be read, or something in it is not as expected.
    """
    return parse_run_file(read_text(path), path)


def read_text(path: Path) -> str:
    """Return the text of a run file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is not text: expected UTF-8, {error.reason} at byte {error.start}; save it as UTF-8"
        ) from error


def parse_run_file(text: str, path: Path) -> RunFile:
    """Return what the text of a run file says. Pure.

    Raises:
        UsageError: something in it is not as expected.
    """
    where = str(path)
    data = _toml(text, where)
    budget = _take_budget(data, where)
    everyone = _take_guardrails(data, where)
    _check_keys(data, _Top, where)
    if not isinstance(data.get("harness"), list):
        was = "one [harness] table" if isinstance(data.get("harness"), dict) else repr(data.get("harness", "nothing"))
        raise UsageError(f"{where}: harness: expected [[harness]] tables, was {was}; write each with two brackets")
    if isinstance(data.get("backoff"), dict):
        _check_keys(data["backoff"], Backoff, f"{where}: backoff")
    top = convert(data, _Top, where)
    groups = _groups(top, where)
    _check_memory(top.memory, where, path.parent)
    tables = tuple(
        _table(
            table, f"{where}: harness {_name_table(table, place)}", path.parent, everyone, Shared(budget, groups, top.memory)
        )
        for place, table in enumerate(top.harness, 1)
    )
    _check_names(tables, where)
    plain = {name: getattr(top, name) for name in data if name not in _NOT_OPTIONS}
    if budget is not None:
        plain["budget"] = budget
    log = _beside(path, top.log)
    return RunFile(
        path=path,
        harnesses=tables,
        store=_beside(path, top.store),
        log=log,
        options=plain,
        groups=groups,
        alerts=_alerts(top, where),
    )


_OF_ALERTS = ("store", "alert", "ping")


@frozen(kw_only=True)
class AlertFile:
    """What `orchestrator notify` reads of a file, which need not be a run file."""

    store: Path | None
    alerts: Alerts


def read_alert_file(path: Path) -> AlertFile:
    """Read the `[[alert]]` tables, `[ping]` and `store` of a file; what else is in it is checked when it is run.

    Raises:
        UsageError: it cannot be read, says nothing of alerts, or something in it is not as expected.
    """
    data = _toml(read_text(path), str(path))
    top = convert({key: data[key] for key in _OF_ALERTS if key in data} | {"harness": []}, _Top, str(path))
    alerts = _alerts(top, str(path))
    if not alerts:
        raise UsageError(f"{path} says nothing of alerts: expected [[alert]] tables or a [ping] table; add one")
    return AlertFile(store=_beside(path, top.store), alerts=alerts)


def read_alerts_alone(path: Path) -> AlertFile | None:
    """Return what `read_alert_file` does if the file has nothing else; None if it has.

    Raises:
        UsageError: as in `read_alert_file`.
    """
    names = _toml(read_text(path), str(path)).keys()
    return read_alert_file(path) if names and names <= {*_OF_ALERTS} else None


def _alerts(top: _Top, where: str) -> Alerts:
    rules = list[Rule]()
    for place, data in enumerate(top.alert, 1):
        at = f"{where}: alert number {place}"
        _check_keys(data, AlertTable, at)
        for key in ("when", "to"):
            if key not in data:
                raise UsageError(f"{at} has no {key}: expected each [[alert]] to have one; add it")
        rules.append(rule_of(convert(data, AlertTable, at), at))
    ping = None
    if top.ping is not None:
        at = f"{where}: ping"
        _check_keys(top.ping, PingTable, at)
        check_ping(ping := convert(top.ping, PingTable, at), at)
    return Alerts(tuple(rules), ping)


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not valid TOML: {error}; correct it") from error


def _groups(top: _Top, where: str) -> Groups:
    supervised, pooled = dict[str, Budget | None](), dict[str, Budget]()
    supervisors, pools = list[SupervisorTable](), list[PoolTable]()
    for place, data in enumerate(top.supervisor, 1):
        at = f"{where}: supervisor {_name_table(data, place)}"
        budget = _take_budget(data, at)
        supervisors.append(_group(data, SupervisorTable, at))
        supervised[supervisors[-1].name] = budget
    for place, data in enumerate(top.pool, 1):
        at = f"{where}: pool {_name_table(data, place)}"
        own: dict[str, Any] = {key: data.pop(key) for key in ("name", "parent") if key in data}
        budget = _take_budget({"budget": data}, at)
        pools.append(_group(own, PoolTable, at))
        pooled[pools[-1].name] = cast(Budget, budget)
    ordered = in_order(supervisors, "supervisor", where, _check_name(f"{where}: supervisor"))
    return Groups(ordered, in_order(pools, "pool", where, _check_name(f"{where}: pool")), supervised, pooled)


def _group(data: dict[str, Any], cls: type[_ConvertedT], where: str) -> _ConvertedT:
    _check_keys(data, cls, where)
    if not data.get("name"):
        raise UsageError(f"{where} has no name: expected one; add it")
    return convert(data, cls, where)


def _check_name(where: str) -> Callable[[str], None]:
    def check(name: str) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{where}: name: expected letters, digits, '.', '_' and '-', beginning with a letter or digit, "
                f"was {name!r}; choose another"
            )

    return check


def _check_memory(table: Mapping[str, Any] | None, where: str, beside: Path) -> None:
    if table is not None:
        try:
            memory_of(table, beside)
        except HarnessMisuse as error:
            raise UsageError(f"{where}: {error}") from error


def _table(data: dict[str, Any], where: str, beside: Path, everyone: dict[str, Any], shared: Shared) -> Table:
    take_word(data, where)
    member = convert({key: data.pop(key) for key in _MEMBER if key in data}, _Member, where)
    shared.groups.check("supervisor", member.supervisor, where)
    shared.groups.check("pool", member.pool, where)
    budget = _take_budget(data, where)
    own = _take_guardrails(data, where)
    _check_keys(data, HarnessConfig, where)
    for key in ("name", "harness"):
        if not data.get(key):
            ready = f", or one of {', '.join(READY_MADE)}" if key == "harness" else ""
            raise UsageError(f"{where} has no {key}{ready}: expected each [[harness]] to have one; add it")
    config: HarnessConfig[Any] = convert({"initial_state": UNSET, **data}, HarnessConfig[Any], where)
    _check_name(where)(config.name)
    _check(config.restart in tuple(Restart), f"{where}: restart: expected {_either(Restart)}", config.restart)
    _check(config.max_context_steps >= 0, f"{where}: max_context_steps: expected 0 or more", config.max_context_steps)
    for key in ("step_timeout_s", "deadline_s", "group_s"):
        seconds = getattr(config, key)
        _check(seconds is None or 0 < seconds <= 1e9, f"{where}: {key}: expected seconds above 0", seconds)
    guardrails = read_together(everyone, own)
    return Table(
        config,
        frozenset(data),
        where,
        budget,
        beside,
        guardrails,
        frozenset(own),
        frozenset(everyone),
        shared.groups.tightest(shared.budget, member.supervisor, member.pool),
        member.supervisor,
        member.pool,
        shared.memory,
        member.needs,
        member.cpus,
    )


def _take_guardrails(data: dict[str, Any], where: str) -> dict[str, Any]:
    """Take the guardrails out of a table and return those that it names."""
    given = data.pop("guardrails", {})
    try:
        read_guardrails(given)
    except GuardrailError as error:
        raise UsageError(f"{where}: {error}") from error
    return cast(dict[str, Any], given)


def _take_budget(data: dict[str, Any], where: str) -> Budget | None:
    """Take the budget out of a table and return it; money may be written as text, so that nothing is rounded."""
    if "budget" not in data:
        return None
    where, given = f"{where}: budget", data.pop("budget")
    if not isinstance(given, dict):
        raise UsageError(f"{where}: expected a table such as {{ steps = 100 }}, was {given!r:.100}; correct it")
    limits = cast(dict[str, Any], given)
    _check_keys(limits, Budget, where)
    try:
        return budget_of({name: str(limit) if name == "money" else limit for name, limit in limits.items()})
    except InvalidOperation as error:
        raise UsageError(f"{where}: money: expected an amount, was {limits['money']!r:.100}; correct it") from error
    except HarnessMisuse as error:
        raise UsageError(f"{where}: {error}; correct it") from error


def convert(data: Any, cls: type[_ConvertedT], where: str) -> _ConvertedT:
    """Return plain data as a `cls`.

    Raises:
        UsageError: with the path to the value that does not fit, after `where`.
    """
    try:
        return msgspec.convert(data, cls, str_keys=True)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise UsageError(f"{where}{_join(where, path)}: {_explain(message, data, path)}; correct it") from error
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where} cannot be read as {getattr(cls, '__name__', cls)}: {error}; correct it") from error


def _join(where: str, path: str) -> str:
    """Return the path appended to `where`: as a key after the name of a table, else unchanged."""
    path = path.rstrip("`")
    return path if where.endswith("initial_state") else path.replace(".", ": ", 1)


def _explain(message: str, data: Any, path: str) -> str:
    """Return what `msgspec` says, with the value instead of its type."""
    match = _EXPECTED.fullmatch(message)
    if match is None:
        return message[:1].lower() + message[1:]
    wanted, rest = match.groups()
    limits = rest.partition(", got")[0]
    return f"expected {wanted}{limits}, was {_at(data, path)!r:.100}"


def _at(data: Any, path: str) -> Any:
    """Return the value at a path of `msgspec`, such as `.children[0].price`; what contains it, if part of it is unnamed."""
    for key, index in re.findall(r"\.([^.\[\]`]+)|\[(\d+)\]", path):
        try:
            data = data[key] if key else data[int(index)]
        except (KeyError, IndexError, TypeError):
            return data
    return data


def _check_keys(data: Mapping[str, Any], cls: type, where: str) -> None:
    known = [attribute.name for attribute in attrs.fields(cls)]
    known += ALSO.get(cls, ())
    for key in data:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}: expected one of {', '.join(known)}{way_out(key, known)}")


ALSO: Mapping[type, tuple[str, ...]] = {
    _Top: ("budget", "guardrails"),
    HarnessConfig: ("budget", "guardrails", *_MEMBER, *READY_MADE),
    SupervisorTable: ("budget",),
}
"""Keys that are read by themselves."""


def _check_names(tables: tuple[Table, ...], where: str) -> None:
    if not tables:
        raise UsageError(f"{where} has no harness: expected at least one [[harness]] table; add one")
    names = [table.config.name for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: name {name!r} is used twice: expected a name of its own for each; rename one")


def _check(right: bool, expectation: str, value: object) -> None:
    if not right:
        raise UsageError(f"{expectation}, was {value!r}; correct it")


def _name_table(table: dict[str, Any], place: int) -> str:
    name = table.get("name")
    return repr(name) if isinstance(name, str) and name else f"number {place}"


def _beside(path: Path, other: str | None) -> Path | None:
    """Return a path of the run file: the same run file means the same files wherever it is run from.

    Raises:
        UsageError: it is the address of a server, with a password in it.
    """
    if other is None:
        return None
    return path.parent / other if address_in(other) is None else place_of(other)


def _either(words: type[Restart]) -> str:
    *some, last = [word.value for word in words]
    return f"{', '.join(some)} or {last}"
