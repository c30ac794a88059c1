"""Guardrails: limits that are held by code. Nouns.

    guardrail                                             default   held by
    max_task_attempts                                     2         `attempts_for`: counted from the store before a claim
    max_destructive_task_attempts                         1         the same, for tasks that destroy something
    max_tool_calls_per_task                               40        `counting.limited`: counted by us, stopped at the limit
    max_messages_per_task                                 25        the same
    require_builder_contract                              true      `judging.judge`
    require_validator_contract                            true      `judging.judge`
    require_evidence_for_pass                             true      `policy.EvidencePolicy`
    require_user_approval_for_destructive_actions         true      `commands`, approvals
    require_user_approval_for_publish_deploy_or_force_push true     `commands`, approvals
    max_steps, max_cost                                   none      the harness's `Budget`: see `budget`
    deadline_s                                            none      the harness's `deadline_s`
    max_drawdown, max_daily_loss, max_position            none      `watching.Watch`, from figures of the state
    no_progress                                           none      `watching.Watch`

The law: a limit that cannot be is an error that names it, never a default in its place. How they are read from tables, and
what several tables say together: see `guardrail_tables`.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any, cast

from attrs import Attribute, field, fields, frozen

from harnesses.budgets.budget import Budget
from harnesses.governance.errors import GuardrailError

MOST = 1_000_000_000
POLICIES = ("tell", "restart", "block")


def _count(owner: Any, attribute: Attribute[Any], value: object) -> None:
    optional = value is None and attribute.default is None
    if not optional and (type(value) is not int or not 0 <= value <= MOST):
        _refuse(owner, attribute.name, f"a whole number from 0 to {MOST}", value)


def _flag(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not bool:
        _refuse(owner, attribute.name, "true or false", value)


def _part(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not (isinstance(value, Decimal) and value.is_finite() and 0 < value <= 1):
        _refuse(owner, attribute.name, 'a part above 0 and at most 1, such as "0.2"', value)


def _amount(owner: Any, attribute: Attribute[Any], value: object) -> None:
    right = isinstance(value, Decimal) and value.is_finite() and 0 <= value < 10**24
    if value is not None and not (right and cast(int, cast(Decimal, value).as_tuple().exponent) >= -18):
        _refuse(owner, attribute.name, 'an amount from 0 up, such as "10.00"', value)


def _seconds(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not (
        type(value) in (int, float) and isfinite(cast(float, value)) and 0 < cast(float, value) <= 1e9
    ):
        _refuse(owner, attribute.name, "a number of seconds above 0", value)


def _word(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
        _refuse(owner, attribute.name, "text of at most 200 characters, on one line", value)


def _guard(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not isinstance(value, NoProgress):
        _refuse(owner, attribute.name, 'a table such as { steps = 5, policy = "block" }', value)


def _refuse(owner: Any, name: str, wanted: str, value: object) -> None:
    subject = "no_progress" if isinstance(owner, NoProgress) else "guardrails"
    raise GuardrailError(f"{subject}: {name}: expected {wanted}, was {shown(value)}; correct it")


def shown(value: object) -> str:
    """Return a value in a few words, as a file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value!r:.80}" if not isinstance(value, int) or value.bit_length() < 200 else "a far larger one"


def _names(value: object) -> Any:
    return tuple(cast("list[object]", value)) if isinstance(value, list | tuple) else value


def _check_policy(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if value not in POLICIES:
        _refuse(owner, "policy", "tell, restart or block", value)


def _check_ignore(owner: Any, attribute: Attribute[Any], value: object) -> None:
    names: Any = value
    if not isinstance(names, tuple) or not all(isinstance(one, str) and one for one in cast("tuple[object, ...]", names)):
        _refuse(owner, "ignore", 'names of fields of the state, such as ["count"]', value)


def _check_steps(owner: Any, attribute: Attribute[Any], value: object) -> None:
    if type(value) is not int or not 1 <= value <= MOST:
        _refuse(owner, "steps", f"a whole number from 1 to {MOST}", value)


@frozen
class NoProgress:
    """What is done about a harness that does the same again and again. What the same is: see `fingerprints`."""

    steps: int = field(validator=_check_steps)
    """How many steps may show again what was there before."""
    policy: str = field(default="block", validator=_check_policy)
    """`tell`: it is a finding, and a line of output. `restart`: the attempt ends, and a fresh one begins, as the harness's
    supervision allows. `block`: a person has to decide."""
    ignore: tuple[str, ...] = field(default=(), converter=_names, validator=_check_ignore)
    """Fields of the state that are no progress, such as counters and times; of input and output as `input.at` and `output.at`,
    all of it as `output.*`."""


def _attempts(default: int | None) -> Any:
    return field(default=default, validator=_count)


def _true() -> Any:
    return field(default=True, validator=_flag)


@frozen(kw_only=True)
class Guardrails:
    """Limits of one harness, and of each of its tasks.

    Raises:
        GuardrailError: one of them is none.
    """

    max_task_attempts: int = _attempts(2)
    max_destructive_task_attempts: int = _attempts(1)
    max_tool_calls_per_task: int = _attempts(40)
    max_messages_per_task: int = _attempts(25)
    require_builder_contract: bool = _true()
    require_validator_contract: bool = _true()
    require_evidence_for_pass: bool = _true()
    require_user_approval_for_destructive_actions: bool = _true()
    require_user_approval_for_publish_deploy_or_force_push: bool = _true()
    max_steps: int | None = _attempts(None)
    max_cost: Decimal | None = field(default=None, validator=_amount)
    """In the currency of the harness's spends."""
    max_drawdown: Decimal | None = field(default=None, validator=_part)
    """The part of the highest equity that may be lost."""
    max_daily_loss: Decimal | None = field(default=None, validator=_part)
    """The part of the equity at the end of the day before (UTC) that may be lost in a day."""
    max_position: Decimal | None = field(default=None, validator=_amount)
    """The most that any position may come to, long or short, in the unit of the figures."""
    deadline_s: float | None = field(default=None, validator=_seconds)
    no_progress: NoProgress | None = field(default=None, validator=_guard)
    reset: str = field(default="", validator=_word)
    """A person's word that the high-water mark and the day begin anew: any text that is another than the last one."""

    def attempts_for(self, *, destructive: bool = False) -> int:
        """Return how many attempts a task may have."""
        return min(self.max_task_attempts, self.max_destructive_task_attempts) if destructive else self.max_task_attempts

    @property
    def budget(self) -> Budget | None:
        """What of them the harness's budget holds; None for nothing."""
        if self.max_steps is None and self.max_cost is None:
            return None
        return Budget(steps=self.max_steps, money=self.max_cost)

    @property
    def watches(self) -> bool:
        """Whether there is something to watch the steps for."""
        limits = (self.max_drawdown, self.max_daily_loss, self.max_position, self.no_progress)
        return any(limit is not None for limit in limits)

    def summary(self) -> tuple[str, ...]:
        """Return them as lines for a prompt: that an agent knows what will stop it."""
        told = ((each.name, getattr(self, each.name)) for each in fields(Guardrails) if each.name not in _NOT_TOLD)
        return tuple(f"{name}: {_format(value)}" for name, value in told if value is not None)


_NOT_TOLD = ("no_progress", "reset")


def _format(value: object) -> str:
    return shown(value) if isinstance(value, bool) else str(value)


TASK_LIMITS = frozenset(
    {
        "max_task_attempts",
        "max_destructive_task_attempts",
        "max_tool_calls_per_task",
        "max_messages_per_task",
        "require_builder_contract",
        "require_validator_contract",
        "require_evidence_for_pass",
        "require_user_approval_for_destructive_actions",
        "require_user_approval_for_publish_deploy_or_force_push",
    }
)
"""What a harness has to hold itself, for it alone knows its tasks."""
MONEY_LIMITS = frozenset({"max_drawdown", "max_daily_loss", "max_position"})
"""What is held by figures of the state."""
