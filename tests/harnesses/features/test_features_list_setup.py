"""The list that was asked for is set up once, and what its owner changes of it is taken in only if they say so."""

from __future__ import annotations

import pytest
from attrs import evolve

from harnesses.features.feature_record import InitializerRequest, IterationKind
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.startup_checks import ListSetup, has_news
from tests.harnesses.features.played import NOW, begun, feature, unlimited
from tests.harnesses.features.worked import Judge

REQUEST = InitializerRequest(current_objective="a clock", feature_list=(feature("a"), feature("b")))


def setup(*ids: str, amend: bool = False, workplace: Workplace | None = None) -> ListSetup:
    request = evolve(REQUEST, feature_list=tuple(map(feature, ids)))
    return ListSetup(request, workplace or Workplace(Judge()), amend)


async def test_manifest_features_and_remark_come_in_one_step():
    class Noting(Workplace):
        async def complete(self, request, state):
            return evolve(request, active_branch="work"), "! two tests were left out"

        async def first_commit(self):
            return "c1"

    lists = setup("a", "b", workplace=Noting(Judge()))

    draft, remark = await lists.initialise(begun("x"), "clock", lambda: NOW)

    manifest = draft.state.manifest
    assert (manifest.active_branch, manifest.last_known_good_commit, remark) == ("work", "c1", "! two tests were left out")
    assert [one.id for one in draft.state.features] == ["a", "b"]
    assert lists.has_created


@pytest.mark.parametrize("amend", [True, False])
async def test_a_changed_list_is_taken_only_if_its_owner_says_so(amend):
    draft, remark = await setup("a", "c", amend=amend).compare(begun("a", "b"), unlimited(), lambda: NOW)

    assert (draft is not None) is amend
    assert ("to change it, use amend=True" in remark) is not amend
    if draft is not None:
        assert draft.kind is IterationKind.AMEND
        assert [one.id for one in draft.state.features] == ["a", "c", "b"]


async def test_a_list_is_compared_once_in_each_attempt():
    lists = setup("a", "c", amend=True)

    first, _ = await lists.compare(begun("a"), unlimited(), lambda: NOW)
    second, _ = await lists.compare(begun("a"), unlimited(), lambda: NOW)
    lists.begin_attempt()
    third, _ = await lists.compare(begun("a"), unlimited(), lambda: NOW)

    assert (first is None, second is None, third is None) == (False, True, False)


def test_news_are_features_and_specifications_that_are_not_there():
    state = begun("a", "b")

    assert not has_news(state, [feature("a")])
    assert has_news(state, [feature("a", description="another")])
    assert has_news(state, [feature("c")])
