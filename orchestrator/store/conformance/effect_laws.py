"""Laws of effects: intents and outcomes belong to their harness's owner, and to a step of their commit or the one after it."""

from __future__ import annotations

from contextlib import closing

from harnesses.effects.effect import EffectOutcome
from orchestrator.codec import decode
from orchestrator.errors import UnknownHarness
from orchestrator.store.conformance.conformance_tools import (
    TIME_US,
    Laws,
    Open,
    Trap,
    assert_raises,
    claim,
    give_back,
    intent_row,
    numbers,
    outcome_row,
    output_row,
    step_row,
)
from orchestrator.store.store_protocol import Claimed, Post, Store

laws = Laws()


_CONFIRMED, _UNKNOWN, _NOT_DONE = EffectOutcome.CONFIRMED, EffectOutcome.UNKNOWN, EffectOutcome.NOT_DONE


def outcomes(store: Store, name: str | None = None) -> list[tuple[str, int, str, str]]:
    """Return harness, step, key and outcome of every effect, as they are read."""
    return [(effect.harness, effect.step_number, effect.key, effect.outcome.value) for effect in store.effects(name)]


def marked(claimed: Claimed) -> list[tuple[str, str]]:
    """Return kind and key of the marks that a claim returns for the step in progress."""
    return [(kind, decode(body)["key"]) for kind, body in claimed.marks]


@laws.of_a_store
def an_effect_is_read_as_it_was_written(store: Store) -> None:
    key = 'ünï\u2028 🙂 \\ " $.key'
    given = {"text": 'ünï\u2028 🙂 \\ " \x00', "deep": [[7]], "none": None, "big": "x" * 30_000}
    claimed = claim(store, "one")
    committed = store.commit([], effects=[intent_row(claimed, 1, key, given, 7, idempotent=True)])
    store.commit([], effects=[outcome_row(claimed, 1, key, _CONFIRMED, result=given, reason="because")])

    (effect,) = store.effects("one")
    assert (effect.harness, effect.step_number, effect.key, effect.attempt) == ("one", 1, key, 1)
    assert ([effect.seq], effect.time_us) == (list(committed.effects), TIME_US + 1)
    assert (effect.arguments, effect.result, effect.reason) == ([given, 7], given, "because")
    assert (effect.outcome, effect.idempotent, effect.settled_by) == (_CONFIRMED, True, "")


@laws.of_a_store
def what_is_known_of_an_effect_is_its_newest_outcome(store: Store) -> None:
    claimed = claim(store, "one")
    seen: list[str] = []
    for row in (
        intent_row(claimed, 1, "buy"),
        outcome_row(claimed, 1, "buy", _UNKNOWN, reason="cut"),
        outcome_row(claimed, 1, "buy", _NOT_DONE),
        intent_row(claimed, 1, "buy"),
        outcome_row(claimed, 1, "buy", _CONFIRMED, result=None),
    ):
        store.commit([], effects=[row])
        (effect,) = store.effects()
        seen.append(f"{effect.outcome} {effect.reason}".strip())

    assert seen == ["begun", "unknown cut", "not_done", "begun", "confirmed"]


@laws.of_a_store
def kept_errors_are_read_as_they_were_written_and_open_to_nobody(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([], effects=[intent_row(claimed, 1, key, keep=True) for key in ("raised", "cut off", "begun")])
    store.commit([], effects=[outcome_row(claimed, 1, "raised", EffectOutcome.FAILED, reason="ValueError: no")])
    store.commit([], effects=[outcome_row(claimed, 1, "cut off", EffectOutcome.INTERRUPTED, reason="killed")])

    known = [(effect.outcome.value, effect.reason, effect.keep, effect.is_open) for effect in store.effects()]
    assert known == [
        ("failed", "ValueError: no", True, False),
        ("interrupted", "killed", True, False),
        ("begun", "", True, False),
    ]


@laws.of_a_store
def effects_are_listed_in_the_order_in_which_they_were_begun_last(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    store.commit([], effects=[intent_row(one, 1, "a"), intent_row(other, 1, "a"), intent_row(one, 1, "b")])
    store.commit([], effects=[outcome_row(one, 1, key, _CONFIRMED) for key in "ba"])
    store.commit([step_row(one, 1)])
    store.commit([], effects=[intent_row(one, 2, "a"), intent_row(other, 1, "a")])

    mine = [("one", 1, "a", "confirmed"), ("one", 1, "b", "confirmed"), ("one", 2, "a", "begun")]
    assert outcomes(store) == [*mine, ("other", 1, "a", "begun")]
    assert outcomes(store, "one") == mine
    assert outcomes(store, "other") == [("other", 1, "a", "begun")]
    assert_raises(UnknownHarness, "'two'", lambda: store.effects("two"))


@laws.of_a_store
def an_effect_belongs_to_the_step_after_the_last(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    store.commit([step_row(one, 1)])

    for number, wrong in enumerate((0, 1, 3), 1):
        rows = [intent_row(one, wrong, "buy"), intent_row(other, number, "buy")]
        committed = store.commit([step_row(other, number)], effects=rows)
        assert [bool(seq) for seq in committed.effects] == [False, True]
        assert committed.lost == frozenset()

    assert list(store.commit([], effects=[intent_row(one, 1, "buy")]).effects) == [0]
    assert outcomes(store, "one") == []
    assert all(store.commit([], effects=[intent_row(one, 2, "buy")]).effects)


@laws.of_a_store
def the_effects_of_the_steps_being_made_are_found_by_themselves(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    for step in (1, 2):
        store.commit([], effects=[intent_row(one, step, "a"), outcome_row(one, step, "a", _CONFIRMED, result=step)])
        store.commit([step_row(one, step)])
    store.commit([], effects=[intent_row(one, 3, "a", 7), intent_row(other, 1, "b")])
    store.commit([], effects=[outcome_row(one, 3, "a", _UNKNOWN, reason="cut")])

    assert store.effects(current=True) == [effect for effect in store.effects() if effect.is_open]
    assert [effect.key for effect in store.effects("one", current=True)] == ["a"]
    assert_raises(UnknownHarness, "'two'", lambda: store.effects("two", current=True))


@laws.of_a_store
def an_outcome_may_come_with_its_step(store: Store) -> None:
    claimed = claim(store, "one")
    store.commit([], effects=[intent_row(claimed, 1, "buy", idempotent=True)])

    committed = store.commit([step_row(claimed, 1)], effects=[outcome_row(claimed, 1, "buy", _UNKNOWN)])

    assert all((*committed.seqs, *committed.effects))
    assert outcomes(store) == [("one", 1, "buy", "unknown")]
    assert claim(store, "one", take_over=True).marks == ()


@laws.of_a_store
def effects_may_come_with_later_steps_than_their_own(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    store.commit([step_row(one, 1), step_row(other, 1)])

    for operations in ([], [Post("other", "", TIME_US, "1")]):
        last = len(numbers(store, "one"))
        rows = [
            row
            for step in range(last, last + 5)
            for row in (intent_row(one, step, "buy"), outcome_row(one, step, "buy", _CONFIRMED, result=step))
        ]
        steps = [step_row(one, step) for step in range(last + 1, last + 4)]
        committed = store.commit(steps, operations, effects=rows)

        # Not of a step that was recorded before; and not of one that is not the next.
        assert [bool(seq) for seq in committed.effects] == [False] * 2 + [True] * 8
        assert all(committed.seqs)
    assert [effect.result for effect in store.effects("one")] == [2, 3, 4, 5, 6, 7, 8]


@laws.of_a_store
def steps_come_before_effects_and_effects_before_all_else(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    given: list[int] = []
    for number in (1, 2):
        for step, operations in ((2 * number - 1, []), (2 * number, [Post("one", "", TIME_US, "1")])):
            rows = [intent_row(other, 1, f"{step} a"), intent_row(one, step, "b")]
            committed = store.commit([step_row(one, step)], operations, effects=rows)
            given += [*committed.seqs, *committed.effects, *committed.results]

    records = store.records()
    assert [record.seq for record in records] == given
    assert [record.kind for record in records] == ["step", "intent", "intent", "step", "intent", "intent", "message"] * 2
    assert [record.harness for record in records[:3]] == ["one", "other", "one"]


@laws.of_a_store
def many_effects_in_one_commit_are_each_recorded_once(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    for step, count in enumerate((1, 2, 3, 511, 512, 513, 1500), 1):
        keys = [f"{step} {n}" for n in range(count)]
        rows = [intent_row(one, step, key) for key in keys]
        seqs = list(store.commit([step_row(other, step)], effects=rows).effects)

        assert seqs == list(range(seqs[0], seqs[0] + count))
        found = [(effect.seq, effect.key) for effect in store.effects("one") if effect.step_number == step]
        assert found == list(zip(seqs, keys, strict=True))
        store.commit([step_row(one, step)])


@laws.of_a_store
def a_commit_with_effects_is_all_or_nothing(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    before = store.records()

    def fail() -> None:
        raise ZeroDivisionError

    rows = [intent_row(one, 1, "buy"), intent_row(other, 1, "buy")]
    assert_raises(ZeroDivisionError, "", lambda: store.commit([step_row(other, 1)], effects=Trap(rows, fail)))

    assert (store.records(), store.effects(), numbers(store, "other")) == (before, [], [])
    committed = store.commit([step_row(other, 1)], effects=rows)
    assert all((*committed.seqs, *committed.effects))


@laws.of_a_store
def what_is_on_record_of_the_step_being_made_is_there_for_whoever_takes_over(store: Store) -> None:
    first, sibling = claim(store, "one"), claim(store, "sibling")
    store.commit([], effects=[intent_row(first, 1, "old"), intent_row(sibling, 1, "not ours")])
    store.commit([], effects=[outcome_row(first, 1, "old", _CONFIRMED)])
    store.commit([step_row(first, 1)])
    rows = [intent_row(first, 2, "b"), intent_row(first, 2, "a"), outcome_row(first, 2, "b", _UNKNOWN)]
    for row in rows:
        store.commit([], effects=[row])

    second = claim(store, "one", take_over=True)
    store.commit([], effects=[outcome_row(second, 2, "b", _CONFIRMED), intent_row(second, 2, "c")])
    third = claim(store, "one", take_over=True)

    assert marked(first) == []
    assert second.marks == tuple((row.kind, row.body) for row in rows)
    assert marked(third) == [*marked(second), ("outcome", "b"), ("intent", "c")]


@laws.of_a_store
def an_effect_of_an_older_epoch_is_not_written(store: Store) -> None:
    old, sibling = claim(store, "one"), claim(store, "sibling")
    new = claim(store, "one", take_over=True)

    for number in (1, 2):
        rows = [intent_row(old, 1, "buy"), intent_row(sibling, number, "buy"), outcome_row(old, 1, "buy", _CONFIRMED)]
        committed = store.commit([step_row(sibling, number)] if number == 1 else [], effects=rows)
        assert committed.lost == {old.harness}
        assert [bool(seq) for seq in committed.effects] == [False, True, False]

    assert outcomes(store, "one") == []
    assert all(store.commit([], effects=[intent_row(new, 1, "buy")]).effects)


@laws.of_a_store
def an_effect_after_the_release_is_not_written(store: Store) -> None:
    claimed = claim(store, "one")
    give_back(store, claimed)

    committed = store.commit([], effects=[intent_row(claimed, 1, "buy")])

    assert (list(committed.effects), set(committed.lost)) == ([0], {claimed.harness})
    assert outcomes(store) == []


# between runs


@laws.between_runs
def an_effect_is_there_for_the_next_run(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)])
        store.commit([], effects=[intent_row(claimed, 2, "buy", 7)])
        before = store.effects()

    with closing(open_store()) as store:
        assert store.effects() == before
        assert marked(claim(store, "one")) == [("intent", "buy")]


@laws.between_runs
def who_is_taken_over_can_not_begin_an_effect(open_store: Open) -> None:
    for together in (False, True):
        with closing(open_store()) as first, closing(open_store()) as second:
            old, kept = claim(first, f"one {together}"), claim(first, f"kept {together}")
            first.commit([step_row(old, 1), step_row(kept, 1)])
            new = claim(second, f"one {together}", take_over=True)

            rows = [intent_row(old, 2, "buy"), *([intent_row(kept, 2, "buy")] if together else [])]
            committed = first.commit([step_row(kept, 2)] if together else [], effects=rows)

            assert committed.lost == {old.harness}
            assert [bool(seq) for seq in committed.effects] == [False, True][: len(rows)]
            assert outcomes(second, f"one {together}") == []
            assert marked(claim(second, f"one {together}", take_over=True)) == []
            assert new.epoch > old.epoch


@laws.between_runs
def who_takes_over_learns_of_what_is_under_way(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        old = claim(first, "one")
        first.commit([], effects=[intent_row(old, 1, "buy")])

        new = claim(second, "one", take_over=True)
        late = first.commit([], effects=[outcome_row(old, 1, "buy", _CONFIRMED)])

        assert marked(new) == [("intent", "buy")]
        assert (list(late.effects), set(late.lost)) == ([0], {old.harness})
        assert outcomes(second) == [("one", 1, "buy", "begun")]


@laws.of_a_store
def output_is_a_record_and_no_effect(store: Store) -> None:
    claimed = claim(store, "one")
    rows = [intent_row(claimed, 1, "buy"), output_row(claimed, 1, "said")]
    committed = store.commit([], effects=rows)
    give_back(store, claimed)

    assert outcomes(store) == [("one", 1, "buy", "begun")]
    assert [effect.key for effect in store.effects("one", current=True)] == ["buy"]
    (record,) = store.records(after=committed.effects[1] - 1, limit=1)
    assert (record.kind, record.step, decode(record.body)) == ("output", 1, {"line": "said"})
    assert marked(claim(store, "one")) == [("intent", "buy")]
