"""Pools: never overshot, nothing lost, and nobody waits in a ring."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from harnesses.budgets.budget import FIELDS, NOTHING, Budget, Denied, Granted, Later, Spend
from harnesses.budgets.pools import Account, Pools, Reserved, decide
from harnesses.errors import HarnessMisuse

CHAINS = [("a", "all"), ("b", "all"), ("all",), ("a", "a", "all")]
OWNERS = ["one", "two", 3]
BUDGET = Budget(steps=20, tokens=200, money=Decimal("0.30"), working_time_s=2.0)

spends = st.builds(
    Spend,
    steps=st.integers(0, 2),
    tokens=st.integers(0, 40),
    money=st.decimals(0, Decimal("0.07"), places=3),
    working_time_s=st.floats(0, 0.7),
)


class Spending(RuleBasedStateMachine):
    """Reserves, settles and crashes at random, and keeps books of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = Pools()
        self.budgets = {"all": BUDGET, "a": Budget(tokens=120, steps=5), "b": Budget()}
        for pool, budget in self.budgets.items():
            self.pools.fund(pool, budget)
        self.open: dict[int, tuple[tuple[str, ...], Any, Spend]] = {}
        self.granted = dict.fromkeys(self.budgets, NOTHING)
        self.returned = dict.fromkeys(self.budgets, NOTHING)

    @rule(chain=st.sampled_from(CHAINS), owner=st.sampled_from(OWNERS), asked=spends)
    def reserve(self, chain: tuple[str, ...], owner: Any, asked: Spend) -> None:
        result = self.pools.reserve(chain, owner, asked)
        if isinstance(result, Reserved):
            self.open[result.id] = (chain, owner, asked)
            for pool in set(chain):
                self.granted[pool] += asked

    @precondition(lambda self: self.open)
    @rule(data=st.data(), actual=spends)
    def settle(self, data: st.DataObject, actual: Spend) -> None:
        id = data.draw(st.sampled_from(sorted(self.open)))
        chain, _, asked = self.open.pop(id)
        charged = self.pools.settle(id, actual.min(asked))
        for pool in set(chain):
            self.returned[pool] += asked - charged

    @rule(owner=st.sampled_from(OWNERS))
    def crash(self, owner: Any) -> None:
        lost = self.pools.forfeit(owner)

        mine = {id for id, (_, other, _) in self.open.items() if other == owner}
        assert {reservation.id for reservation in lost} == mine
        self.open = {id: row for id, row in self.open.items() if id not in mine}

    @rule(tokens=st.integers(0, 100))
    def raise_limit(self, tokens: int) -> None:
        budget = self.budgets["a"]
        self.budgets["a"] = Budget(steps=budget.steps, tokens=(budget.tokens or 0) + tokens)
        self.pools.fund("a", self.budgets["a"])

    @invariant()
    def a_limit_is_never_overshot(self) -> None:
        for pool, budget in self.budgets.items():
            account = self.pools.account(pool)
            assert (account.spent + account.reserved).fits(budget)

    @invariant()
    def what_was_granted_is_spent_or_reserved_or_came_back(self) -> None:
        for pool in self.budgets:
            account = self.pools.account(pool)
            assert account.spent + account.reserved + self.returned[pool] == self.granted[pool]

    @invariant()
    def what_is_reserved_is_what_is_open(self) -> None:
        for pool in self.budgets:
            here = [asked for chain, _, asked in self.open.values() if pool in chain]
            assert self.pools.account(pool).reserved == sum(here, start=NOTHING)


TestSpending = Spending.TestCase


def test_a_reservation_counts_in_every_pool_or_in_none() -> None:
    pools = Pools()
    pools.fund("mine", Budget(tokens=100))
    pools.fund("all", Budget(tokens=50))

    assert isinstance(pools.reserve(("mine", "all"), "one", Spend(tokens=60)), Denied)
    assert isinstance(pools.reserve(("mine", "all"), "one", Spend(tokens=40)), Reserved)
    assert [pools.account(pool).reserved.tokens for pool in ("mine", "all")] == [40, 40]


def test_more_than_was_reserved_is_charged_too() -> None:
    pools = Pools()
    pools.fund("all", Budget(tokens=11))
    reserved = pools.reserve(("all",), "one", Spend(tokens=10))
    assert isinstance(reserved, Reserved)

    pools.settle(reserved.id, Spend(tokens=12))

    assert pools.account("all") == Account(Budget(tokens=11), spent=Spend(tokens=12))
    assert isinstance(pools.reserve(("all",), "one", Spend(tokens=1)), Denied)


def test_what_is_cut_off_is_charged_as_its_reservation_says() -> None:
    pools = Pools()
    pools.reserve(("all",), "one", Spend(tokens=10), Spend(tokens=4))
    pools.reserve(("all",), "one", Spend(tokens=5), NOTHING)
    pools.reserve(("all",), "one", Spend(tokens=7))

    pools.forfeit("one")

    assert pools.account("all") == Account(spent=Spend(tokens=11))


def test_a_reservation_is_settled_once() -> None:
    pools = Pools()
    reserved = pools.reserve(("all",), "one", Spend(tokens=10))
    assert isinstance(reserved, Reserved)
    pools.settle(reserved.id, Spend(tokens=4))

    with pytest.raises(HarnessMisuse, match="reservation 1 is not open"):
        pools.settle(reserved.id, Spend(tokens=4))

    assert pools.account("all").spent == Spend(tokens=4)


def test_a_raised_budget_keeps_what_was_spent() -> None:
    pools = Pools()
    pools.fund("all", Budget(steps=1))
    pools.reserve(("all",), "one", Spend(steps=1))
    pools.forfeit("one")
    assert isinstance(pools.reserve(("all",), "one", Spend(steps=1)), Denied)

    account = pools.fund("all", Budget(steps=2))

    assert account.left == Budget(steps=1)
    assert isinstance(pools.reserve(("all",), "one", Spend(steps=1)), Reserved)


def test_who_holds_what_another_waits_for_does_not_wait_for_it_himself() -> None:
    pools = Pools()
    pools.fund("all", Budget(tokens=10))
    pools.reserve(("all",), "one", Spend(tokens=5))
    pools.reserve(("all",), "two", Spend(tokens=5))

    assert isinstance(pools.reserve(("all",), "one", Spend(tokens=1)), Denied)
    assert isinstance(pools.reserve(("all",), "three", Spend(tokens=1)), Later)


def test_who_holds_a_step_may_wait_for_tokens() -> None:
    pools = Pools()
    pools.fund("all", Budget(steps=2, tokens=10))
    pools.reserve(("all",), "one", Spend(steps=1))
    pools.reserve(("all",), "two", Spend(tokens=10))

    assert isinstance(pools.reserve(("all",), "one", Spend(tokens=1)), Later)
    assert isinstance(pools.reserve(("all",), "two", Spend(steps=2)), Denied)


@given(st.sampled_from(FIELDS), st.sampled_from(FIELDS))
def test_of_two_fields_the_later_one_is_waited_for_and_never_the_other(held: str, short: str) -> None:
    one: Any = {"money": Decimal(1)}
    account = Account(Budget(**{short: one.get(short, 1)}), reserved=Spend(**{short: one.get(short, 1)}))

    verdict = decide({"all": account}, Spend(**{short: one.get(short, 1)}), Spend(**{held: one.get(held, 1)}))

    assert isinstance(verdict, Later) == (FIELDS.index(held) < FIELDS.index(short))
    assert not isinstance(verdict, Granted)
