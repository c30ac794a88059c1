"""What was documented under an earlier name can still be imported, and stored references to our classes still lead to them."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import HarnessMisuse
from harnesses.renamed import RENAMED
from harnesses.trading import TradingHarness


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_module_is_the_new_one_and_says_so(old, new, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved: import it as {new}"):
        found = import_module(old)

    assert found is import_module(new)
    assert found.__name__ == found.__spec__.name == new


def test_a_reference_to_a_class_of_ours_outlasts_a_move_of_its_module():
    assert load_object("harnesses.trading.harness:TradingHarness") is TradingHarness


@pytest.mark.parametrize("reference", ["harnesses.trading.harness:Nothing", "harnesses.nowhere:TradingHarness"])
def test_a_reference_to_nothing_of_ours_is_refused(reference):
    with pytest.raises(HarnessMisuse, match="there is no module"):
        load_object(reference)
