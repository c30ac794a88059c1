"""A test turned round passes exactly if it fails as it was written."""

from __future__ import annotations

import pytest

from harnesses.coding.validators.inverted_tests import turn_round

SOURCE = """
def test_it():
    {}
"""


def passes(source: str, name: str = "test_it") -> bool:
    space: dict[str, object] = {"pytest": pytest}
    exec(source, space)
    try:
        space[name]()  # type: ignore[operator]
    except (Exception, SystemExit, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize(
    "body",
    [
        "assert 1 + 1 == 2",
        "assert 1 + 1 == 3",
        "pass",
        "return",
        "raise NotImplementedError",
        "for one in (1, 2): assert one == 1",
        "for one in (1, 2): return",
        "with pytest.raises(AssertionError): assert 1 == 2",
        "with pytest.raises(AssertionError): assert 1 == 1",
        "(lambda: None)()",
    ],
)
def test_what_passes_fails_turned_round_and_the_other_way_about(body: str) -> None:
    source = SOURCE.format(body)

    turned, names = turn_round(source, ["test_it"])

    assert names == {"test_it"}
    assert passes(turned) is not passes(source)


def test_only_what_is_asked_for_and_is_there_is_turned_round() -> None:
    source = "class TestA:\n    def test_b(self): pass\n\n\ndef test_c(): pass\n"

    turned, names = turn_round(source, ["TestA::test_b", "TestA::test_inherited"])

    assert names == {"TestA::test_b"}
    assert passes(turned, "test_c")
    assert turn_round("def (", ["test_it"]) == ("def (", frozenset())
