"""What a state is migrated to is what its harness goes on with, and the states before stay what they were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise

from orchestrator.codec import decode
from orchestrator.errors import OwnershipLost, UsageError
from orchestrator.events import Stopped
from orchestrator.lifecycle import Status
from orchestrator.store.conformance.conformance_tools import TIME_US, Law, Open, claim, do, event_row, step_row
from orchestrator.store.rules.version_rules import version_at
from orchestrator.store.store_protocol import Claim, Claimed, Fork, Migrate, Store

NEW = '{"sum":7}'


def migrate(store: Store, claimed: Claimed, step: int, *versions: int, state: str = NEW) -> object:
    """Record what a state was migrated to."""
    first, last = versions or (1, 2)
    return do(store, Migrate(claimed.harness, claimed.epoch, 1, step, TIME_US, first, last, state))


def again(store: Store, claimed: Claimed) -> Claimed:
    """Give a harness back and take it anew."""
    do(store, event_row(claimed, Stopped(), Status.STOPPED, release=True))
    return claim(store, store.harnesses()[claimed.harness - 1].name)


def make_steps(store: Store, claimed: Claimed, numbers: Sequence[int]) -> None:
    for number in numbers:
        store.commit([step_row(claimed, number)])


def a_harness_goes_on_with_what_its_state_was_migrated_to(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        make_steps(store, claimed, (1, 2))

        seq = migrate(store, claimed, 2)
        claimed = again(store, claimed)

        assert isinstance(seq, int)
        assert (claimed.state, claimed.state_version, claimed.migrated, claimed.step) == (NEW, 2, True, 2)
        assert [decode(store.state_at("one", step)) for step in range(3)] == [{"total": step} for step in range(3)]


def the_step_after_a_migration_has_all_of_the_state(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        make_steps(store, claimed, (1,))
        migrate(store, claimed, 1)
        store.commit([step_row(claimed, 2, {"value": {"sum": 8}}), step_row(claimed, 3, {"set": {"sum": 9}})])

        claimed = again(store, claimed)

        assert (claimed.state, claimed.state_version, claimed.migrated) == ('{"sum":9}', 2, False)
        assert decode(store.state_at("one", 1)) == {"total": 1}
        versions = [version_at(store.state_versions("one"), step) for step in range(4)]
        assert versions == [1, 1, 2, 2]


def a_new_harness_has_the_version_of_its_claim(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = do(store, Claim("one", "{}", state_version=3))
        assert (claimed.state_version, claimed.migrated) == (3, False)

        claimed = again(store, claimed)
        assert claimed.state_version == 3

        migrate(store, claimed, 0, 3, 4)
        assert again(store, claimed).state_version == 4
        assert version_at(store.state_versions("one"), 0) == 3


def a_migration_is_refused_that_does_not_follow(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        make_steps(store, claimed, (1, 2))

        assert isinstance(migrate(store, claimed, 1), UsageError)
        assert isinstance(migrate(store, claimed, 2, 2, 3), UsageError)
        assert isinstance(migrate(store, claimed, 2, 1, 1), UsageError)
        migrate(store, claimed, 2)
        assert isinstance(migrate(store, claimed, 2), UsageError)
        again(store, claimed)
        assert isinstance(migrate(store, claimed, 2, 2, 3), OwnershipLost)
        assert [record.kind for record in store.records()].count("migrated") == 1


def a_fork_has_the_versions_of_what_comes_along(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = do(store, Claim("one", '{"total":0}', state_version=2))
        make_steps(store, claimed, (1, 2))
        migrate(store, claimed, 2, 2, 3)
        store.commit([step_row(claimed, 3, {"value": {"sum": 8}})])

        for step in range(4):
            do(store, Fork(f"at-{step}", "one", step, TIME_US))
        forks = [claim(store, f"at-{step}") for step in range(4)]

        assert [fork.state_version for fork in forks] == [2, 2, 2, 3]
        assert [fork.migrated for fork in forks] == [False] * 4
        assert [decode(fork.state) for fork in forks] == [{"total": 0}, {"total": 1}, {"total": 2}, {"sum": 8}]


def a_record_of_a_migration_has_its_place_in_the_order(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        make_steps(store, claimed, (1,))
        migrate(store, claimed, 1)
        store.commit([step_row(claimed, 2)])

        records = store.records()

        assert [record.kind for record in records] == ["step", "migrated", "step"]
        assert all(one.seq < other.seq for one, other in pairwise(records))
        assert decode(records[1].body) == {"from_version": 1, "to_version": 2}


LAWS: tuple[Law, ...] = (
    a_harness_goes_on_with_what_its_state_was_migrated_to,
    the_step_after_a_migration_has_all_of_the_state,
    a_new_harness_has_the_version_of_its_claim,
    a_migration_is_refused_that_does_not_follow,
    a_fork_has_the_versions_of_what_comes_along,
    a_record_of_a_migration_has_its_place_in_the_order,
)
