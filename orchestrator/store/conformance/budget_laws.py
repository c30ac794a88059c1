"""Laws of budgets: never overshot; settled amounts are charged and the rest returned; unsettled ones are charged in full."""

from __future__ import annotations

import threading
from contextlib import closing
from decimal import Decimal

from attrs import evolve

from harnesses.budgets.budget import NOTHING, Budget, Denied, Later, Spend
from harnesses.budgets.pools import Account
from harnesses.budgets.usage import Charged, Usage
from harnesses.errors import HarnessMisuse
from orchestrator import events
from orchestrator.codec import decode
from orchestrator.errors import OwnershipLost
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import TIME_US, Laws, Open, claim, do, event_row, step_row
from orchestrator.store.store_operations import Charge, Fund, Reserve, SettleSpend
from orchestrator.store.store_protocol import Claimed, Store

laws = Laws()


def fund(store: Store, pool: str, budget: Budget) -> None:
    """Set the limits of a pool."""
    assert do(store, Fund(pool, budget, TIME_US)) == store.last_seq()


def reserve_row(claimed: Claimed, amounts: Spend, *pools: str, step: int = 1) -> Reserve:
    """Return a row that reserves amounts; in the pool `all` unless others are named."""
    return Reserve(pools or ("all",), claimed.harness, claimed.epoch, claimed.attempt + 1, step, TIME_US, amounts)


def reserve(store: Store, claimed: Claimed, amounts: Spend, *pools: str) -> int:
    """Reserve and return the reservation's number."""
    result = do(store, reserve_row(claimed, amounts, *pools))
    assert isinstance(result, int), f"expected {amounts} to be granted, was {result!r}"
    return result


def begin(store: Store, claimed: Claimed) -> None:
    """Begin an attempt."""
    do(store, event_row(claimed, events.Started(), Status.RUNNING))


def tokens(store: Store, pool: str = "all") -> tuple[int, int]:
    """Return the tokens spent and reserved."""
    account = store.accounts()[pool]
    return account.spent.tokens, account.reserved.tokens


def charge(store: Store, claimed: Claimed, usage: Usage, *, thread: str = "", epoch: int | None = None) -> object:
    """Charge what an agent reports to the pool `all`, and return the result."""
    row = Charge(
        pools=("all",),
        teller="agents/one",
        harness=claimed.harness,
        epoch=claimed.epoch if epoch is None else epoch,
        attempt=claimed.attempt + 1,
        step=1,
        time_us=TIME_US,
        agent="a",
        usage=usage,
        turns=1,
        thread=thread,
    )
    return do(store, row)


@laws.of_a_store
def what_an_agent_reports_is_charged_past_the_limit_too(store: Store) -> None:
    one = claim(store, "one")
    fund(store, "all", Budget(tokens=100))

    first, second = charge(store, one, Usage(tokens=90)), charge(store, one, Usage(tokens=90))

    assert isinstance(first, Charged)
    assert isinstance(second, Charged)
    assert (bool(first.near), first.over) == (True, "")
    assert (second.near, bool(second.over), second.over_pool) == ((), True, "all")
    assert tokens(store) == (180, 0)
    assert store.accounts()["agents/one"].spent == Spend(turns=2, tokens=180)
    body = decode(store.records()[-1].body)
    assert (body["change"], body["pools"], body["spent"]) == ("charged", ["all", "agents/one"], {"tokens": 90})


@laws.of_a_store
def the_total_of_a_conversation_is_charged_for_what_it_has_grown(store: Store) -> None:
    one = claim(store, "one")
    totals = [Usage(input_tokens=read, output_tokens=10 * at) for at, read in enumerate((100, 250, 250), 1)]

    charged = [charge(store, one, total, thread="t") for total in totals]

    used = [each.usage for each in charged if isinstance(each, Charged)]
    assert [each.tokens for each in used] == [110, 160, 10]
    assert [each.output_tokens for each in used] == [10, 10, 10]
    assert tokens(store) == (280, 0)


@laws.of_a_store
def nothing_is_charged_for_a_harness_that_was_taken_over(store: Store) -> None:
    one = claim(store, "one")

    result = charge(store, one, Usage(tokens=5), epoch=one.epoch - 1)

    assert isinstance(result, OwnershipLost)
    assert "all" not in store.accounts()


@laws.of_a_store
def what_is_settled_is_charged_and_the_rest_comes_back(store: Store) -> None:
    one = claim(store, "one")
    fund(store, "all", Budget(tokens=100, money=Decimal("1.50")))

    id = reserve(store, one, Spend(tokens=60, money=Decimal("0.50")))
    open_now = store.accounts()["all"]
    seq = do(store, SettleSpend(id, TIME_US, Spend(tokens=45, money=Decimal("0.30"))))

    assert open_now.left == Budget(tokens=40, money=Decimal("1.00"))
    assert store.accounts()["all"].spent == Spend(tokens=45, money=Decimal("0.30"))
    assert store.accounts()["all"].reserved == NOTHING
    assert seq == store.last_seq() == id + 1


@laws.of_a_store
def what_becomes_of_a_budget_is_on_record(store: Store) -> None:
    one = claim(store, "one")

    id = reserve(store, one, Spend(tokens=60), "mine", "all")
    do(store, SettleSpend(id, TIME_US, Spend(tokens=45)))

    records = store.records()
    assert [(record.harness, record.kind, record.attempt, record.step) for record in records] == [("one", "budget", 1, 1)] * 2
    assert [decode(record.body) for record in records] == [
        {"change": "reserved", "pools": ["mine", "all"], "amounts": {"tokens": 60}},
        {"change": "settled", "reservation": id, "pools": ["mine", "all"], "amounts": {"tokens": 60}, "spent": {"tokens": 45}},
    ]


@laws.of_a_store
def what_does_not_fit_is_denied_or_put_off_and_changes_nothing(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    fund(store, "all", Budget(tokens=10))
    fund(store, "mine", Budget(tokens=100))
    reserve(store, one, Spend(tokens=8))
    before = (store.records(), store.accounts())

    later = do(store, reserve_row(other, Spend(tokens=3), "mine", "all"))
    denied = do(store, reserve_row(other, Spend(tokens=11), "mine", "all"))

    assert later == Later("tokens", 10, 0, 8, 3, "all")
    assert denied == Denied("tokens", 10, 0, 8, 11, "all")
    assert (store.records(), store.accounts()) == before


@laws.of_a_store
def a_commit_full_of_reservations_grants_what_there_is(store: Store) -> None:
    askers = [claim(store, f"h{number}") for number in range(20)]
    fund(store, "all", Budget(steps=7))

    results = store.commit([], [reserve_row(asker, Spend(steps=1)) for asker in askers]).results

    assert [isinstance(result, int) for result in results] == [True] * 7 + [False] * 13
    assert store.accounts()["all"].reserved == Spend(steps=7)


@laws.of_a_store
def what_is_spent_beyond_a_reservation_is_charged_and_leaves_nothing_for_the_next(store: Store) -> None:
    one = claim(store, "one")
    fund(store, "all", Budget(tokens=10))
    id = reserve(store, one, Spend(tokens=10))

    result = do(store, SettleSpend(id, TIME_US, Spend(tokens=12)))

    assert result == store.last_seq()
    assert tokens(store) == (12, 0)
    assert do(store, reserve_row(one, Spend(tokens=1))) == Denied("tokens", 10, 12, 0, 1, "all")
    assert decode(store.records()[-1].body)["change"] == "overspent"
    assert decode(store.records()[-1].body)["spent"] == {"tokens": 12}


@laws.of_a_store
def a_reservation_is_settled_once(store: Store) -> None:
    id = reserve(store, claim(store, "one"), Spend(tokens=10))
    do(store, SettleSpend(id, TIME_US, Spend(tokens=4)))

    result = do(store, SettleSpend(id, TIME_US, Spend(tokens=4)))

    assert isinstance(result, HarnessMisuse), result
    assert tokens(store) == (4, 0)


@laws.of_a_store
def who_is_not_the_owner_can_not_reserve(store: Store) -> None:
    old = claim(store, "one")
    claim(store, "one", take_over=True)

    result = do(store, reserve_row(old, Spend(tokens=1)))

    assert isinstance(result, OwnershipLost), result


@laws.of_a_store
def who_holds_tokens_does_not_wait_for_tokens(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    fund(store, "all", Budget(tokens=10))
    reserve(store, one, Spend(tokens=5, steps=1))
    reserve(store, other, Spend(steps=1))

    assert isinstance(do(store, reserve_row(one, Spend(tokens=6))), Denied)
    assert isinstance(do(store, reserve_row(other, Spend(tokens=6))), Later)


@laws.of_a_store
def a_new_attempt_begins_with_nothing_reserved(store: Store) -> None:
    one, other = claim(store, "one"), claim(store, "other")
    begin(store, one)
    reserve(store, one, Spend(tokens=10))
    reserve(store, other, Spend(tokens=1))

    begin(store, one)

    assert tokens(store) == (10, 1)
    assert [record.kind for record in store.records()][-2:] == ["budget", "started"]
    assert decode(store.records()[-2].body)["change"] == "forfeited"


@laws.of_a_store
def a_reservation_that_is_cut_off_is_charged_as_it_says(store: Store) -> None:
    one = claim(store, "one")
    begin(store, one)
    asked = evolve(reserve_row(one, Spend(tokens=10, turns=1)), on_cutoff=Spend(tokens=3))
    settled, cut_off = do(store, asked), do(store, asked)
    do(store, SettleSpend(settled, TIME_US, Spend(tokens=8)))

    begin(store, one)

    assert store.accounts()["all"] == Account(spent=Spend(tokens=11))
    body = decode(store.records()[-2].body)
    assert (body["change"], body["reservation"], body["spent"]) == ("forfeited", cut_off, {"tokens": 3})


@laws.of_a_store
def who_is_given_up_leaves_nothing_reserved(store: Store) -> None:
    one = claim(store, "one")
    begin(store, one)
    id = reserve(store, one, Spend(tokens=10))

    do(store, event_row(one, events.Stopped(), Status.STOPPED, release=True))

    assert tokens(store) == (10, 0)
    assert isinstance(do(store, SettleSpend(id, TIME_US, NOTHING)), HarnessMisuse)


@laws.of_a_store
def a_raised_budget_keeps_what_was_spent(store: Store) -> None:
    one = claim(store, "one")
    fund(store, "all", Budget(tokens=10))
    do(store, SettleSpend(reserve(store, one, Spend(tokens=10)), TIME_US, Spend(tokens=10)))
    assert isinstance(do(store, reserve_row(one, Spend(tokens=5))), Denied)

    fund(store, "all", Budget(tokens=15))

    reserve(store, one, Spend(tokens=5))
    assert store.accounts()["all"] == Account(Budget(tokens=15), Spend(tokens=10), Spend(tokens=5))


@laws.of_a_store
def what_is_funded_is_on_record(store: Store) -> None:
    fund(store, "all", Budget(tokens=10))

    again = do(store, Fund("all", Budget(tokens=10), TIME_US))

    (record,) = store.records()
    assert again == 0
    assert (record.kind, record.harness) == ("budget", "")
    assert decode(record.body) == {"change": "funded", "pools": ["all"], "limits": {"tokens": 10}}


@laws.of_a_store
def some_pools_are_shown_without_the_others(store: Store) -> None:
    for number in (2, 1, 3):
        fund(store, f"pool/{number}", Budget(tokens=number))

    assert list(store.accounts()) == ["pool/1", "pool/2", "pool/3"]
    assert store.accounts(["pool/2", "none"]) == {"pool/2": Account(Budget(tokens=2))}


@laws.of_a_store
def a_step_and_its_settlement_are_one_commit(store: Store) -> None:
    one = claim(store, "one")
    id = reserve(store, one, Spend(steps=1))

    committed = store.commit(
        [step_row(one, 1)], [SettleSpend(id, TIME_US, Spend(steps=1)), reserve_row(one, Spend(steps=1), step=2)]
    )

    assert [record.kind for record in store.records()] == ["budget", "step", "budget", "budget"]
    assert committed.results[1] == store.last_seq()
    assert store.accounts()["all"] == Account(spent=Spend(steps=1), reserved=Spend(steps=1))


@laws.between_runs
def budgets_are_there_for_the_next_run(open_store: Open) -> None:
    with closing(open_store()) as store:
        fund(store, "all", Budget(tokens=10, money=Decimal("0.10"), working_time_s=1.5))
        spent = Spend(tokens=4, money=Decimal("0.07"), working_time_s=0.3)
        do(store, SettleSpend(reserve(store, claim(store, "one"), spent), TIME_US, spent))
        before = store.accounts()

    with closing(open_store()) as store:
        assert (
            store.accounts() == before == {"all": Account(Budget(tokens=10, money=Decimal("0.10"), working_time_s=1.5), spent)}
        )


@laws.between_runs
def two_runs_never_overshoot_one_pool(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        fund(first, "all", Budget(tokens=100))
        granted: list[int] = []

        def spend(store: Store, name: str) -> None:
            one = claim(store, name)
            while isinstance(id := do(store, reserve_row(one, Spend(tokens=5))), int):
                granted.append(do(store, SettleSpend(id, TIME_US, Spend(tokens=4))))

        spenders = [threading.Thread(target=spend, args=pair) for pair in ((first, "one"), (second, "two"))]
        for spender in spenders:
            spender.start()
        for spender in spenders:
            spender.join(60)

        # 24 times 4 are 96; a 25th asks for 5, of which 4 are left.
        assert len(granted) == 24
        assert tokens(first) == tokens(second) == (96, 0)


@laws.between_runs
def what_a_dead_run_has_left_open_holds_up_nobody(open_store: Open) -> None:
    with closing(open_store()) as living:
        other = claim(living, "other")
        fund(living, "all", Budget(tokens=10))
        with closing(open_store()) as dying:
            lost = claim(dying, "lost")
            reserve(dying, lost, Spend(tokens=3))
            reserve(dying, lost, Spend(tokens=2))
            assert isinstance(do(living, reserve_row(other, Spend(tokens=6))), Later)

        denied = do(living, reserve_row(other, Spend(tokens=6)))

        assert isinstance(denied, Denied), denied
        assert tokens(living) == (5, 0)
        assert isinstance(do(living, reserve_row(other, Spend(tokens=5))), int)


@laws.between_runs
def who_was_taken_over_does_not_settle_what_was_charged(open_store: Open) -> None:
    with closing(open_store()) as first, closing(open_store()) as second:
        id = reserve(first, claim(first, "one"), Spend(tokens=10))

        begin(second, claim(second, "one", take_over=True))

        assert isinstance(do(first, SettleSpend(id, TIME_US, Spend(tokens=1))), HarnessMisuse)
        assert tokens(first) == (10, 0)
