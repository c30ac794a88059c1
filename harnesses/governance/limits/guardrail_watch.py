"""A governor that holds the guardrails of any harness, step by step.

    max_steps, max_cost      Budget        held by the budget: see `terms`
    deadline_s               deadline_s    held by the harness's clock: see `terms`
    max_drawdown, …          figures       `standing`: blocks
    no_progress              fingerprints  `looping`: tells, restarts, or blocks

    policy     of no progress
    tell       a finding with the step, and `tell` is called with it; again after as many steps more
    restart    a finding, and the attempt ends with `NoProgressMade`: a fresh one begins, as its supervision allows.
               After three that end in the same loop a person has to decide
    block      a finding, and the harness is blocked

The laws: what it knows is on disk with each step, in a few hundred bytes, so neither a restart nor a crash loop makes it
forget; and what it finds is on disk with the step at which it was found, and only then does it act.

Whoever starts a blocked harness again gives it `no_progress.steps` steps more. A halt for a drawdown ends by a person's word:
change `reset` to any other text, and the high-water mark and the day begin anew.
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
"""Fresh attempts that may end in the same loop."""
FiguresOf = Callable[[Any], Mapping[str, object]]


class Watch:
    """Holds the guardrails of one harness. One for each: it knows its steps.

    Args:
        figures: from a state to its figures: `equity`, and positions as `position` or `position:…`; without it there are none,
            and the limits on money say so. An empty mapping is: nothing is known yet.
        moment: from a state to the moment it is of, where that is not the time of the step, as in a replay; None is that time.
        tell: is called with what the harness is only told of, once that is recorded; see `telling`.
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
        """Take up what was kept with the last recorded step; what there is to lose counts from the state it begins with."""
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
            # What cannot be looked at is told with the first step.
            with suppress(Exception):
                equity = numbers(self._figures(state())).get("equity")
                self._standing = evolve(self._standing, high=equity, last=equity)
        self._found = self._halts()

    def look(self, step: Step[Any, Any], delta: Delta, state: Callable[[], Any]) -> Sequence[Finding]:
        """Return what limits a step that is about to be recorded has reached."""
        if self._fingerprints is not None and step.step_number != self._step + 1:
            # Not the step after the one that was seen last: what has changed is not known.
            self._fingerprints.forget()
        self._step = step.step_number
        self._found = (*self._check_figures(step, state), *self._check_progress(step, delta, state))
        return self._found

    def kept(self) -> Mapping[str, Any]:
        """Return what to keep with the step."""
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
            NoProgressMade: a fresh attempt is to begin.
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
        """Return what holds until a person's word ends it: also before the first step of an attempt."""
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
            # Whatever the author's function raises: what cannot be looked at is not let pass, nor does it end the program.
            said = one_line(f"{type(error).__name__}: {error}", 300)
            reason = f"the figures of the state cannot be had: {said}; correct `figures`"
            return (Finding(limit_name="figures", current_value="unknown", limit_value="known", reason=reason),)

    def _read(self, step: Step[Any, Any], state: Any) -> tuple[Figures, date]:
        if self._figures is None:
            raise LookupError(
                "no function that gives them: expected Watch(…, figures=…), or a `figures` method of the harness"
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
    """Return what to start a harness with, `orchestrator.start(harness, name=…, **terms(guardrails))`, to hold them all.

    Args:
        budget: what it may spend besides; the tighter limit of each holds.
        deadline_s: the same.
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
    """Return what tells a harness of a finding: a line of its output, and its agents by the `guardrail` of what they know."""

    def tell(found: Finding) -> None:
        text = _describe(found)
        harness.log(text, source="guardrails")
        harness.know({**harness.load_context().relevant_knowledge, "guardrail": text})

    return tell


def _no_progress(guard: NoProgress, period: int, fruitless: int) -> Finding:
    """Return what is said of steps that repeat.

    Args:
        fruitless: attempts that have ended so, if another is not to begin; else 0.
    """
    what = "the same step" if period == 1 else f"the same {period} steps in turn"
    reason = f"{guard.steps} steps have shown {what} again: nothing new in state, input and output"
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
        # It was not written by us. What is not known is not in anybody's favour.
        return evolve(AccountStatus(), fallen=True)


def _describe(found: Finding) -> str:
    return f"guardrail {found.limit_name}: {found.reason} (limit {found.limit_value}, was {found.current_value})"
