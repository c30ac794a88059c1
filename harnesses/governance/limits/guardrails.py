"""Guardrails: limits enforced by code, and how they are read from tables.

    guardrail                                             default   enforced by
    max_task_attempts                                     2         `attempts_for`: counted from the store before a claim
    max_destructive_task_attempts                         1         the same, for destructive tasks
    max_tool_calls_per_task                               40        `counted_agent.limited`: counted and stopped there
    max_messages_per_task                                 25        the same
    require_builder_contract                              true      `attempt_verdict.judge`
    require_validator_contract                            true      `attempt_verdict.judge`
    require_evidence_for_pass                             true      `EvidencePolicy`
    require_user_approval_for_destructive_actions         true      `approved_commands`, approvals
    require_user_approval_for_publish_deploy_or_force_push true     `approved_commands`, approvals
    max_steps, max_cost                                   none      the harness's `Budget`: see `budget`
    deadline_s                                            none      the harness's `deadline_s`
    max_drawdown, max_daily_loss, max_position            none      `guardrail_watch.Watch`, from figures of the state
    no_progress                                           none      `guardrail_watch.Watch`

Invariants: an invalid limit raises an error that names it; it is never replaced by a default. Tables, of a run file or of a
program, are read strictly: an unknown name, text for a number, or `"true"` for true is an error, and all errors are reported
at once, in one line. Where two tables set the same limit, such as those of all harnesses and of one, the tighter one applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, cast

from attrs import Attribute, field, fields, frozen

from harnesses.budgets.budget import Budget
from harnesses.errors import nearest
from harnesses.governance.errors import GuardrailError

MOST = 1_000_000_000
POLICIES = ("tell", "restart", "block")


def _require(wanted: str, is_right: Callable[[Any], bool]) -> Any:
    """Return a field validator; None is valid for fields whose default is None."""

    def check(owner: Any, attribute: Attribute[Any], value: object) -> None:
        if not (is_right(value) or (value is None and attribute.default is None)):
            subject = "no_progress" if isinstance(owner, NoProgress) else "guardrails"
            raise GuardrailError(f"{subject}: {attribute.name}: expected {wanted}, got {shown(value)}; correct it")

    return check


def _is_part(value: object) -> bool:
    return isinstance(value, Decimal) and value.is_finite() and 0 < value <= 1


def _is_amount(value: object) -> bool:
    right = isinstance(value, Decimal) and value.is_finite() and 0 <= value < 10**24
    return right and cast(int, cast(Decimal, value).as_tuple().exponent) >= -18


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value) and 0 < value <= 1e9


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 200 and value.isprintable()


def _are_names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, str) and one for one in cast("tuple[object, ...]", value))


_FLAG = _require("true or false", lambda value: type(value) is bool)
_COUNT = _require(f"a whole number from 0 to {MOST}", lambda value: type(value) is int and 0 <= value <= MOST)
_PART = _require('a fraction above 0 and at most 1, such as "0.2"', _is_part)
_AMOUNT = _require('an amount from 0 up, such as "10.00"', _is_amount)


def shown(value: object) -> str:
    """Return a short form of a value, as a file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value!r:.80}" if not isinstance(value, int) or value.bit_length() < 200 else "a far larger one"


def _names(value: object) -> Any:
    return tuple(cast("list[object]", value)) if isinstance(value, list | tuple) else value


@frozen
class NoProgress:
    """The guard against a harness that repeats itself. `loop_detection` defines repetition."""

    steps: int = field(
        validator=_require(f"a whole number from 1 to {MOST}", lambda value: type(value) is int and 1 <= value <= MOST)
    )
    """Number of steps that may repeat earlier ones."""
    policy: str = field(default="block", validator=_require("tell, restart or block", POLICIES.__contains__))
    """`tell`: record a finding and a line of output. `restart`: end the attempt and begin a fresh one, as the harness's
    supervision allows. `block`: block the harness until a person decides."""
    ignore: tuple[str, ...] = field(
        default=(), converter=_names, validator=_require('names of fields of the state, such as ["count"]', _are_names)
    )
    """Fields of the state that do not count as progress, such as counters and times; for input and output write `input.at` and
    `output.at`, or `output.*` for all of it."""


@frozen(kw_only=True)
class Guardrails:
    """Limits of one harness, and of each of its tasks.

    Raises:
        GuardrailError: a value is invalid.
    """

    max_task_attempts: int = field(default=2, validator=_COUNT)
    max_destructive_task_attempts: int = field(default=1, validator=_COUNT)
    max_tool_calls_per_task: int = field(default=40, validator=_COUNT)
    max_messages_per_task: int = field(default=25, validator=_COUNT)
    require_builder_contract: bool = field(default=True, validator=_FLAG)
    require_validator_contract: bool = field(default=True, validator=_FLAG)
    require_evidence_for_pass: bool = field(default=True, validator=_FLAG)
    require_user_approval_for_destructive_actions: bool = field(default=True, validator=_FLAG)
    require_user_approval_for_publish_deploy_or_force_push: bool = field(default=True, validator=_FLAG)
    max_steps: int | None = field(default=None, validator=_COUNT)
    max_cost: Decimal | None = field(default=None, validator=_AMOUNT)
    """In the currency of the harness's spends."""
    max_drawdown: Decimal | None = field(default=None, validator=_PART)
    """Fraction of the highest equity that may be lost."""
    max_daily_loss: Decimal | None = field(default=None, validator=_PART)
    """Fraction of the equity at the end of the previous day (UTC) that may be lost in a day."""
    max_position: Decimal | None = field(default=None, validator=_AMOUNT)
    """Maximum size of any position, long or short, in the unit of the figures."""
    deadline_s: float | None = field(default=None, validator=_require("a number of seconds above 0", _is_seconds))
    no_progress: NoProgress | None = field(
        default=None,
        validator=_require('a table such as { steps = 5, policy = "block" }', lambda value: isinstance(value, NoProgress)),
    )
    reset: str = field(default="", validator=_require("text of at most 200 characters, on one line", _is_word))
    """Change it to any other text to reset the high-water mark and the day's loss after a human decision."""

    def attempts_for(self, *, destructive: bool = False) -> int:
        """Return how many attempts a task may have."""
        return min(self.max_task_attempts, self.max_destructive_task_attempts) if destructive else self.max_task_attempts

    @property
    def budget(self) -> Budget | None:
        """Return the limits that the harness's budget enforces; None if there are none."""
        if self.max_steps is None and self.max_cost is None:
            return None
        return Budget(steps=self.max_steps, money=self.max_cost)

    @property
    def watches(self) -> bool:
        """Whether any limit needs the steps to be watched."""
        limits = (self.max_drawdown, self.max_daily_loss, self.max_position, self.no_progress)
        return any(limit is not None for limit in limits)

    def summary(self) -> tuple[str, ...]:
        """Return the limits as lines for a prompt, so that an agent knows what will stop it."""
        told = ((each.name, getattr(self, each.name)) for each in fields(Guardrails) if each.name not in _NOT_TOLD)
        return tuple(
            f"{name}: {shown(value) if isinstance(value, bool) else value}" for name, value in told if value is not None
        )


_NOT_TOLD = ("no_progress", "reset")


TASK_LIMITS = frozenset(
    each.name
    for each in fields(Guardrails)
    if each.name.startswith("require_") or each.name.endswith(("_attempts", "_per_task"))
)
"""Limits that a harness must enforce itself, because only it knows its tasks."""
MONEY_LIMITS = frozenset({"max_drawdown", "max_daily_loss", "max_position"})
"""Limits enforced from figures of the state."""


_DECIMALS = frozenset({"max_cost"}) | MONEY_LIMITS


def read_guardrails(table: object) -> Guardrails:
    """Read guardrails strictly from a table; the others have their defaults.

    Amounts may be text, so that nothing is rounded: `max_cost = "5.00"`.

    Raises:
        GuardrailError: in one line, with all problems.
    """
    if not isinstance(table, Mapping):
        raise GuardrailError(
            f"guardrails: expected a table such as {{ max_task_attempts = 3 }}, got {shown(table)}; correct it"
        )
    given = cast("Mapping[object, object]", table)
    known = {each.name: each for each in fields(Guardrails)}
    read: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in given.items():
        try:
            if name not in known:
                raise GuardrailError(_describe_unknown(name, tuple(known), "guardrails"))
            one: dict[str, Any] = {str(name): _value(str(name), value)}
            Guardrails(**one)
            read |= one
        except GuardrailError as error:
            text = str(error)
            problems.append(text if text.startswith("guardrails: ") else f"guardrails: {text}")
    if problems:
        raise GuardrailError("; ".join(problems)[:2000])
    return Guardrails(**read)


def _value(name: str, value: object) -> object:
    if name == "no_progress":
        return read_no_progress(value)
    if name in _DECIMALS and (isinstance(value, str) or type(value) in (int, float)):
        try:
            return Decimal(str(value))
        except (InvalidOperation, ValueError):
            return value
    is_whole = name == "deadline_s" and type(value) is int and value.bit_length() < 60
    return float(cast(int, value)) if is_whole else value


def read_no_progress(table: object) -> NoProgress:
    """Read the guard that a table describes.

    Raises:
        GuardrailError: the table is invalid.
    """
    if isinstance(table, NoProgress):
        return table
    if not isinstance(table, Mapping):
        wanted = 'a table such as { steps = 5, policy = "block" }'
        raise GuardrailError(f"guardrails: no_progress: expected {wanted}, got {shown(table)}; correct it")
    given = cast("Mapping[object, Any]", table)
    known = ("steps", "policy", "ignore")
    for name in given:
        if name not in known:
            raise GuardrailError(_describe_unknown(name, known, "no_progress"))
    if "steps" not in given:
        raise GuardrailError("no_progress: steps: expected a whole number from 1 up, got none; add it")
    return NoProgress(**{str(name): value for name, value in given.items()})


def _describe_unknown(name: object, known: tuple[str, ...], where: str) -> str:
    found = nearest(name, known)
    wanted = f"one of {', '.join(known)}" if found is None else repr(found)
    return f"{where}: unknown key {shown(name)}: expected {wanted}; correct or remove it"


def read_together(*tables: object) -> Guardrails:
    """Merge several tables, such as those of all harnesses and of one; where two set a limit, the tighter one applies.

    Limits that none of them sets have their defaults. Of two `no_progress` guards the last one applies, since they are not
    comparable.

    Raises:
        GuardrailError: a table is invalid.
    """
    made: dict[str, Any] = {}
    for table in tables:
        read = read_guardrails(table)
        for name in map(str, cast("Mapping[object, object]", table)):
            value = getattr(read, name)
            made[name] = _tighter(name)(made[name], value) if made.get(name) is not None and value is not None else value
    return Guardrails(**made)


def _tighter(name: str) -> Callable[[Any, Any], Any]:
    if name in ("no_progress", "reset"):
        return lambda one, other: other or one
    return max if name.startswith("require_") else min
