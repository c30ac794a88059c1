"""An agent that replays scripted attempts: for tests, for examples, and to replay a recorded run.

Invariants: what an attempt does depends only on the feature and the attempt number, so that an interrupted attempt is repeated
identically; it writes only below the directory of its assignment.

A file of attempts, JSON or TOML, maps each feature id to a list:

    [["sign-in"]]
    message = "done"
    deletes = ["old.py"]
    files."app.py" = "…"
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio
from attrs import field, frozen

from harnesses.agent import Agent, AgentRun
from harnesses.agents.argument_checks import PATH, Rule, check, instance_of
from harnesses.budgets.usage import REPORTABLE, Usage
from harnesses.diagnostics.control_characters import inert_json
from harnesses.errors import HarnessMisuse
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.files.safe_files import draft_of

Files = Mapping[str, str | bytes | None]


def _files(files: Files) -> Files:
    return dict(files)


@frozen(kw_only=True)
class ScriptedAttempt:
    """One attempt: its actions in the order of the fields, then its message."""

    pause_s: float = 0.0
    """Seconds before it begins."""
    says: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    """Lines for the log."""
    files: Files = field(factory=dict[str, str | bytes | None], converter=_files)
    """Content by path below the directory of the assignment; None deletes the file."""
    run: Callable[[Assignment], Awaitable[object]] | None = None
    """Additional code to run; not restricted to the directory."""
    raises: Exception | None = None
    """The error with which it fails; None if it returns."""
    message: str = ""
    """`TurnResult.message`."""
    artifact: str | None = None
    """`TurnResult.artifact`."""
    tokens: int = 0
    """`TurnResult.tokens`."""
    usage: Usage | None = None
    """Usage to report before the attempt ends; None reports `tokens`."""
    session: str | None = None
    """`TurnResult.session`."""


Attempts = Mapping[str, ScriptedAttempt | Sequence[ScriptedAttempt]]


_ATTEMPTS = Rule("a dict of attempts by feature", lambda value: isinstance(value, Mapping))


class ScriptedAgent(Agent[FeatureState, Assignment, TurnResult]):
    """Replays attempts by feature id: the first at the first attempt, and so on; the last one repeats.

    Args:
        attempts: one attempt or a sequence for each feature.
        otherwise: the attempt for features that `attempts` does not name; without it they raise an error.
    """

    def __init__(self, attempts: Attempts, *, otherwise: ScriptedAttempt | None = None, name: str = "ScriptedAgent") -> None:
        check("ScriptedAgent", "attempts", attempts, _ATTEMPTS)
        super().__init__(self._attempt, name=name, reports=REPORTABLE)
        self._attempts = {
            key: (value,) if isinstance(value, ScriptedAttempt) else tuple(value) for key, value in attempts.items()
        }
        self._otherwise = otherwise
        for key, value in self._attempts.items():
            if not value:
                raise HarnessMisuse(f"{name}: feature {key!r} has no attempts: expected at least one, was an empty sequence")

    async def _attempt(self, run: AgentRun[FeatureState, Assignment]) -> TurnResult:
        assignment = run.input
        attempt = self._find(assignment)
        await trio.sleep(attempt.pause_s)
        for line in attempt.says:
            run.log(line)
        if attempt.files:
            root = _directory(self.name, assignment)
            await trio.to_thread.run_sync(partial(lay_down, root, attempt.files))
        if attempt.run is not None:
            await attempt.run(assignment)
        if used := attempt.usage or Usage(tokens=attempt.tokens):
            run.charge(used)
        if attempt.raises is not None:
            raise attempt.raises.with_traceback(None)
        return TurnResult(
            message=attempt.message,
            artifact=attempt.artifact,
            tokens=used.tokens,
            usage=attempt.usage,
            session=attempt.session,
        )

    def _find(self, assignment: Assignment) -> ScriptedAttempt:
        attempts = self._attempts.get(assignment.feature.id)
        if attempts is not None:
            return attempts[min(max(assignment.turn, 1), len(attempts)) - 1]
        if self._otherwise is not None:
            return self._otherwise
        raise HarnessMisuse(
            f"{self.name}: feature {assignment.feature.id!r} has no attempts: expected at least one; add it to the attempts"
        )


def lay_down(root: Path, files: Files) -> None:
    """Write or delete files below a directory.

    Raises:
        HarnessMisuse: a path leads out of the directory; nothing has been written.
    """
    within = root.resolve()
    places = {path: root / path for path in files}
    for path, place in places.items():
        if not place.resolve().is_relative_to(within) or place.resolve() == within:
            raise HarnessMisuse(f"file {path!r} was not written: expected a path below {str(root)!r}, was {str(place)!r}")
    for path, content in files.items():
        if content is None:
            places[path].unlink(missing_ok=True)
            continue
        places[path].parent.mkdir(parents=True, exist_ok=True)
        # Written as bytes, so that line endings are kept.
        places[path].write_bytes(content.encode(errors="surrogateescape") if isinstance(content, str) else content)


def _directory(name: str, assignment: Assignment) -> Path:
    if assignment.directory is None:
        feature = assignment.feature.id
        raise HarnessMisuse(f"{name}: feature {feature!r} cannot be given files: expected an assignment with a directory")
    return Path(assignment.directory)


class _Recorded(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An attempt as stored in a file."""

    files: dict[str, str | None] = {}
    deletes: list[str] = []
    message: str = ""
    artifact: str | None = None
    tokens: int = 0
    session: str | None = None
    raises: str | None = None
    pause_s: float = 0.0
    says: list[str] = []


def read_attempts(path: Path | str) -> dict[str, tuple[ScriptedAttempt, ...]]:
    """Return the attempts in a file whose name ends with .json or .toml."""
    check("read_attempts", "path", path, PATH)
    path = Path(path)
    try:
        found = msgspec.convert(_parsed(path), dict[str, list[_Recorded]])
    except (ValueError, msgspec.ValidationError) as error:
        raise HarnessMisuse(f"attempts in {str(path)!r} cannot be read: {error}; correct the file") from error
    return {feature: tuple(_attempt(one) for one in several) for feature, several in found.items()}


def _parsed(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return tomllib.loads(text)
    if path.suffix == ".json":
        return json.loads(text)
    raise ValueError(f"expected a name that ends with .json or .toml, was {path.name!r}")


def _attempt(recorded: _Recorded) -> ScriptedAttempt:
    return ScriptedAttempt(
        files={**recorded.files, **dict.fromkeys(recorded.deletes)},
        message=recorded.message,
        artifact=recorded.artifact,
        tokens=recorded.tokens,
        session=recorded.session,
        raises=None if recorded.raises is None else RuntimeError(recorded.raises),
        pause_s=recorded.pause_s,
        says=tuple(recorded.says),
    )


def recording(
    agent: Agent[FeatureState, Assignment, TurnResult], path: Path | str
) -> Agent[FeatureState, Assignment, TurnResult]:
    """Return an agent that wraps `agent` and appends each attempt to a JSON file for `read_attempts`.

    Only text files that the attempt changed are recorded; `.git` is skipped.
    """
    check("recording", "agent", agent, instance_of(Agent, "give one"))
    check("recording", "path", path, PATH)
    place = Path(path)

    async def run(turn: AgentRun[FeatureState, Assignment]) -> TurnResult:
        root = None if turn.input.directory is None else Path(turn.input.directory)
        before = await trio.to_thread.run_sync(_contents, root)
        attempt = _Recorded()
        try:
            result = await agent.answer(turn)
        except Exception as error:
            attempt.raises = f"{type(error).__name__}: {error}"
            raise
        else:
            attempt.message, attempt.artifact, attempt.tokens = result.message, result.artifact, result.tokens
            attempt.session = result.session
            return result
        finally:
            with trio.CancelScope(shield=True):
                after = await trio.to_thread.run_sync(_contents, root)
                attempt.files = {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}
                await trio.to_thread.run_sync(partial(_add, place, turn.input.feature.id, attempt))

    return Agent(run, name=agent.name, reports=agent.reports)


def _contents(root: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if root is None:
        return found
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        for file in (Path(folder, name) for name in names if name != ".git"):
            try:
                found[file.relative_to(root).as_posix()] = file.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
    return found


def _add(path: Path, feature: str, attempt: _Recorded) -> None:
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    recorded.setdefault(feature, []).append(msgspec.to_builtins(attempt))
    with draft_of(path) as file:
        file.write(f"{inert_json(json.dumps(recorded, indent=1, ensure_ascii=False))}\n".encode())
