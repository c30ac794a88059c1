"""A governor that enforces the guardrails of any harness, step by step.

    max_steps, max_cost      Budget        enforced by the budget: see `terms`
    deadline_s               deadline_s    enforced by the harness's clock: see `terms`
    max_drawdown, …          figures       `account_limits`: blocks
    no_progress              fingerprints  `loop_detection`: reports, restarts, or blocks

    policy     effect when no progress is made
    tell       a finding with the step, and `tell` is called with it; repeated after the same number of steps
    restart    a finding, and the attempt ends with `NoProgressMade`: a fresh one begins, as its supervision allows.
               After three attempts that end in the same loop, a person has to decide
    block      a finding, and the harness is blocked

Invariants: the watch's own state is stored with each step, in a few hundred bytes, so it survives restarts and crash loops. A
finding is on disk with its step before the watch acts on it.

Starting a blocked harness again grants it another `no_progress.steps` steps. To end a halt for a drawdown, a person changes
`reset` to any other text; the high-water mark and the day then start anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from attrs import evolve

from harnesses.base import BaseHarness
from harnesses.budgets.budget import Budget
from harnesses.data.delta import Delta
from harnesses.features.agent_text import one_line
from harnesses.governance.errors import GuardrailTripped, NoProgressMade
from harnesses.governance.limits.account_limits import AccountStatus, Figures, assess, numbers, reached
from harnesses.governance.limits.guardrails import Guardrails, NoProgress
from harnesses.governance.limits.loop_detection import Fingerprints, Loops, loops_of
from harnesses.governor import Finding
from harnesses.step import Step

FRUITLESS = 3
"""Fresh attempts that may end in the same loop before a person has to decide."""
FiguresOf = Callable[[Any], Mapping[str, object]]


class Watch:
    """Enforces the guardrails of one harness. Use one instance per harness, since it tracks the steps.

    Args:
        figures: returns the figures of a state: `equity`, and positions as `position` or `position:…`. Without it the limits
            on money report themselves as unenforceable; an empty mapping means that nothing is known yet.
        moment: returns the time of a state, if it differs from the time of the step, as in a replay; None for the step's time.
        tell: called with findings of the policy `tell`, once they are recorded; see `telling`.
    """

    def __init__(
        self,
        guardrails: Guardrails,
        figures: FiguresOf | None = None,
        *,
        moment: Callable[[Any], datetime | None] | None = None,
        tell: Callable[[Finding], None] | None = None,
    ) -> None:
        self.guardrails = guardrails
        self._tell = tell
        self._figures = figures
        self._moment = moment
        guard = guardrails.no_progress
        self._fingerprints = None if guard is None else Fingerprints(guard.ignore)
        self._loops = Loops()
        self._stuck: tuple[str | None, ...] = ()
        self._fruitless = 0
        self._standing = AccountStatus()
        self._word = guardrails.reset
        self._found: tuple[Finding, ...] = ()
        self._step = 0

    def restore(self, kept: Mapping[str, Any], state: Callable[[], Any] | None = None) -> None:
        """Restore what was stored with the last recorded step; losses count from the given state."""
        self._step = 0
        if self._fingerprints is not None:
            self._fingerprints.forget()
        self._loops = loops_of(kept.get("loops", {}))
        self._stuck = tuple(kept.get("stuck", ()))
        self._fruitless = kept.get("fruitless", 0)
        said = kept.get("reset", "")
        self._word = self.guardrails.reset or said
        begun_anew = self._word != said
        self._standing = AccountStatus() if begun_anew else _stood(kept.get("standing", {}))
        if self._standing.high is None and state is not None and self._figures is not None and self._limits_money:
            # Unreadable figures are reported with the first step.
            with suppress(Exception):
                equity = numbers(self._figures(state())).get("equity")
                self._standing = evolve(self._standing, high=equity, last=equity)
        self._found = self._halts()

    def look(self, step: Step[Any, Any], delta: Delta, state: Callable[[], Any]) -> Sequence[Finding]:
        """Return the limits reached by a step that is about to be recorded."""
        if self._fingerprints is not None and step.step_number != self._step + 1:
            # Steps are missing since the last one seen, so the changes are unknown.
            self._fingerprints.forget()
        self._step = step.step_number
        self._found = (*self._check_figures(step, state), *self._check_progress(step, delta, state))
        return self._found

    def kept(self) -> Mapping[str, Any]:
        """Return what to store with the step."""
        made: dict[str, Any] = {}
        if self._fingerprints is not None:
            made["loops"] = self._loops.plain()
            if self._fruitless:
                made |= {"stuck": list(self._stuck), "fruitless": self._fruitless}
        if self._limits_money:
            made["standing"] = self._standing.plain()
        if self._word:
            made["reset"] = self._word
        return made

    def check(self) -> None:
        """Return if the harness may go on.

        Raises:
            GuardrailTripped: a person has to decide.
            NoProgressMade: the attempt must end and a fresh one begin.
        """
        known, self._found = self._found, self._halts()
        for found in known:
            if found.policy == "tell" and self._tell is not None:
                self._tell(found)
        acting = [found for found in known if found.policy != "tell"]
        blocking = [found for found in acting if found.policy == "block"]
        if blocking:
            raise GuardrailTripped("; ".join(map(_describe, blocking))[:2000])
        if acting:
            raise NoProgressMade("; ".join(map(_describe, acting))[:2000])

    def _halts(self) -> tuple[Finding, ...]:
        """Return the halts that only a person can end; they apply before the first step of an attempt, too."""
        return tuple(reached(evolve(self._standing, lost=False), self.guardrails, {}))

    @property
    def _limits_money(self) -> bool:
        rails = self.guardrails
        return not (rails.max_drawdown is rails.max_daily_loss is rails.max_position is None)

    def _check_figures(self, step: Step[Any, Any], state: Callable[[], Any]) -> tuple[Finding, ...]:
        if not self._limits_money:
            return ()
        try:
            figures, today = self._read(step, state())
            self._standing = assess(self._standing, self.guardrails, figures, today)
            return tuple(reached(self._standing, self.guardrails, figures))
        except Exception as error:
            # If the author's function fails, the limits cannot be checked: the harness is blocked, but the program goes on.
            said = one_line(f"{type(error).__name__}: {error}", 300)
            reason = f"the figures of the state cannot be read: {said}; correct `figures`"
            return (Finding(limit_name="figures", current_value="unknown", limit_value="known", reason=reason),)

    def _read(self, step: Step[Any, Any], state: Any) -> tuple[Figures, date]:
        if self._figures is None:
            raise LookupError(
                "there is no function for them: expected Watch(…, figures=…), or a `figures` method of the harness"
            )
        moment = self._moment(state) if self._moment is not None else None
        return numbers(self._figures(state)), (moment or step.timestamp).astimezone(UTC).date()

    def _check_progress(self, step: Step[Any, Any], delta: Delta, state: Callable[[], Any]) -> tuple[Finding, ...]:
        guard = self.guardrails.no_progress
        if guard is None or self._fingerprints is None:
            return ()
        self._loops = self._loops.after(self._fingerprints.take(step.input, step.output, delta, state))
        period = self._loops.period(guard.steps)
        if period is None:
            return ()
        loop = self._loops.recent[:period]
        self._loops = self._loops.rested()
        attempts = self._fruitless + 1 if set(loop) & set(self._stuck) else 1
        gives_up = guard.policy == "restart" and attempts > FRUITLESS
        self._fruitless, self._stuck = (0, ()) if gives_up else (attempts, loop)
        return (_no_progress(guard, period, attempts if gives_up else 0),)


def terms(
    guardrails: Guardrails,
    figures: FiguresOf | None = None,
    *,
    budget: Budget | None = None,
    deadline_s: float | None = None,
    moment: Callable[[Any], datetime | None] | None = None,
    tell: Callable[[Finding], None] | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments that enforce all guardrails: `orchestrator.start(harness, name=…, **terms(guardrails))`.

    Args:
        budget: an additional budget; the tighter limit of each field applies.
        deadline_s: an additional deadline; the tighter one applies.
    """
    made: dict[str, Any] = {}
    budgets = [one for one in (budget, guardrails.budget) if one is not None]
    if budgets:
        made["budget"] = budgets[0].min(budgets[-1])
    deadlines = [one for one in (deadline_s, guardrails.deadline_s) if one is not None]
    if deadlines:
        made["deadline_s"] = min(deadlines)
    if guardrails.watches:
        made["governor"] = Watch(guardrails, figures, moment=moment, tell=tell)
    return made


def telling(harness: BaseHarness[Any, Any, Any]) -> Callable[[Finding], None]:
    """Return a function that reports a finding to a harness as a line of output, and to its agents as knowledge
    `guardrail`."""

    def tell(found: Finding) -> None:
        text = _describe(found)
        harness.log(text, source="guardrails")
        harness.know({**harness.load_context().relevant_knowledge, "guardrail": text})

    return tell


def _no_progress(guard: NoProgress, period: int, fruitless: int) -> Finding:
    """Return the finding for repeated steps.

    Args:
        fruitless: number of attempts that ended in this loop, if no other may begin; else 0.
    """
    what = "the same step" if period == 1 else f"the same {period} steps in turn"
    reason = f"{guard.steps} steps have repeated {what}: nothing new in state, input and output"
    if fruitless:
        reason = f"{reason}, in {fruitless} attempts; a person has to decide"
    elif guard.policy == "block":
        reason = f"{reason}; a person has to decide"
    return Finding(
        limit_name="no_progress",
        current_value=str(guard.steps),
        limit_value=str(guard.steps),
        reason=reason,
        policy="block" if fruitless else guard.policy,
    )


def _stood(kept: Mapping[str, Any]) -> AccountStatus:
    try:
        return msgspec.convert(kept, AccountStatus)
    except msgspec.ValidationError:
        # The stored value was not written by this code; assume the worst.
        return evolve(AccountStatus(), fallen=True)


def _describe(found: Finding) -> str:
    return f"guardrail {found.limit_name}: {found.reason} (limit {found.limit_value}, was {found.current_value})"
