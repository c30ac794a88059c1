"""Making the harness that a table of a run file describes: find the class or function, convert the state, call it.

Guardrails of tasks are handed on to who asks for them, put around the agent of a feature harness, or refused:

the maker takes `guardrails`     they are handed on, and are its own business
a feature or coding harness      a try is a task: its agent is limited, and its policy
any other                        refused: those of its own table always, those of all harnesses if it asks agents
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from types import NoneType
from typing import Any, ForwardRef, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from attrs import field, frozen

from harnesses.agent import unheld
from harnesses.base import BaseHarness
from harnesses.budgets.budget import UNLIMITED, Budget
from harnesses.config import HarnessConfig
from harnesses.data.values import fields_of
from harnesses.effects.approval import ApprovalRule
from harnesses.errors import Unstorable, one_of
from harnesses.features.loop.feature_harness import FeatureHarness
from harnesses.governance.limits.counted_agent import limited
from harnesses.governance.limits.guardrail_watch import telling, terms
from harnesses.governance.limits.guardrails import MONEY_LIMITS, TASK_LIMITS, Guardrails
from harnesses.governance.limits.loop_detection import SIDES
from orchestrator.cli.run.code_loading import call_guarded, load_attribute
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.cli.run.run_file import RunFile, Table, convert
from orchestrator.cli.run.supervisor_tables import Opened
from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.handle import Handle
from orchestrator.operator_restart import Renew
from orchestrator.orchestrator import Orchestrator
from orchestrator.text.command_hints import DEFAULT_STORE

# What TOML gives has no types until it is converted.


AnyHarness: TypeAlias = BaseHarness[Any, Any, Any]
Maker: TypeAlias = Callable[..., object]
_ARGUMENTS = ("initial_state", "max_context_steps", "constraints")
_WANTED = "expected a class that takes initial_state, or a function that makes the harness"


_NO_GROUPS = Opened()


@frozen
class Made:
    """A harness, and on what terms it is started."""

    harness: AnyHarness
    config: HarnessConfig[Any]
    budget: Budget | None = None
    guardrails: Guardrails = field(factory=Guardrails)
    rule: ApprovalRule | None = None
    supervisor: str | None = None
    pool: str | None = None

    def start(self, orchestrator: Orchestrator, renew: Renew | None = None, groups: Opened = _NO_GROUPS) -> Handle:
        """Start it.

        Args:
            renew: makes it anew when it is started again.
            groups: the supervisors and pools of the run file.
        """
        config = self.config
        return orchestrator.start(
            self.harness,
            name=config.name,
            restart=config.restart,
            step_timeout_s=config.step_timeout_s,
            durability=config.durability,
            group_s=config.group_s,
            approve=self.rule,
            renew=renew,
            supervisor=groups.supervisor(self.supervisor, config.name),
            pool=groups.pool(self.pool, config.name),
            **self._terms(),
        )

    def _terms(self) -> dict[str, Any]:
        return terms(
            self.guardrails,
            getattr(self.harness, "figures", None),
            budget=self.budget,
            deadline_s=self.config.deadline_s,
            moment=getattr(self.harness, "moment", None),
            tell=telling(self.harness),
        )


def make_all(file: RunFile, store: Path | str = DEFAULT_STORE) -> tuple[Made, ...]:
    """Make every harness of a run file.

    Args:
        store: where the run is recorded; ready-made ones put what is theirs beside it.

    Raises:
        UsageError: one of them cannot be made; nothing is started yet.
    """
    return tuple(make(table, store) for table in file.harnesses)


def make(table: Table, store: Path | str = DEFAULT_STORE) -> Made:
    """Make the harness of one table, and all that it is started with.

    Raises:
        UsageError: it cannot be made as the table says.
    """
    harness, rule = _make_guarded(table, store), _rule(table)
    return Made(harness, table.config, table.budget, table.guardrails, rule, table.supervisor, table.pool)


def _rule(table: Table) -> ApprovalRule | None:
    """Return the function that says which effects need an approval."""
    reference = table.config.approve
    if not reference:
        return None
    rule = load_attribute(table.where, reference, option="approve")
    if not callable(rule):
        raise UsageError(f"{table.where}: approve: {reference} is {rule!r:.100}: expected a function of key and arguments")
    return cast(ApprovalRule, rule)


def _make_guarded(table: Table, store: Path | str) -> AnyHarness:
    """Make the harness of one table, and see that its guardrails can be held."""
    harness = make_harness(table, store)
    money = sorted(name for name in MONEY_LIMITS if getattr(table.guardrails, name) is not None)
    if money and not callable(getattr(harness, "figures", None)):
        raise UsageError(
            f"{table.where}: guardrails: {', '.join(money)} cannot be held: expected a harness with a method "
            f"`figures(state)` that gives `equity` and `position`, was {type(harness).__name__}; write one, or remove them"
        )
    _check_ignored(table, harness)
    limits = (table.budget, table.guardrails.budget, table.shared_budget)
    tightest = reduce(Budget.min, (one for one in limits if one is not None), UNLIMITED)
    if why := unheld(harness.asked_agents(), tightest):
        raise UsageError(f"{table.where}: {why}")
    return harness


def _check_ignored(table: Table, harness: AnyHarness) -> None:
    """Refuse to ignore a field that there is not: a misspelt one would be progress without a word."""
    guard, names = table.guardrails.no_progress, fields_of(type(harness.state))
    for name in guard.ignore if guard is not None and names else ():
        if names is not None and name not in names and not name.startswith(SIDES):
            raise UsageError(
                f"{table.where}: guardrails: no_progress: ignore: expected fields of the state, {', '.join(names)}, "
                f"was {name!r}; correct it"
            )


def make_harness(table: Table, store: Path | str = DEFAULT_STORE) -> AnyHarness:
    """Make the harness of one table.

    Raises:
        UsageError: it cannot be made as the table says.
    """
    where, reference = table.where, table.config.harness
    maker = load_attribute(where, reference)
    if not callable(maker) or (isinstance(maker, type) and not issubclass(maker, BaseHarness)):
        raise UsageError(f"{where}: {reference} is {maker!r:.100}: {_WANTED}; name one")
    call = cast(Maker, maker)
    arguments = _arguments(table, call, store)
    made = call_guarded(f"{where}: {reference}", lambda: call(**arguments))
    if inspect.iscoroutine(made):
        made.close()
    if not isinstance(made, BaseHarness):
        raise UsageError(f"{where}: {reference} returned {made!r:.100}: expected a harness; have it return one")
    harness: AnyHarness = made
    call_guarded(f"{where}: {reference}", harness.check_made)
    if "guardrails" not in _signature(call, where).parameters:
        hold_task_limits(table, harness)
    try:
        encode(harness.state)
    except Unstorable as error:
        raise UsageError(f"{where}: its initial state cannot be stored: {error}") from error
    return harness


def _arguments(table: Table, maker: Maker, store: Path | str) -> dict[str, Any]:
    """Return what of the table the maker is called with: what the file gives, and no more."""
    where, reference = table.where, table.config.harness
    given = {name: getattr(table.config, name) for name in _ARGUMENTS if name in table.given}
    if "initial_state" in given:
        data, at = given["initial_state"], f"{where}: initial_state"
        given["initial_state"] = convert(data, _state_type(maker), at)
        _check_known(data, given["initial_state"], at)
    for name, value in table.config.arguments.items():
        if name in given or name in _ARGUMENTS:
            inside = reference if reference in READY_MADE else "arguments"
            raise UsageError(f"{where}: {inside}: {name} has a key of its own: expected it there; move it out of `{inside}`")
        given[name] = value
    signature = _signature(maker, f"{where}: {reference}")
    takes = signature.parameters
    if "beside" in takes:
        given.setdefault("beside", table.beside)
    if reference in READY_MADE:
        surroundings = {"name": table.config.name, "store": store, "memory": table.memory}
        given.update({key: value for key, value in surroundings.items() if key in takes and key not in given})
    if "guardrails" in takes:
        given.setdefault("guardrails", table.guardrails)
    if "initial_state" in takes and "initial_state" not in given and _state_type(maker) in (None, NoneType):
        given["initial_state"] = None  # a table has no word for it
    for name in given:
        if name not in takes and not any(one.kind is one.VAR_KEYWORD for one in takes.values()):
            raise UsageError(f"{where}: {name} is given: expected none, for {reference} does not take it; remove it")
    try:
        signature.bind(**given)
    except TypeError as error:
        if "initial_state" in takes and "initial_state" not in given and "initial_state" in str(error):
            raise UsageError(f"{where} has no initial_state: expected one, for {reference} needs it; add it") from None
        raise UsageError(f"{where}: {reference} cannot be called: {_WANTED}, {error}; write such a function") from None
    return given


def _signature(maker: Maker, where: str) -> inspect.Signature:
    try:
        return inspect.signature(maker)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {_WANTED}, {error}; name one") from error


def _check_known(data: Any, state: Any, path: str) -> None:
    """Refuse keys that the conversion has passed over: a misspelt field would keep its default without a word."""
    if isinstance(data, dict):
        names = fields_of(type(state))
        given: dict[str, Any] = data
        for key, value in given.items():
            if names is not None and key not in names:
                known = one_of(names, f"{type(state).__name__} has no fields")
                raise UsageError(f"{path}: unknown key {key!r}: {known}; correct or remove it")
            _check_known(value, _inner(state, key), f"{path}.{key}")
    elif isinstance(data, list) and isinstance(state, list | tuple):
        values: list[Any] = data
        pairs = zip(values, cast(Sequence[Any], state), strict=False)
        for index, (value, inner) in enumerate(pairs):
            _check_known(value, inner, f"{path}[{index}]")


def _inner(state: Any, key: str) -> Any:
    return cast(dict[str, Any], state).get(key) if isinstance(state, dict) else getattr(state, key, None)


def _state_type(maker: Maker) -> Any:
    """Return the type that a class declares for its state, or a function for its `initial_state`; else Any."""
    if isinstance(maker, type):
        declared = find_state_type(maker)
        return Any if isinstance(declared, TypeVar) else declared
    try:
        return get_type_hints(maker).get("initial_state", Any)
    except (NameError, TypeError):
        return Any


def find_state_type(cls: type) -> Any:
    """Return the first argument of `BaseHarness[…]` as `cls` fills it in, through any number of generic bases."""
    bases: tuple[Any, ...] = cls.__dict__.get("__orig_bases__", cls.__bases__)
    for base in bases:
        origin, arguments = get_origin(base) or base, get_args(base)
        if origin is BaseHarness:
            return _resolve(arguments[0], cls) if arguments else Any
        if isinstance(origin, type) and issubclass(origin, BaseHarness):
            declared = find_state_type(origin)
            parameters: tuple[Any, ...] = getattr(origin, "__parameters__", ())
            return dict(zip(parameters, arguments, strict=False)).get(declared, declared)
    return Any


def _resolve(declared: Any, cls: type) -> Any:
    """Return the class that a name in quotes stands for."""
    if isinstance(declared, ForwardRef):
        return getattr(sys.modules[cls.__module__], declared.__forward_arg__, Any)
    return declared


_COUNTED = ("max_messages_per_task", "max_tool_calls_per_task")
_TRIES = "max_task_attempts"


def hold_task_limits(table: Table, harness: BaseHarness[Any, Any, Any]) -> None:
    """Have a harness whose maker does not take `guardrails` hold those of its tasks.

    Raises:
        UsageError: it cannot.
    """
    own, named = table.limits & TASK_LIMITS, (table.limits | table.shared_limits) & TASK_LIMITS
    if isinstance(harness, FeatureHarness):
        _refuse(table, sorted(own - {*_COUNTED, _TRIES}), "a harness with tasks that can be told apart by them")
        _limit(table, harness, named)
    elif own or harness.asked_agents():
        wanted = "a class or function that takes `guardrails`, for they are of its tasks"
        _refuse(table, sorted(named if harness.asked_agents() else own), wanted)


def _limit(table: Table, harness: FeatureHarness, named: frozenset[str]) -> None:
    if counted := sorted(named & set(_COUNTED)):
        for agent in harness.asked_agents():
            if "tool_calls" not in agent.reports:
                _refuse(table, counted, f"an agent whose messages and tool calls can be counted, which {agent.name!r} is not")
        harness.wrap_agent(lambda agent: limited(agent, table.guardrails))
    if _TRIES in named:
        if table.guardrails.max_task_attempts < 1:
            _refuse(table, [_TRIES], "1 or more for a harness that tries features")
        harness.limit_tries(table.guardrails.max_task_attempts)


def _refuse(table: Table, names: list[str], wanted: str) -> None:
    if names:
        raise UsageError(
            f"{table.where}: guardrails: {', '.join(names)} cannot be held: expected {wanted}, was {table.config.harness}; "
            "remove them, or move those of all harnesses to the tables of harnesses that hold them"
        )
