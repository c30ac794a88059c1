"""Where a feature list comes from: the port, and a list in a file: TOML, JSON or Markdown, told by how its name ends."""

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
    """Finds out what there is to do in a repository."""

    async def load(self, checkout: Path) -> Sequence[Feature]:
        """Return the features, none of which passes.

        Args:
            checkout: a worktree of the commit that the work begins from, for this call alone. What is run in it may leave
                files there; nobody should judge anything in it afterwards.

        Raises:
            NothingToDo: nothing is open, or there is nothing at all.
            InvalidRequest: what is read is not as expected.
            NotReady: something that is needed to find out is missing.
        """
        ...

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return what proves these features; None if the source cannot know, so that one has to be chosen."""
        ...


MAX_BYTES = 4_000_000
"""A file that is larger is no feature list."""

_READERS: dict[str, Callable[[str, str], FeatureList]] = {
    ".toml": parse_toml,
    ".json": parse_json,
    ".md": parse_markdown,
    ".markdown": parse_markdown,
    ".txt": parse_markdown,
    "": parse_markdown,
}
"""By suffix; a file named just TODO is a check list."""


class FeatureFile:
    """Features that a person has written down.

    Args:
        path: within the repository, as it is at the commit that the work begins from; or a whole path, beginning with `/`
            or `~`, of a file that need not be in any repository.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self.objective: str | None = None
        """What the list is worked for, as the file said when it was read last."""
        if self._path.suffix.lower() not in _READERS:
            known = ", ".join(suffix for suffix in _READERS if suffix)
            raise InvalidRequest(f"features file {str(path)!r}: expected a name that ends with {known}; rename it")

    def __repr__(self) -> str:
        return f"FeatureFile({str(self._path)!r})"

    async def load(self, checkout: Path) -> tuple[Feature, ...]:
        """Return the features of the file."""
        found = await self.read(checkout)
        self.objective = found.objective
        return found.features

    async def read(self, checkout: Path) -> FeatureList:
        """Return what the file says, its objective included."""
        return await trio.to_thread.run_sync(self._read, checkout)

    def read_here(self) -> FeatureList:
        """Return what a file outside of any repository says, at once.

        Raises:
            InvalidRequest: it cannot be read, or something in it is not as expected.
        """
        return self._read(Path())

    def validator(self) -> OutcomeValidator[Candidate] | None:
        """Return None: what proves a text has to be chosen."""
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
                f"features file {str(self._path)!r} is not in the repository: expected a path within it, or a whole one; "
                f"give {str(self._path.absolute())!r} if you mean that"
            )
        return path

    def _hint(self) -> str:
        here = self._path.expanduser().absolute()
        if self._path.expanduser().is_absolute() or not here.exists():
            return "check the path"
        return f"it is looked for in the commit that the work begins from: commit it there, or give {str(here)!r}"
