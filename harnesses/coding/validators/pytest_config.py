"""The part of a configuration file that tells pytest what to do. Pure."""

from __future__ import annotations

import tomllib
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import PurePosixPath
from typing import Any, cast

OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
"""Files that are pytest's alone."""
SHARED = ("pyproject.toml", "tox.ini", "setup.cfg")
"""Files that hold the configuration of other tools too."""
NAMES = OWN + SHARED
"""All that pytest looks for in a directory, the first that has something for it is used."""

_SECTIONS = {"tox.ini": "pytest", "setup.cfg": "tool:pytest", "pytest.ini": "pytest", ".pytest.ini": "pytest"}
_UNREADABLE = {"": "unreadable"}


def pytest_part(path: str, content: bytes | None) -> dict[str, Any] | None:
    """Return what a file says to pytest, None if it says nothing. What cannot be read is not equal to what can."""
    name = PurePosixPath(path).name
    if content is None or name not in NAMES:
        return None
    try:
        text = content.decode()
        part = _from_toml(name, text) if name.endswith(".toml") else _from_ini(name, text)
    except (tomllib.TOMLDecodeError, ConfigError, UnicodeDecodeError):
        return _UNREADABLE
    return {} if part is None and name in OWN else part


def _from_toml(name: str, text: str) -> dict[str, Any] | None:
    whole = tomllib.loads(text)
    if name != "pyproject.toml":
        return whole
    part = cast("dict[str, Any] | None", whole.get("tool", {}).get("pytest"))
    if not hasattr(part, "items") or part is None:
        return None
    # `[tool.pytest]` is of pytest 9; before, all was below it.
    return {**{key: value for key, value in part.items() if key != "ini_options"}, **part.get("ini_options", {})}


def _from_ini(name: str, text: str) -> dict[str, Any] | None:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(text)
    section = _SECTIONS[name]
    return dict(parser.items(section)) if parser.has_section(section) else None


def changed_keys(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Return the settings that differ. A marker that is only declared is none."""
    old, new = before or {}, after or {}
    differing = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return [key for key in differing if not (key == "markers" and set(lines(old.get(key))) <= set(lines(new.get(key))))]


def lines(value: object) -> list[str]:
    """Return a setting that is a list, however it is written."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip()]
    return [str(item) for item in value] if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def words(value: object) -> list[str]:
    """Return a setting that is a list of words, however it is written."""
    return [word for line in lines(value) for word in line.split()]
