"""The depth of JSON text is that of its lists and objects, whatever its strings hold and however broken it is."""

from __future__ import annotations

import pytest

from harnesses.data.json_depth import is_too_deep


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", 0),
        ("1", 0),
        ("[]", 1),
        ('{"a": [[1], {"b": 2}], "c": []}', 3),
        ('{"a": "[[[[[", "[[[[": "\\"[[[["}', 1),
        ('["\\\\", [[]]]', 3),
        ('["unterminated [[[[', 1),
        ('["' + '\\"' * 200_000, 1),
        ("[]" * 200_000, 1),
        ("[" * 5_000, 5_000),
        ("]]]][", 0),
    ],
    ids=range(11),
)
def test_levels_are_counted_without_parsing(text: str, levels: int) -> None:
    assert not is_too_deep(text, levels)
    assert levels == 0 or is_too_deep(text, levels - 1)
