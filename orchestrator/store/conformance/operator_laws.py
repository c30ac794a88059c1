"""What a person says of effects, and does to harnesses, is on record as theirs; only what nobody knows is theirs to settle."""

from __future__ import annotations

from contextlib import closing

from harnesses.effects.effect import EffectOutcome
from orchestrator.codec import decode
from orchestrator.errors import OwnedElsewhere, UnknownHarness, UsageError
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Law,
    Open,
    claim,
    do,
    give_back,
    intent_row,
    outcome_row,
    step_row,
)
from orchestrator.store.store_protocol import Remark, Settle, Store


def settle(store: Store, key: str, *, name: str = "one", done: bool = True, result: str = "null") -> object:
    """Say what became of an effect; return what the store makes of it."""
    return do(store, Settle(name, key, done, result, "I looked", TIME_US + 9))


def a_person_says_what_became_of_an_effect(open_store: Open) -> None:
    with closing(open_store()) as store:
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


def what_needs_no_settling_is_refused_and_changes_nothing(open_store: Open) -> None:
    with closing(open_store()) as store:
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


def the_effects_of_a_harness_that_runs_are_its_own_to_settle(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([], effects=[intent_row(claimed, 1, "buy")])

        result = settle(store, "buy")

        assert isinstance(result, OwnedElsewhere)
        assert [effect.outcome for effect in store.effects()] == [EffectOutcome.BEGUN]


def what_an_operator_did_is_on_record_of_one_harness_or_of_all(open_store: Open) -> None:
    with closing(open_store()) as store:
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


LAWS: tuple[Law, ...] = (
    a_person_says_what_became_of_an_effect,
    what_needs_no_settling_is_refused_and_changes_nothing,
    the_effects_of_a_harness_that_runs_are_its_own_to_settle,
    what_an_operator_did_is_on_record_of_one_harness_or_of_all,
)

LAWS_BETWEEN_RUNS: tuple[Law, ...] = (a_person_may_settle_what_a_dead_run_has_left,)
