"""Attempts of a scripted agent as a file, JSON or TOML: read, and recorded from what another agent does.

A file maps the id of a feature to a list of attempts:

    [["sign-in"]]
    message = "done"
    deletes = ["old.py"]
    files."app.py" = "…"
"""

from __future__ import annotations

import json
import os
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import trio

from harnesses.agent import Agent, AgentRun
from harnesses.agents.scripted_agent import ScriptedAttempt
from harnesses.diagnostics.control_characters import inert_json
from harnesses.errors import HarnessMisuse
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.files.whole_files import draft_of


class _Recorded(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An attempt as it is in a file."""

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
    path = Path(path)
    try:
        found = msgspec.convert(_parsed(path), dict[str, list[_Recorded]])
    except (ValueError, msgspec.ValidationError) as error:
        raise HarnessMisuse(f"attempts in {str(path)!r} cannot be read: {error}; mend the file") from error
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
    """Return an agent that does what `agent` does, and adds each attempt to the JSON file that `read_attempts` reads.

    Of files, those are recorded that are text and differ from before; `.git` is passed over.
    """
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
