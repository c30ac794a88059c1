"""Laws of the errors of feature lists: six kinds, each a class of its own, and the text begins with the kind."""

from __future__ import annotations

import pytest

from harnesses.errors import HarnessError
from harnesses.features import errors
from harnesses.features.errors import FeatureError, FeatureErrorKind

KINDS = [found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, FeatureError)]
KINDS.remove(FeatureError)


def test_each_kind_has_one_class() -> None:
    assert sorted(kind.kind for kind in KINDS) == sorted(FeatureErrorKind)
    assert len(KINDS) == 6


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_text_begins_with_the_kind(kind: type[FeatureError]) -> None:
    assert str(kind("feature 'a' is wrong")) == f"{kind.kind}: feature 'a' is wrong"
    assert issubclass(kind, HarnessError)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_original_error_is_the_cause(kind: type[FeatureError]) -> None:
    cause = OSError("disk full")

    with pytest.raises(kind) as caught:
        raise kind("it cannot be written") from cause

    assert caught.value.__cause__ is cause
