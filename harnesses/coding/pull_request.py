"""The value `PullRequest`: where accepted work is proposed, and which command tells the host. No I/O.

Invariant: no text of an agent or a repository becomes an option or a part of a shell script: a placeholder is a whole word of
the command, or the end of one like `--title={title}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import Attribute, field, frozen

from harnesses.features.errors import InvalidRequest

PULL_REQUEST = "pr"
"""`into="pr"` is `PullRequest()`."""
_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PLACES = ("title", "body", "branch", "base", "commit", "remote")
_PLACE = re.compile(r"(--?[A-Za-z0-9][\w-]*=)?\{(" + "|".join(_PLACES) + r")\}")


def _words(words: Iterable[str] | None) -> tuple[str, ...] | None:
    if words is None:
        return None
    return (words,) if isinstance(words, str) else tuple(words)


def _check_remote(_: object, attribute: Attribute[Any], value: object) -> None:
    if not (isinstance(value, str) and _REMOTE.fullmatch(value)):
        raise InvalidRequest(
            f"PullRequest: remote: expected the name of a remote of the repository, such as origin, got {value!r:.100}; "
            "add the address with `git remote add`, and write its name"
        )


def _check_command(_: object, attribute: Attribute[Any], value: tuple[str, ...] | None) -> None:
    if value is None:
        return
    if not value or not all(isinstance(word, str) for word in value) or "{" in value[0]:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidRequest(f"PullRequest: {attribute.name}: expected a program and its arguments, got {value!r:.100}")
    for word in value:
        if any(f"{{{place}}}" in word for place in _PLACES) and not _PLACE.fullmatch(word):
            raise InvalidRequest(
                f"PullRequest: {attribute.name}: expected a placeholder as a whole word, or as in --title={{title}}, got "
                f"{word!r:.100}; pass it to a script as an argument"
            )


def _check_text(_: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not (isinstance(value, str) and value.strip() and not value.startswith("-")):
        raise InvalidRequest(f"PullRequest: {attribute.name}: expected a text that does not begin with -, got {value!r:.100}")


@frozen(kw_only=True)
class PullRequest:
    """Where accepted work is proposed: a branch of a remote, with title and body, once a run has ended.

    A command gets `{title}`, `{branch}`, `{base}`, `{commit}` and `{remote}`, and as `{body}` the path of a file.
    """

    remote: str = field(default="origin", validator=_check_remote)
    """Name of a remote in the repository's own settings, with one address."""
    branch: str | None = field(default=None, validator=_check_text)
    """The branch, here and there; by default `harness/<name>/<branch of HEAD>`."""
    base: str | None = field(default=None, validator=_check_text)
    """The branch that it is proposed for; by default that of HEAD. It is never pushed."""
    title: str | None = field(default=None, validator=_check_text)
    """By default the harness's name, and how many features pass."""
    command: tuple[str, ...] | None = field(default=None, converter=_words, validator=_check_command)
    """Opens the pull request at the host, after the first push, such as `["gh", "pr", "create", …]`; None for none."""
    find: tuple[str, ...] | None = field(default=None, converter=_words, validator=_check_command)
    """Writes the address of the pull request if it is open, and else ends with a code that is not 0 or writes nothing."""
    limit_s: float = 120.0
    """Most seconds of a push or a command."""
    max_wait_s: float = 21_600.0
    """Most seconds to wait for a remote that does not answer, before the harness is blocked."""


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return a command with its placeholders replaced."""
    found = ((word, _PLACE.fullmatch(word)) for word in command)
    return [word if match is None else f"{match[1] or ''}{values[match[2]]}" for word, match in found]


def pull_request_of(into: PullRequest | str | None) -> PullRequest | None:
    """Return the pull request that `into` asks for; None if it names a branch, or nothing."""
    return PullRequest() if into == PULL_REQUEST else into if isinstance(into, PullRequest) else None
