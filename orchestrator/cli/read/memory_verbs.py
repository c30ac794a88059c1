"""The verbs `memory list`, `show`, `retract`, `export` and `check`: what agents have learned, taking back what was wrong.

They work on the memory's own file and need no store; all but `retract` only read.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import attrs
from attrs import frozen
from cyclopts import App, Parameter

from harnesses.errors import HarnessMisuse
from harnesses.memory import (
    Affected,
    Contents,
    Diagnostics,
    Episode,
    EpisodicMemory,
    Fact,
    MemoryUnusable,
    diagnose,
    known_memories,
    memory_path,
    memory_root,
    read_contents,
)
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Words, print_all
from orchestrator.errors import UsageError
from orchestrator.operating.store_writing import user_name
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line, stamp

MemoryId = Annotated[Words, Parameter(metavar="ID")]
memory = App(name="memory", help="List what agents have learned.")


@Parameter(name="*")
@frozen
class Which:
    """Which memory."""

    memory: Annotated[Path | None, Parameter(metavar="FILE", help="the file of the memory")] = None
    project: Annotated[Words | None, Parameter(metavar="NAME", help="the project whose memory it is")] = None


ONLY = Which()
"""The memory where there is one alone."""


@memory.default
def default(*, all: bool = False, which: Which = ONLY, common: Common = USUAL) -> int:
    """List what agents have learned.

    The same as `memory list`. The memory is --memory FILE, or --project NAME below $ORCHESTRATOR_MEMORY_DIR (default: the
    user's data folder, such as ~/.local/share/orchestrator); neither is needed if there is only one.

    Args:
        all: also include what was retracted
    """
    return list_(all=all, which=which, common=common)


@memory.command(name="list")
def list_(*, all: bool = False, which: Which = ONLY, common: Common = USUAL) -> int:
    """List what a memory holds.

    Args:
        all: also include what was retracted
    """
    with _chosen(which) as path:
        return _list(path, every=all, as_json=common.json)


@memory.command
def show(id: MemoryId, /, *, which: Which = ONLY, common: Common = USUAL) -> int:
    """Show one episode or fact, and the harnesses that recalled it.

    Args:
        id: its id, as `orchestrator memory list` shows it
    """
    with _chosen(which) as path:
        return _show(path, id, as_json=common.json)


@memory.command
def check(*, which: Which = ONLY, common: Common = USUAL) -> int:
    """Check that a memory is in order.

    Exit codes: 0 it is in order, 5 it is not.
    """
    with _chosen(which) as path:
        found = diagnose(path, project=read_contents(path).project)
        print_all([json_line(_plain(attrs.asdict(found)))] if common.json else _check_lines(found))
        return ExitCode.OK if found.healthy else ExitCode.INTEGRITY


@memory.command
def export(*, which: Which = ONLY, common: Common = USUAL) -> int:
    """Write everything in a memory, one JSON object a line."""
    with _chosen(which) as path:
        contents = read_contents(path)
        print_all(json_line(row) for row in _rows(contents))
        _say_what_is_left_out(contents, len(contents.episodes) + len(contents.facts))
        return ExitCode.OK


@memory.command
def retract(
    id: MemoryId,
    /,
    *,
    reason: Words,
    by: Annotated[Words | None, Parameter(metavar="NAME")] = None,
    which: Which = ONLY,
    common: Common = USUAL,
) -> int:
    """Retract an episode or a fact, and what was derived from it.

    Args:
        id: its id, as `orchestrator memory list` shows it
        reason: why; kept with it
        by: who retracts it (default: the user who gives the command)
    """
    with _chosen(which) as path:
        return _retract(path, id, reason, user_name() if by is None else by, as_json=common.json)


_HEAD = ("ID", "WHEN", "WHAT", "STANDING", "SAYS")


@contextmanager
def _chosen(which: Which) -> Generator[Path]:
    """Give the path of the memory.

    Raises:
        UsageError: the memory is not there, or cannot be used, or holds nothing of that id.
    """
    try:
        yield _path_of(which)
    except (HarnessMisuse, MemoryUnusable) as error:
        raise UsageError(str(error)) from error


def _path_of(which: Which) -> Path:
    if which.memory is not None and which.project is not None:
        raise UsageError("memory: expected --memory or --project, got both; leave one out")
    if which.memory is not None:
        return which.memory
    if which.project is not None:
        return memory_path(which.project)
    found = known_memories()
    if len(found) != 1:
        names = ", ".join(path.parts[-3] for path in found[:10]) or "none"
        raise UsageError(f"memory: expected one memory below {memory_root()}, found {names}; give --project or --memory")
    return found[0]


def _list(path: Path, *, every: bool, as_json: bool) -> int:
    contents = read_contents(path)
    rows = [row for row in _rows(contents) if every or row["standing"] != "retracted"]
    if as_json:
        print_all(json_line({name: value for name, value in row.items() if name != "whole"}) for row in rows)
    elif rows:
        print_all(columns(_HEAD, (_cells(row) for row in rows)))
    _say_what_is_left_out(contents, len(rows))
    return ExitCode.OK


def _show(path: Path, id: str, *, as_json: bool) -> int:
    contents = read_contents(path)
    row = next((row for row in _rows(contents) if row["id"] == id), None)
    if row is None:
        raise UsageError(f"memory {path} has no {id!r}: expected an id of `orchestrator memory list --all`")
    retraction = contents.retraction_of(id)
    with closing(EpisodicMemory(path, project=contents.project)) as memory:
        used = memory.affected_by(id)
    retracted = None if retraction is None else _plain(attrs.asdict(retraction))
    fields: dict[str, Any] = {**row, "retracted": retracted, "used_by": _users(used)}
    if as_json:
        print_all([json_line(fields)])
        return ExitCode.OK
    whole: dict[str, Any] = fields.pop("whole")
    shown = {name: value for name, value in {**fields, **whole}.items() if value not in ("", [], ())}
    print_all(f"{name:<16} {one_line(str(value), 2000)}" for name, value in shown.items())
    return ExitCode.OK


def _retract(path: Path, id: str, reason: str, by: str, *, as_json: bool) -> int:
    project = read_contents(path).project
    with closing(EpisodicMemory(path, project=project)) as memory:
        used = memory.retract(id, reason=reason, by=by)
    if as_json:
        print_all([json_line({"id": id, "used_by": _users(used), "facts": list(used.facts)})])
    told = f"; it was recalled by {', '.join(used.harnesses)}: check what they did with it" if used.harnesses else ""
    facts = f", with {len(used.facts)} facts derived from it" if used.facts else ""
    streams.say(one_line(f"{id} is retracted{facts}{told}", 2000))
    return ExitCode.OK


def _check_lines(found: Diagnostics) -> Iterator[str]:
    yield one_line(
        f"{found.path}: {found.episodes} episodes ({found.trusted} trusted), {found.facts} facts, "
        f"{found.retracted} retracted, {found.retrievals} retrievals ({found.hits} found something), {found.bytes:,} bytes",
        2000,
    )
    for problem in found.problems:
        level = "error" if problem.is_error else "warning"
        yield one_line(f"{level}: {problem.kind}: {problem.count}: {problem.detail}", 2000)


def _rows(contents: Contents) -> Iterator[dict[str, Any]]:
    """Yield what a memory holds as plain data, oldest first; `whole` is all of it."""
    for kept in contents.episodes:
        standing = "retracted" if kept.retracted else "trusted" if kept.trusted else "not trusted"
        yield _row(kept.episode, "episode", standing, kept.episode.task)
    for fact in contents.facts:
        yield _row(fact, "fact", "retracted" if contents.retraction_of(fact.id) else "known", fact.learning)


def _row(one: Episode | Fact, kind: str, standing: str, says: str) -> dict[str, Any]:
    stamped = {"id": one.id, "timestamp": stamp(one.created_at), "kind": kind}
    return {**stamped, "standing": standing, "says": says, "whole": _plain(attrs.asdict(one))}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    when = str(row["timestamp"])[:19].replace("T", " ")
    return (one_line(row["id"], 80), when, row["kind"], row["standing"], one_line(row["says"], 80))


def _users(used: Affected) -> list[dict[str, Any]]:
    return [_plain(attrs.asdict(use)) for use in used.uses]


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields as JSON carries them: times as text, paths as text."""
    return {
        name: stamp(value) if hasattr(value, "isoformat") else str(value) if isinstance(value, Path) else value
        for name, value in fields.items()
    }


def _say_what_is_left_out(contents: Contents, shown: int) -> None:
    if not shown:
        streams.say(f"{contents.path} holds nothing to show")
    if contents.dropped:
        streams.say(f"{len(contents.dropped)} rows of {contents.path} cannot be trusted and are left out: see `memory check`")
