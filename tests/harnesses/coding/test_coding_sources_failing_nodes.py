"""What pytest says of a failing test becomes a feature, and the same one each time."""

from __future__ import annotations

import pytest

from harnesses.coding.sources.failing_nodes import Failure, docstring_in, features_of, message_in, steady
from harnesses.coding.validators.pytest_report import node_in
from harnesses.features.planning.feature_list import check_features

SOURCE = '''
class TestThing:
    """Not this."""

    def test_in(self):
        """Is within.

        And more.
        """

async def test_out(x): """Is
    outside."""

def test_bare(): pass
'''
CHAINED = """
>       parse()
E       KeyError: 'x'

During handling of the above exception, another exception occurred:

>       one()

test_a.py:3:
>   raise ValueError("no date")
E   ValueError: no date

/somewhere/tree/calc.py:2: ValueError
"""


@pytest.mark.parametrize(
    ("node", "docstring"),
    [
        ("t.py::TestThing::test_in", "Is within."),
        ("t.py::test_out[1::2]", "Is outside."),
        ("t.py::test_bare", ""),
        ("t.py::TestThing", ""),
        ("t.py::test_nowhere", ""),
        ("t.py", ""),
    ],
)
def test_the_docstring_of_a_test_is_read_from_its_source(node: str, docstring: str):
    assert docstring_in(SOURCE, node) == docstring


def test_what_is_no_python_has_no_docstrings():
    assert docstring_in("def test_a(:", "t.py::test_a") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CHAINED, "ValueError: no date"),
        ("E       assert 1 == 2\nE        +  where 1 = f()", "assert 1 == 2\n+  where 1 = f()"),
        ("E       fixture 'x' not found\n>       available fixtures: y", "fixture 'x' not found"),
        ("Expected:\n    1\nGot:\n    2", "Got:\n2"),
        ("it did not end within 5 s", "it did not end within 5 s"),
        ("", ""),
    ],
)
def test_the_reason_is_found_in_what_pytest_shows(text: str, message: str):
    assert message_in(text, "/somewhere/tree") == message


def test_of_a_module_the_last_line_is_the_reason():
    text = "E     File '/somewhere/tree/t.py', line 1\nE       def f(\nE   SyntaxError: invalid syntax"

    assert message_in(text, "/somewhere/tree", is_module=True) == "SyntaxError: invalid syntax"


def test_what_differs_from_run_to_run_is_not_in_the_reason():
    text = "E   OSError: <A at 0x7f3a12bc> took 0.123s in /somewhere/tree/data/x, not in /somewhere/tree"

    assert message_in(text, "/somewhere/tree") == "OSError: <A at 0x…> took … s in data/x, not in ."


def test_a_reason_that_is_another_one_each_time_is_left_out():
    first = (Failure(node="a", message="1"), Failure(node="b", message="2"), Failure(node="c", message="3"))

    assert steady(first, {"a": "1", "b": "other", "c": None}) == (Failure(node="a", message="1"), Failure(node="b"))


def test_a_feature_says_which_test_what_it_is_for_and_why_it_fails():
    feature = features_of([Failure(node="t.py::test_a", message="assert 1 == 2", docstring="Adds.")])[0]

    assert (feature.id, feature.category) == ("t.py::test_a", "failing test")
    assert feature.description == "t.py::test_a passes\n\nAdds.\n\nAt the beginning: assert 1 == 2"
    assert not feature.passes


def test_a_module_is_a_feature_as_a_whole():
    feature = features_of([Failure(node="t.py", is_module=True)])[0]

    assert feature.description == "t.py can be collected, and all tests in it pass"


@pytest.mark.parametrize("node", ["t.py", "t.py::T::test_a[a b]", "t.py::test_a[" + "x" * 400 + "]", "t.py::test_a[ü→\\n]"])
def test_the_node_id_is_kept_to_the_letter_whatever_the_id(node: str):
    features = features_of([Failure(node=node)])

    assert node_in(features[0].steps[0]) == node
    assert check_features(features) == features
    assert len(features[0].id) <= 150


def test_node_ids_that_are_alike_have_ids_of_their_own():
    nodes = [
        "t.py::test_a[a b]",
        "t.py::test_a[a-b]",
        "t.py::test_a[a?b]",
        *(f"t.py::test_a[{'x' * 200}{n}]" for n in range(2)),
    ]

    ids = [feature.id for feature in features_of([Failure(node=node) for node in nodes])]

    assert len(set(ids)) == len(nodes)
    assert ids[1] == nodes[1]
