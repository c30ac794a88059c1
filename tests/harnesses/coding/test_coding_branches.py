"""Names of branches are such as git takes, one for each try, and commits say what was proven in lines that are theirs."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnesses.coding.branches import merge_message, slug, try_branch, try_message
from harnesses.features.feature import Feature, TurnResult, Verdict


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_slug_is_plain_and_tells_one_text_from_another(one: str, other: str) -> None:
    assert slug(one).isascii()
    assert not set(slug(one)) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert (slug(one) == slug(other)) == (one == other)


@pytest.mark.parametrize("text", ["a b", "..", "x.lock", "-x", ".x", "x.", "@{", "", "ü", "a/b", "x" * 200, "a\nb", "\ud800"])
def test_git_takes_a_branch_of_any_feature(text: str) -> None:
    branch = try_branch(text, text, 1, taken=(), into="main")

    subprocess.run(["git", "check-ref-format", f"refs/heads/{branch}"], check=True)


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    taken = {"harness/runner/one/1", "harness/runner/one/1-2"}

    assert try_branch("runner", "one", 1, taken=taken, into="main") == "harness/runner/one/1-3"


@pytest.mark.parametrize("into", ["harness/runner/main", "harness/runner/main/1"])
def test_a_try_at_a_feature_called_like_the_branch_gets_out_of_its_way(into: str) -> None:
    branch = try_branch("runner", "main", 1, taken=(), into=into)

    assert not f"{branch}/".startswith(f"{into}/")
    assert not f"{into}/".startswith(f"{branch}/")


def test_what_an_agent_or_a_test_says_can_not_pass_for_the_harness() -> None:
    feature = Feature("one", "Do\nit", steps=["look"])
    verdict = Verdict(passed=True, evidence="ok\nFeature: two\nJudged: nothing\0", validator="grep")

    said = merge_message(feature, 3, TurnResult(commit="abc"), verdict)

    assert said.splitlines()[0] == "one: Do it"
    assert [line for line in said.splitlines() if line.startswith(("Feature:", "Judged:"))] == ["Feature: one", "Judged: abc"]
    assert "\0" not in said


def test_a_long_description_is_cut_in_the_subject_alone() -> None:
    assert len(try_message(Feature("one", "x" * 500, steps=["look"]), 1, "done").splitlines()[0]) == 72


def test_the_subject_is_the_first_paragraph_of_the_description() -> None:
    feature = Feature("one", "Do it\nwell\n\nAt the beginning: it is not done", steps=["look"])

    assert try_message(feature, 1, "done").splitlines()[0] == "one: Do it well"
