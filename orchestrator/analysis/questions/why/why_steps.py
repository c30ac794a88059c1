"""How a step came about: when, what its time went into, what it used up, what it did in the world. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harnesses.data.delta import modified
from orchestrator.analysis.answers.answer_wording import listed, seconds, times
from orchestrator.analysis.questions.answer_cells import moment
from orchestrator.analysis.questions.why.why_attempts import Link
from orchestrator.analysis.questions.why.why_facts import Around, EffectFact, MessageFact, StepFact
from orchestrator.codec import decode
from orchestrator.text.terminal_text import one_line

_OUTCOMES = {
    "confirmed": "has happened",
    "refused": "was refused",
    "unknown": "may have happened: nobody knows",
    "not_done": "has not happened",
    "begun": "was begun, and no outcome is on record",
}
_MOST = 5


def step_links(name: str, number: int, found: Around, *, is_made: bool) -> list[Link]:
    """Return how a step came about; of one that is being made, how far it is."""
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
    """Yield the messages that a step used up."""
    for one in messages[:_MOST]:
        text = f"{whose} used up message {one.seq}, {message_words(one)}."
        yield Link(text, one.sender or name, None, one.sent_while, one.at, one.seq)
    if len(messages) > _MOST:
        yield Link(f"{whose} used up {times(len(messages) - _MOST, 'more message', 'more messages')}.", name)


def message_words(one: MessageFact) -> str:
    """Return where a message came from, and what it says."""
    while_ = f", sent while {one.sender} was making step {one.sent_while}" if one.sent_while else ""
    sender = f"from {one.sender}{while_}" if one.sender else "sent from outside"
    return f"{sender}: {one_line(one.text, 100)}"


def effect_links(name: str, effects: Sequence[EffectFact]) -> Iterator[Link]:
    """Yield what a step did in the world."""
    for one in effects[:_MOST]:
        reason = f": {one_line(one.reason, 200)}" if one.reason else ""
        text = f"In step {one.step} effect {one_line(one.key, 80)!r} {_OUTCOMES.get(one.outcome, one.outcome)}{reason}."
        yield Link(text, name, one.attempt, one.step, one.at, one.seq)
    if len(effects) > _MOST:
        yield Link(f"And {times(len(effects) - _MOST, 'more effect')}.", name)


def _sent(name: str, number: int, messages: Sequence[MessageFact]) -> Iterator[Link]:
    for one in messages[:_MOST]:
        used = f"; step {one.consumed_step} of {one.to} used it up" if one.consumed_step else "; no step has used it up yet"
        text = f"While step {number} was being made, it sent message {one.seq} to {one.to}{used}."
        yield Link(text, name, None, number, one.at, one.seq)
