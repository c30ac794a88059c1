"""Laws of operators: requests to people, and their statements on effects and harnesses, are recorded as theirs, once."""

from __future__ import annotations

from contextlib import closing

from harnesses.effects.approval import Action, Word, request_of
from harnesses.effects.effect import EffectOutcome
from orchestrator.codec import decode
from orchestrator.errors import OwnedElsewhere, OwnershipLost, UnknownHarness, UsageError
from orchestrator.records import LIMITS_SET
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Laws,
    Open,
    attached_row,
    claim,
    do,
    give_back,
    intent_row,
    outcome_row,
    step_row,
)
from orchestrator.store.store_operations import APPROVAL_KINDS, Ask, Asked, Respond, Taken, TakeUp
from orchestrator.store.store_protocol import Claimed, Remark, Settle, Store

laws = Laws()


def settle(store: Store, key: str, *, name: str = "one", done: bool = True, result: str = "null") -> object:
    """Settle an effect; return the store's result."""
    return do(store, Settle(name, key, done, result, "I looked", TIME_US + 9))


@laws.of_a_store
def a_person_says_what_became_of_an_effect(store: Store) -> None:
    claimed = claim(store, "one")
    rows = [intent_row(claimed, 2, key, 7) for key in "ab"]
    store.commit([step_row(claimed, 1)])
    store.commit([], effects=rows)
    give_back(store, claimed, 1)

    seqs = [settle(store, "a", result='{"price":"1.10"}'), settle(store, "b", done=False)]

    assert [(effect.outcome, effect.result, effect.reason, effect.settled_by) for effect in store.effects()] == [
        (EffectOutcome.CONFIRMED, {"price": "1.10"}, "I looked", "operator"),
        (EffectOutcome.NOT_DONE, None, "I looked", "operator"),
    ]
    records = store.records()[-2:]
    assert [(record.seq, record.kind, record.step) for record in records] == [(seq, "outcome", 2) for seq in seqs]
    assert [(record.harness, record.run, record.time_us) for record in records] == [("one", "", TIME_US + 9)] * 2
    assert [kind for kind, _ in claim(store, "one").marks] == ["intent", "intent", "outcome", "outcome"]


@laws.of_a_store
def what_needs_no_settling_is_refused_and_changes_nothing(store: Store) -> None:
    claimed, sibling = claim(store, "one"), claim(store, "sibling")
    rows = [intent_row(claimed, 1, "past"), intent_row(claimed, 1, "open")]
    store.commit([], effects=rows)
    store.commit([step_row(claimed, 1)])
    store.commit(
        [], effects=[intent_row(claimed, 2, "done"), outcome_row(claimed, 2, "done", EffectOutcome.CONFIRMED, result=1)]
    )
    store.commit([step_row(sibling, 1)])
    store.commit([], effects=[intent_row(sibling, 2, "not ours")])
    give_back(store, claimed, 1)
    before = store.records()

    refusals = [settle(store, key) for key in ("past", "done", "not ours", "never")]
    unknown = settle(store, "open", name="two")

    assert [type(refusal) for refusal in (*refusals, unknown)] == [*[UsageError] * 4, UnknownHarness]
    assert store.records() == before


@laws.of_a_store
def the_effects_of_a_harness_that_runs_are_its_own_to_settle(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([], effects=[intent_row(claimed, 1, "buy")])

    result = settle(store, "buy")

    assert isinstance(result, OwnedElsewhere)
    assert [effect.outcome for effect in store.effects()] == [EffectOutcome.BEGUN]


@laws.of_a_store
def what_an_operator_did_is_on_record_of_one_harness_or_of_all(store: Store) -> None:
    claim(store, "one")

    seqs = [do(store, Remark(name, "latched", '{"reason":"crash"}', TIME_US)) for name in ("one", "")]
    refused = do(store, Remark("two", "latched", "{}", TIME_US))

    assert isinstance(refused, UnknownHarness)
    records = store.records()
    assert [(record.seq, record.harness, record.kind, record.run) for record in records] == [
        (seqs[0], "one", "latched", ""),
        (seqs[1], "", "latched", ""),
    ]
    assert [(record.time_us, decode(record.body)) for record in records] == [(TIME_US, {"reason": "crash"})] * 2


@laws.between_runs
def a_claim_tells_the_time_limits_that_an_operator_has_set_last(open_store: Open) -> None:
    with closing(open_store()) as first:
        unset = claim(first, "one").time_limits
        for seconds in (30, 20):
            do(first, Remark("one", LIMITS_SET, f'{{"held":{{"period_s":{seconds}}}}}', TIME_US))
        do(first, Remark("one", "latch", '{"on":true}', TIME_US))
        claim(first, "two")

    with closing(open_store()) as second:
        claimed = [claim(second, name).time_limits for name in ("one", "two")]

    assert (unset, claimed) == ({}, [{"held": {"period_s": 20}}, {}])


@laws.between_runs
def a_person_may_settle_what_a_dead_run_has_left(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as operator:
        claimed = claim(first, "one")
        first.commit([], effects=[intent_row(claimed, 1, "buy")])
        while_alive = settle(operator, "buy")
        first.close()

        settled = settle(operator, "buy", result="70")

        assert isinstance(while_alive, OwnedElsewhere)
        assert isinstance(settled, int)
        assert [effect.result for effect in operator.effects("one")] == [70]


_SECRET = b"s" * 32


def ask(store: Store, claimed: Claimed, *, key: str = "push", step: int = 1, at_us: int = TIME_US, id: str = "") -> Asked:
    """Request an approval that is valid for an hour."""
    action = Action("publish", f"{key} it", {"to": "main"}, expires_s=3600)
    wanted = request_of(id or f"{key}-{step}-{at_us}", "one", step, key, action, now_us=at_us)
    asked = do(store, Ask(claimed.harness, claimed.epoch, claimed.attempt + 1, wanted, _SECRET))
    assert isinstance(asked, Asked), f"expected the request to be taken, was {asked!r}"
    return asked


def respond(store: Store, id: str, verdict: str) -> object:
    """Answer a request, and return the store's result."""
    return do(store, Respond(id, verdict, "ann", "", TIME_US + 5, _SECRET))


def take_up(store: Store, claimed: Claimed, id: str, *, step: int = 1, at_us: int = TIME_US + 9) -> Word:
    """Return the standing of a request, and use it if it is approved."""
    taken = do(store, TakeUp(claimed.harness, claimed.epoch, claimed.attempt + 1, step, id, at_us, _SECRET))
    assert isinstance(taken, Taken), f"expected to be told where it stands, was {taken!r}"
    return taken.standing.word


@laws.of_a_store
def an_action_of_a_step_is_asked_for_once(store: Store) -> None:
    claimed = claim(store, "one")

    first, again = ask(store, claimed, id="a"), ask(store, claimed, id="b", at_us=TIME_US + 1)
    other = ask(store, claimed, key="pull", id="c")

    assert (again.id, other.id) == (first.id, "c")
    assert [(record.id, record.harness, record.step_number) for record in store.approvals()] == [
        ("a", "one", 1),
        ("c", "one", 1),
    ]


@laws.of_a_store
def what_has_expired_is_asked_for_anew(store: Store) -> None:
    claimed = claim(store, "one")
    first = ask(store, claimed)

    again = ask(store, claimed, at_us=TIME_US + 3_600_000_000)

    assert again.id != first.id
    assert take_up(store, claimed, first.id, at_us=TIME_US + 3_600_000_000) is Word.EXPIRED


@laws.of_a_store
def an_approval_is_used_once_and_is_then_past_denying(store: Store) -> None:
    claimed = claim(store, "one")
    id = ask(store, claimed).id
    before = take_up(store, claimed, id)

    seq, same = respond(store, id, "approved"), respond(store, id, "approved")
    words = [take_up(store, claimed, id) for _ in range(2)]
    late = respond(store, id, "denied")

    assert (before, words, same, isinstance(seq, int)) == (Word.PENDING, [Word.APPROVED] * 2, 0, True)
    assert isinstance(late, UsageError)
    assert [record.kind for record in store.records() if record.kind in APPROVAL_KINDS] == list(APPROVAL_KINDS)


@laws.of_a_store
def a_denial_stands(store: Store) -> None:
    claimed = claim(store, "one")
    id = ask(store, claimed).id
    respond(store, id, "approved")

    respond(store, id, "denied")

    assert isinstance(respond(store, id, "approved"), UsageError)
    assert take_up(store, claimed, id) is Word.DENIED


@laws.of_a_store
def an_approval_is_for_its_step_and_its_owner(store: Store) -> None:
    claimed = claim(store, "one")
    id = ask(store, claimed).id
    respond(store, id, "approved")

    assert take_up(store, claimed, id, step=2) is Word.INVALID
    assert isinstance(do(store, TakeUp(claimed.harness, claimed.epoch + 1, 1, 1, id, TIME_US, _SECRET)), OwnershipLost)
    assert isinstance(respond(store, "nothing", "approved"), UsageError)


@laws.of_a_store
def what_is_attached_comes_with_its_step_or_not_at_all(store: Store) -> None:
    claimed = claim(store, "one")

    store.commit([step_row(claimed, 1)], effects=[attached_row(claimed, 1, "evidence"), attached_row(claimed, 1, "task")])
    refused = store.commit([step_row(claimed, 3)], effects=[attached_row(claimed, 3, "evidence")])

    assert [(record.kind, record.step) for record in store.records()] == [("step", 1), ("evidence", 1), ("task", 1)]
    assert (list(refused.seqs), list(refused.effects)) == ([0], [0])
    assert store.effects() == []
