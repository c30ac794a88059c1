"""Every statement of a test module stays; what may be added changes nothing for the tests that are there."""

from __future__ import annotations

import textwrap

import pytest

from harnesses.coding.validators.tests_diff import arguments_of, changes_to_tests

BEFORE = '''"""Tests."""

import pytest
from shop import total

LIMIT = 3


@pytest.fixture
def cart():
    return [1, 2]


def test_total(cart):
    assert total(cart) == LIMIT


class TestMany:
    """Many."""

    @pytest.mark.parametrize("amount", [1, 2])
    def test_many(self, amount):
        assert total([amount]) == amount
'''


def changed(old: str, new: str) -> tuple[str, ...]:
    """Return what is found after a text was replaced."""
    assert old in BEFORE
    return changes_to_tests(BEFORE, BEFORE.replace(old, new))


WEAKER = {
    "a test is deleted": ("def test_total(cart):\n    assert total(cart) == LIMIT\n", ""),
    "a test is renamed": ("def test_total", "def check_total"),
    "an assertion is weakened": ("== LIMIT", ">= LIMIT"),
    "an assertion is approximate": ("== LIMIT", "== pytest.approx(LIMIT, abs=9)"),
    "a test returns early": ("    assert total(cart)", "    return\n    assert total(cart)"),
    "a test is skipped": ("def test_total", "@pytest.mark.skip\ndef test_total"),
    "a class is renamed": ("class TestMany", "class Many"),
    "a class is skipped": ("class TestMany", "@pytest.mark.skip\nclass TestMany"),
    "parameters are fewer": ("[1, 2])\n    def", "[1])\n    def"),
    "a constant is another": ("LIMIT = 3", "LIMIT = total([1, 2])"),
    "a constant is set again": ("class TestMany", "LIMIT = 0\n\n\nclass TestMany"),
    "a fixture is another": ("return [1, 2]", "return [3]"),
    "a mark is set on all": ("LIMIT = 3", "LIMIT = 3\npytestmark = pytest.mark.skip"),
    "a mark is set on a class": ("class TestMany:\n", "class TestMany:\n    pytestmark = pytest.mark.skip\n"),
    "a class is not collected": ("class TestMany:\n", "class TestMany:\n    __test__ = False\n"),
    "a class is set up otherwise": (
        "class TestMany:\n",
        "class TestMany:\n    def setup_method(self):\n        pytest.skip()\n",
    ),
    "a test is defined again": ("class TestMany", "def test_total():\n    pass\n\n\nclass TestMany"),
    "a test is deleted by name": ("class TestMany", "del test_total\n\n\nclass TestMany"),
    "an import takes a name": ("LIMIT = 3", "from easy import total\n\nLIMIT = 3"),
    "an import takes a name of Python's": ("LIMIT = 3", "from easy import all as len\n\nLIMIT = 3"),
    "an import takes any names": ("LIMIT = 3", "from easy import *\n\nLIMIT = 3"),
    "an import is gone": ("from shop import total", "from easy import total"),
    "a fixture is used by all": ("class TestMany", "@pytest.fixture(autouse=True)\ndef mend():\n    pass\n\n\nclass TestMany"),
    "a fixture takes a name": ("class TestMany", "@pytest.fixture(name='cart')\ndef mend():\n    pass\n\n\nclass TestMany"),
    "a hook is added": ("class TestMany", "def pytest_runtest_call():\n    pass\n\n\nclass TestMany"),
    "something is done": ("LIMIT = 3", "LIMIT = 3\npytest.skip(allow_module_level=True)"),
    "something is patched": ("LIMIT = 3", "LIMIT = 3\npytest.raises = None"),
    "it is put under a condition": ("LIMIT = 3", "LIMIT = 3\nif LIMIT:\n    raise SystemExit"),
}


@pytest.mark.parametrize("case", WEAKER)
def test_what_weakens_a_module_is_found(case: str) -> None:
    assert changed(*WEAKER[case])


STRONGER = {
    "a test is added": ("class TestMany", "def test_more():\n    assert total([]) == 0\n\n\nclass TestMany"),
    "a method is added": ("class TestMany:\n", "class TestMany:\n    def test_none(self):\n        assert not total([])\n\n"),
    "a class is added": (
        "LIMIT = 3",
        "LIMIT = 3\n\n\nclass TestFew:\n    def test_few(self):\n        assert total([]) == 0\n",
    ),
    "a fixture is added": ("class TestMany", "@pytest.fixture\ndef full():\n    return [9]\n\n\nclass TestMany"),
    "a constant is added": ("LIMIT = 3", "LIMIT = 3\nMOST = 9"),
    "an import is added to": ("from shop import total", "from shop import count, total"),
    "imports are moved and added": ("import pytest\n", "import os\n\nimport pytest\nimport os.path\n"),
    "a docstring is changed": ('"""Many."""', '"""A great many."""'),
    "a docstring is gone": ('    """Many."""\n', ""),
    "a comment is added": ("LIMIT = 3", "LIMIT = 3  # enough"),
    "layout is changed": ("[1, 2])\n    def", "[\n        1,\n        2,\n    ])\n    def"),
    "annotations are put off": ("import pytest", "from __future__ import annotations\n\nimport pytest"),
}


@pytest.mark.parametrize("case", STRONGER)
def test_what_only_adds_is_free(case: str) -> None:
    assert changed(*STRONGER[case]) == ()


def test_it_is_said_what_was_changed_and_what_to_do() -> None:
    (found,) = changed("def test_total", "@pytest.mark.skip\ndef test_total")

    assert found == ("`test_total` was changed or moved (now with @pytest.mark.skip): restore it; add new tests next to it")


def test_a_fixture_must_not_take_the_place_of_one_that_tests_elsewhere_ask_for() -> None:
    added = "import pytest\n\n@pytest.fixture\ndef client():\n    return 1\n"

    assert changes_to_tests("import pytest\n", added) == ()
    assert changes_to_tests("import pytest\n", added, arguments=["client"])


def test_examples_in_a_docstring_are_tests() -> None:
    before = 'def helper():\n    """Help.\n\n    >>> helper()\n    1\n    """\n'

    assert changes_to_tests(before, before.replace("    1\n", "    2\n"))


def test_a_module_that_does_not_parse_any_more_is_refused() -> None:
    assert "does not parse" in changes_to_tests("x = 1\n", "x = (\n")[0]


def test_a_module_that_did_not_parse_has_to_stay() -> None:
    assert changes_to_tests("x = (\n", "x = (\n") == ()
    assert changes_to_tests("x = (\n", "x = 1\n")


def test_what_tests_ask_of_fixtures_is_what_their_functions_take() -> None:
    source = textwrap.dedent("""
        def test_a(cart, *, client): ...
        def broken(""")

    assert arguments_of(source) == frozenset()
    assert arguments_of(source.replace("def broken(", "")) == {"cart", "client"}
