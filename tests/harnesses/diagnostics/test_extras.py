"""A package of an extra that cannot be imported is told with the cause, and with the command that installs the extra."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import NotReady


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, "is not installed"),
        ("import absent_one", r"cannot be imported \(No module named 'absent_one'\)"),
        ("from os import absent_two", r"cannot be imported \(cannot import name 'absent_two' from 'os' .*\)"),
    ],
)
def test_an_installed_package_that_lacks_something_is_not_told_to_be_missing(
    source: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if source is not None:
        (tmp_path / "extra_package.py").write_text(source)

    with pytest.raises(NotReady, match=rf"a feed needs extra_package, which {why}: .*run `python -m pip install "):
        load_extra("extra_package", "http", "a feed")
