"""Validators together: those that only look come first, the first refusal ends it, all evidence is kept."""

from __future__ import annotations

import pytest

from harnesses import HarnessMisuse
from harnesses.features import Feature, InvalidRequest, TurnResult, Verdict, accept_all, all_of
from harnesses.features.feature_validators import depends_on_feature

FEATURE = Feature("a", "Do a.", steps="it is done")


class Says:
    """A validator that says what it was made to say, and notes that it was asked."""

    def __init__(self, name, asked, *, passed=True, proves=None, commit=None):
        self._name, self._asked, self._passed, self._commit = name, asked, passed, commit
        if proves is not None:
            self.proves = proves

    async def validate(self, feature, work):
        self._asked.append(self._name)
        words = f"{self._name} has looked"
        return Verdict(passed=self._passed, evidence=words, validator=self._name, commit=self._commit, duration_s=1.5)


async def judged(*validators):
    return await all_of(*validators).validate(FEATURE, TurnResult())


async def test_what_all_accept_is_accepted_with_the_evidence_of_all():
    found = await judged(Says("one", []), Says("two", []))

    assert found.passed
    assert found.evidence == "one: one has looked\ntwo: two has looked"
    assert (found.validator, found.duration_s) == ("one & two", 3.0)


async def test_the_first_that_refuses_ends_it():
    asked = []

    found = await judged(Says("one", asked), Says("two", asked, passed=False), Says("three", asked))

    assert not found.passed
    assert asked == ["one", "two"]
    assert "two has looked" in found.evidence


async def test_one_of_them_that_does_not_say_yes_or_no_has_failed():
    with pytest.raises(HarnessMisuse, match="invalid passed: expected True or False, was 'no'"):
        await judged(Says("one", [], passed="no"))


async def test_guards_are_asked_before_those_that_run_something():
    asked = []

    await judged(Says("runs", asked), Says("guard", asked, proves=False), Says("runs too", asked, proves=True))

    assert asked == ["guard", "runs", "runs too"]


@pytest.mark.parametrize(
    ("proves", "all_prove"), [((False, False), False), ((False, True), True), ((None, False), True), ((None,), True)]
)
def test_together_they_prove_if_one_does(proves, all_prove):
    assert all_of(*(Says("x", [], proves=one) for one in proves)).proves is all_prove


@pytest.mark.parametrize(("commits", "commit"), [(("c", "c"), "c"), (("c", None), "c"), (("c", "d"), None)])
async def test_the_commit_is_that_of_all(commits, commit):
    found = await judged(*(Says("x", [], commit=one) for one in commits))

    assert found.commit == commit


async def test_what_refuses_is_told_first():
    found = await judged(Says("guard", [], proves=False), Says("runs", [], passed=False))

    assert found.evidence == "runs: runs has looked\nguard: guard has looked"


async def test_what_runs_everything_is_asked_last_and_those_within_are_asked_like_the_others():
    asked = []
    suite = Says("suite", asked)
    suite.runs_everything = True

    await judged(all_of(suite, Says("runs", asked)), Says("guard", asked, proves=False))

    assert asked == ["guard", "runs", "suite"]


async def test_a_validator_may_be_asked_otherwise_beside_others():
    asked = []

    class Shy(Says):
        def beside(self, others):
            return Says(f"{self._name} beside {len(others)}", self._asked)

    await judged(Shy("shy", asked), Says("other", asked))

    assert asked == ["shy beside 2", "other"]


@pytest.mark.parametrize(
    ("proves", "depends", "together"),
    [((True, False), (False, True), False), ((True, True), (False, True), True), ((None,), (None,), True)],
)
def test_they_say_something_of_the_feature_if_one_that_runs_something_does(proves, depends, together):
    parts = [Says("x", [], proves=one) for one in proves]
    for part, says in zip(parts, depends, strict=True):
        if says is not None:
            part.depends_on_feature = says

    assert depends_on_feature(all_of(*parts)) is together


def test_none_at_all_is_refused():
    with pytest.raises(InvalidRequest, match="expected one validator or more"):
        all_of()


async def test_accept_all_accepts_and_says_that_it_has_not_looked():
    found = await accept_all().validate(FEATURE, TurnResult())

    assert found == Verdict(passed=True, evidence="accepted without validation", validator="accept_all")
    assert not accept_all().proves
