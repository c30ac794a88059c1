"""The protocol of feature sources, and a source that reads a file: TOML, JSON or Markdown, by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import trio

from harnesses.coding.candidate import Candidate
from harnesses.coding.sources.feature_entries import FeatureList, parse_json, parse_toml
from harnesses.coding.sources.markdown import parse_markdown
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.feature_validators import OutcomeValidator


class FeatureSource(Protocol):
    """Finds the features to work on in a repository."""

    async def load(self, checkout: Path) -> Sequence[Feature]:
        """Return the features, all of them not passing yet.

        Args:
            checkout: a worktree of the commit at which the work starts, for this call only. Commands run in it may leave files
                there, so it must not be used for validation.

        Raises:
            NothingToDo: everything is done, or the list is empty.
            InvalidRequest: the source is invalid.
            NotReady: something needed to read the source is missing.
        """
        ...

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return the validator for these features; None if the caller must choose one."""
        ...


MAX_BYTES = 4_000_000
"""Maximum bytes of a feature list."""

_READERS: dict[str, Callable[[str, str], FeatureList]] = {
    ".toml": parse_toml,
    ".json": parse_json,
    ".md": parse_markdown,
    ".markdown": parse_markdown,
    ".txt": parse_markdown,
    "": parse_markdown,
}
"""Parsers by suffix; a file named just TODO is a check list."""


class FeatureFile:
    """Features from a file.

    Args:
        path: relative to the repository, read at the commit at which the work starts; or an absolute path, beginning with `/`
            or `~`, of any file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.objective: str | None = None
        """The goal of the list, as last read from the file."""
        if self._path.suffix.lower() not in _READERS:
            known = ", ".join(suffix for suffix in _READERS if suffix)
            raise InvalidRequest(f"features file {str(path)!r}: expected a name that ends with {known}; rename it")

    def __repr__(self) -> str:
        return f"FeatureFile({str(self._path)!r})"

    async def load(self, checkout: Path) -> tuple[Feature, ...]:
        """Return the features in the file."""
        found = await self.read(checkout)
        self.objective = found.objective
        return found.features

    async def read(self, checkout: Path) -> FeatureList:
        """Return the contents of the file, including its objective."""
        return await trio.to_thread.run_sync(self._read, checkout)

    def read_here(self) -> FeatureList:
        """Return the contents of a file outside of any repository, synchronously.

        Raises:
            InvalidRequest: the file cannot be read, or is invalid.
        """
        return self._read(Path())

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return None: the caller must choose a validator."""
        return None

    def _read(self, checkout: Path) -> FeatureList:
        path = self._found(checkout)
        where = str(self._path)
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise InvalidRequest(f"features file {where} cannot be read: {error.strerror}; {self._hint()}") from error
        if len(content) > MAX_BYTES:
            raise InvalidRequest(f"features file {where} is too large: expected at most {MAX_BYTES} bytes; split the work")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"features file {where} is not text: expected UTF-8, {error.reason} at byte {error.start}; save it as UTF-8"
            ) from error
        return _READERS[self._path.suffix.lower()](text, where)

    def _found(self, checkout: Path) -> Path:
        path = checkout / self._path.expanduser()
        if self._path.expanduser().is_absolute():
            return path
        if not path.resolve().is_relative_to(checkout.resolve()):
            raise InvalidRequest(
                f"features file {str(self._path)!r} is not in the repository: expected a path within it, or an absolute one; "
                f"give {str(self._path.absolute())!r} if you mean that"
            )
        return path

    def _hint(self) -> str:
        here = self._path.expanduser().absolute()
        if self._path.expanduser().is_absolute() or not here.exists():
            return "check the path"
        return f"it is read from the commit at which the work starts: commit it there, or give {str(here)!r}"
