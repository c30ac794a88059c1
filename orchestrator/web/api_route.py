"""A path of the API, and what a request for it asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from orchestrator.control.control_server import check_known, flag
from orchestrator.errors import UsageError
from orchestrator.web.site import Site
from orchestrator.web.store_folder import StoreFolder

STORE = "store"
"""The option of all paths that are about one store."""
MOST_NAMES = 200
"""Harnesses that one request may name."""

_NUMBER = re.compile(r"\d{1,18}")


@frozen
class Asked:
    """What a request asks for."""

    stores: StoreFolder
    names: Mapping[str, str]
    """The parts of the path that are named in braces."""
    options: Mapping[str, str]
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(factory=dict[str, str])

    @property
    def site(self) -> Site:
        """What is told of the store that the request is about.

        Raises:
            UsageError: there is no such store.
            StoreError: it cannot be read.
        """
        return self.stores.site(self.options.get(STORE, ""))

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

    def harnesses(self) -> list[str]:
        """Return the harnesses that the option `names` names.

        Raises:
            UnknownHarness: there is none of such a name.
            UsageError: there are too many.
        """
        names = list(filter(None, self.options.get("names", "").split(",")))
        if len(names) > MOST_NAMES:
            raise UsageError(f"names: expected at most {MOST_NAMES} names, got {len(names)}; ask in parts")
        self.site.check_known(names)
        return names

    @property
    def is_all(self) -> bool:
        return flag(self.options, "all")


@frozen
class Route:
    """A path of the API.

    Args:
        answer: returns a plain value, or JSON as text; it is called in a thread.
        options: query parameters, each with what it means.
        body: fields of the JSON object in the body, each with what it means.
        is_of_store: whether it is about one store, which the option `store` names where there are several.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[Asked], Any]
    options: Mapping[str, str] = field(factory=dict[str, str])
    body: Mapping[str, str] = field(factory=dict[str, str])
    is_of_store: bool = True

    def check(self, options: Iterable[str], body: Iterable[str]) -> None:
        """Refuse options and fields that the path does not have.

        Raises:
            UsageError: there is one.
        """
        where = f"{self.method} {self.path}"
        check_known(where, "option", options, (*self.options, STORE) if self.is_of_store else tuple(self.options))
        check_known(where, "field", body, tuple(self.body))

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
