"""A path of the API, and what a request for it asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from orchestrator.errors import UsageError
from orchestrator.web.site import Site

_NUMBER = re.compile(r"\d{1,18}")


@frozen
class Asked:
    """What a request asks for."""

    site: Site
    names: Mapping[str, str]
    """The parts of the path that are named in braces."""
    options: Mapping[str, str]
    body: Mapping[str, Any]

    def number(self, option: str, default: int | None = None) -> int | None:
        """Return the number that an option gives.

        Raises:
            UsageError: it is none.
        """
        text = self.options.get(option, self.names.get(option))
        if text is None or text == "":
            return default
        if not _NUMBER.fullmatch(text):
            raise UsageError(f"{option}: expected a whole number from 0 up, got {text!r:.100}")
        return int(text)

    @property
    def is_all(self) -> bool:
        return self.options.get("all", "") in ("1", "true")


@frozen
class Route:
    """A path of the API.

    Args:
        answer: returns a plain value, or JSON as text; it is called in a thread.
        options: query parameters, each with what it means.
        body: fields of the JSON object in the body, each with what it means.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Asked], Any]
    options: Mapping[str, str] = field(factory=dict[str, str])
    body: Mapping[str, str] = field(factory=dict[str, str])

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))

    @property
    def part_names(self) -> list[str]:
        """The parts of the path that are named in braces."""
        return [part[1:-1] for part in self.parts if part.startswith("{")]

    def match(self, parts: tuple[str, ...]) -> dict[str, str] | None:
        """Return the named parts of a path; None if it is another one."""
        if len(parts) != len(self.parts):
            return None
        names: dict[str, str] = {}
        for mine, given in zip(self.parts, parts, strict=True):
            if mine.startswith("{"):
                names[mine[1:-1]] = given
            elif mine != given:
                return None
        return names
