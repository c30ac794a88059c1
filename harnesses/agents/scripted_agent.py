"""An agent whose attempts are written down beforehand: for tests, for examples, and to play a recorded run again.

The law: what it does depends on the feature and the number of the try alone, so that a try that was cut off is made again in
the same way; and it writes nowhere but below the directory of its assignment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import trio
from attrs import field, frozen

from harnesses.agent import Agent, AgentRun
from harnesses.budgets.usage import REPORTABLE, Usage
from harnesses.errors import HarnessMisuse
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState

Files = Mapping[str, str | bytes | None]


def _files(files: Files) -> Files:
    return dict(files)


def _no_files() -> Files:
    return {}


@frozen(kw_only=True)
class ScriptedAttempt:
    """One try: what it does, in the order of the fields, and what it then says."""

    pause_s: float = 0.0
    says: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    """Lines for the log."""
    files: Files = field(factory=_no_files, converter=_files)
    """Content by path below the directory of the assignment; None deletes the file."""
    run: Callable[[Assignment], Awaitable[object]] | None = None
    """Does whatever else; it is not watched over."""
    raises: Exception | None = None
    message: str = ""
    artifact: str | None = None
    tokens: int = 0
    usage: Usage | None = None
    """What it has used, reported before it ends; None is its `tokens`."""
    session: str | None = None


Attempts = Mapping[str, ScriptedAttempt | Sequence[ScriptedAttempt]]


class ScriptedAgent(Agent[FeatureState, Assignment, TurnResult]):
    """Makes the attempts that are written down, by feature id: the first at the first try, and so on; the last one repeats.

    Args:
        attempts: one, or a sequence, for each feature.
        otherwise: made at features that `attempts` does not name; without it they are an error.
    """

    def __init__(self, attempts: Attempts, *, otherwise: ScriptedAttempt | None = None, name: str = "ScriptedAgent") -> None:
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
        raise HarnessMisuse(f"{self.name}: feature {assignment.feature.id!r} has no attempts: expected some; write them down")


def lay_down(root: Path, files: Files) -> None:
    """Write, or delete, files below a directory.

    A path that leads out of it raises `HarnessMisuse`, before anything is written.
    """
    within = root.resolve()
    places = {path: root / path for path in files}
    for path, place in places.items():
        if not place.resolve().is_relative_to(within) or place.resolve() == within:
            raise HarnessMisuse(f"file {path!r} is not written: expected a path below {str(root)!r}, was {str(place)!r}")
    for path, content in files.items():
        if content is None:
            places[path].unlink(missing_ok=True)
            continue
        places[path].parent.mkdir(parents=True, exist_ok=True)
        # Bytes, so that line ends are what they are.
        places[path].write_bytes(content.encode(errors="surrogateescape") if isinstance(content, str) else content)


def _directory(name: str, assignment: Assignment) -> Path:
    if assignment.directory is None:
        feature = assignment.feature.id
        raise HarnessMisuse(f"{name}: feature {feature!r} cannot be given files: expected an assignment with a directory")
    return Path(assignment.directory)
