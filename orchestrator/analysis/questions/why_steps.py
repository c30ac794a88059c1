"""The records around one step of one harness, and how the step came about: its time, its activities, the messages it consumed,
its effects, and the messages sent meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, field, frozen

from harnesses.data.delta import modified
from orchestrator.analysis.answers.answer import listed, moment, seconds, times
from orchestrator.analysis.frames.analysis_run import Run
from orchestrator.analysis.questions.why_attempts import Link
from orchestrator.codec import decode
from orchestrator.text.terminal_text import one_line

_STEPS = """
    SELECT seq, "timestamp", attempt, step_number, work_s, agent_s, effects_s, waiting_s, summary, left(output::VARCHAR, 400),
           delta::VARCHAR
    FROM {steps} WHERE harness = ? AND step_number BETWEEN ? AND ? ORDER BY step_number
"""
_EFFECTS = """
    SELECT seq, "timestamp", step_number, key, outcome, reason, idempotent OR keep, attempt FROM {effects}
    WHERE harness = ? AND step_number BETWEEN ? AND ? ORDER BY seq
"""
_MESSAGES = """
    SELECT seq, "timestamp", sender, harness, left(message::VARCHAR, 300), consumed_step FROM messages
    WHERE harness = ? OR sender = ? ORDER BY seq
"""
_ANY_MESSAGE = 'SELECT 1 FROM ({messages}) WHERE harness = ? OR "from" = ? LIMIT 1'
"""What the frame takes a pass over all steps for, to find out which messages they have consumed."""
_MADE = """
    SELECT m.seq, max(s.step_number) FROM (SELECT seq, sender, "timestamp" AS at FROM messages WHERE list_contains(?, seq)) m
    LEFT JOIN (SELECT harness, "timestamp" AS at, step_number FROM step_heads WHERE list_contains(?, harness)) s
    ON s.harness = m.sender AND s.at < m.at GROUP BY m.seq
"""
"""Query for the sender's last step before each message. By time and not by `seq`, since earlier versions recorded a message
before the step that it was sent with, and this one does so after it.
"""
_BUDGETS = """
    SELECT pools, coalesce(spent, amounts)::VARCHAR FROM budgets
    WHERE harness = ? AND change IN ('settled', 'overspent', 'forfeited', 'charged') ORDER BY seq
"""


@frozen
class StepFact:
    """A recorded step."""

    seq: int
    at: datetime
    attempt: int
    number: int
    work_s: float | None
    agent_s: float | None
    effects_s: float | None
    waiting_s: float | None
    summary: str | None
    output: str | None
    delta: str | None


@frozen
class EffectFact:
    """An effect of a step."""

    seq: int
    at: datetime
    step: int
    key: str
    outcome: str
    reason: str
    may_be_cut_off: bool
    """Whether nobody has to say what became of a call that is cut off: it is run again, or that is its result."""
    attempt: int

    @property
    def is_open(self) -> bool:
        """Whether its outcome is unknown."""
        return self.outcome == "unknown" or (self.outcome == "begun" and not self.may_be_cut_off)


@frozen
class MessageFact:
    """A message to a harness."""

    seq: int
    at: datetime
    sender: str
    """Name of the sender; empty if it is not a harness."""
    to: str
    text: str
    consumed_step: int | None
    """Number of the receiver's step that consumed it."""
    sent_while: int | None = None
    """Number of the step that the sender was making then."""


@frozen
class Around:
    """The records around a step."""

    step: StepFact | None
    """The step; None while it is in progress."""
    before: StepFact | None
    effects: Sequence[EffectFact] = field(factory=tuple)
    used: Sequence[MessageFact] = field(factory=tuple)
    """Messages that the step consumed."""
    used_before: Sequence[MessageFact] = field(factory=tuple)
    """Messages that the step before it consumed."""
    unread: Sequence[MessageFact] = field(factory=tuple)
    """Messages that no step has consumed, oldest first."""
    sent: Sequence[MessageFact] = field(factory=tuple)
    """Messages that the harness sent while the step was made."""


def around(run: Run, name: str, number: int) -> Around:
    """Return the records around step `number`, recorded or in progress."""
    steps, effects_read = (run.near(frame, name, number - 1, number) for frame in ("steps", "effects"))
    found = {row[3]: StepFact(*row) for row in run.rows(_STEPS.format(steps=steps), [name, number - 1, number])}
    effects = [EffectFact(*row) for row in run.rows(_EFFECTS.format(effects=effects_read), [name, number, number])]
    is_told = run.rows(_ANY_MESSAGE.format(messages=run.source.own(("message",), {"from": "VARCHAR"})), [name, name])
    messages = [MessageFact(*row) for row in run.rows(_MESSAGES, [name, name])] if is_told else []
    return around_of(name, number, found, effects, messages, lambda some: _sent_while(run, some))


def around_of(
    name: str,
    number: int,
    steps: Mapping[int, StepFact],
    effects: Sequence[EffectFact],
    messages: Sequence[MessageFact],
    sent_while: Callable[[Sequence[MessageFact]], Mapping[int, int]],
) -> Around:
    """Arrange the records around step `number`.

    Args:
        steps: it and the one before, by number, those that are recorded.
        effects: those of the step.
        messages: all from and to the harness.
        sent_while: returns the step that the sender of each message was making, by the message's `seq`.
    """
    step, before = steps.get(number), steps.get(number - 1)
    mine = [one for one in messages if one.sender == name and (before is None or one.at > before.at)]
    sent = [one for one in mine if step is None or one.at <= step.at]
    mine = [one for one in messages if one.to == name]
    used = [one for one in mine if one.consumed_step == number]
    used_before = [one for one in mine if one.consumed_step is not None and one.consumed_step == number - 1]
    unread = [one for one in mine if one.consumed_step is None]
    asked = [*used, *used_before, *unread[:1]]
    made: Mapping[int, int] = sent_while(asked) if any(one.sender for one in asked) else {}
    known = {one.seq: evolve(one, sent_while=made.get(one.seq)) for one in asked if one.sender}
    return Around(
        step,
        before,
        effects,
        [known.get(one.seq, one) for one in used],
        [known.get(one.seq, one) for one in used_before],
        [known.get(one.seq, one) for one in unread],
        sent,
    )


def _sent_while(run: Run, messages: Iterable[MessageFact]) -> dict[int, int]:
    """Return the step that the sender of each message was making, by the message's `seq`."""
    asked = [one for one in messages if one.sender]
    senders = [one.sender for one in asked]
    rows = run.rows(_MADE, [[one.seq for one in asked], sorted(set(senders))])
    return {seq: (step or 0) + 1 for seq, step in rows}


def spent(run: Run, name: str) -> list[tuple[list[str], dict[str, Any]]]:
    """Return the pools and amounts of each settled reservation of a harness."""
    return [(list(pools or ()), decode(amounts) if amounts else {}) for pools, amounts in run.rows(_BUDGETS, [name])]


def tracebacks(run: Run, seqs: Sequence[int]) -> dict[int, str]:
    """Return the tracebacks of failures, by the `seq` of their records."""
    query = "SELECT seq, body ->> '$.traceback' FROM events WHERE kind = 'failed' AND list_contains(?, seq)"
    return {seq: text or "" for seq, text in run.rows(query, [list(seqs)])} if seqs else {}


_OUTCOMES = {
    "confirmed": "has happened",
    "refused": "was refused",
    "unknown": "may have happened: its outcome is unknown",
    "not_done": "has not happened",
    "failed": "has failed",
    "interrupted": "was interrupted, and may have happened",
    "begun": "was begun, and has no recorded outcome",
}
_MOST = 5


def step_links(name: str, number: int, found: Around, *, is_made: bool) -> list[Link]:
    """Return how a step came about; for a step in progress, how far it is."""
    links = list(_made(name, found.step)) if found.step else []
    if not is_made:
        since = f" since step {found.before.number} was recorded at {moment(found.before.at)}" if found.before else ""
        links.append(Link(f"{name}: step {number} is not recorded; it is what comes next{since}.", name, None, number))
    links.extend(used_links(name, f"Step {number}", found.used))
    links.extend(effect_links(name, found.effects))
    links.extend(_sent(name, number, found.sent))
    return links


def _made(name: str, step: StepFact) -> Iterator[Link]:
    place = (name, step.attempt, step.number, step.at, step.seq)
    parts = (("in agents", step.agent_s), ("in effects", step.effects_s), ("waiting", step.waiting_s))
    spent = listed(f"{seconds(part)} {what}" for what, part in parts if part)
    took = "" if step.work_s is None else f", after {seconds(step.work_s)} of work" + (f" ({spent})" if spent else "")
    yield Link(f"Step {step.number} of {name} was recorded at {moment(step.at)} in attempt {step.attempt}{took}.", *place)
    changed = changed_fields(step.delta)
    summary = f": {one_line(step.summary, 200)}" if step.summary else ""
    if changed or summary:
        what = (
            "the state"
            if changed == ["state"]
            else f"{listed(changed, 8)} in the state"
            if changed
            else "nothing in the state"
        )
        yield Link(f"Step {step.number} changed {what}{summary}.", *place)
    yield Link(f"The output of step {step.number} was {one_line(step.output or 'null', 200)}.", *place)


def changed_fields(delta: str | None) -> list[str]:
    """Return the top-level fields of the state that a step changed."""
    return [one_line(name, 60) for name in modified(decode(delta))] if delta and delta.startswith("{") else []


def used_links(name: str, whose: str, messages: Sequence[MessageFact]) -> Iterator[Link]:
    """Yield the messages that a step consumed."""
    for one in messages[:_MOST]:
        text = f"{whose} consumed message {one.seq}, {message_words(one)}."
        yield Link(text, one.sender or name, None, one.sent_while, one.at, one.seq)
    if len(messages) > _MOST:
        yield Link(f"{whose} consumed {times(len(messages) - _MOST, 'more message', 'more messages')}.", name)


def message_words(one: MessageFact) -> str:
    """Return the origin and content of a message."""
    while_ = f", sent while {one.sender} was making step {one.sent_while}" if one.sent_while else ""
    sender = f"from {one.sender}{while_}" if one.sender else "sent from outside"
    return f"{sender}: {one_line(one.text, 100)}"


def effect_links(name: str, effects: Sequence[EffectFact]) -> Iterator[Link]:
    """Yield the effects of a step."""
    for one in effects[:_MOST]:
        reason = f": {one_line(one.reason, 200)}" if one.reason else ""
        text = f"In step {one.step} effect {one_line(one.key, 80)!r} {_OUTCOMES.get(one.outcome, one.outcome)}{reason}."
        yield Link(text, name, one.attempt, one.step, one.at, one.seq)
    if len(effects) > _MOST:
        yield Link(f"And {times(len(effects) - _MOST, 'more effect')}.", name)


def _sent(name: str, number: int, messages: Sequence[MessageFact]) -> Iterator[Link]:
    for one in messages[:_MOST]:
        used = f"; step {one.consumed_step} of {one.to} consumed it" if one.consumed_step else "; no step has consumed it yet"
        text = f"While step {number} was being made, it sent message {one.seq} to {one.to}{used}."
        yield Link(text, name, None, number, one.at, one.seq)
