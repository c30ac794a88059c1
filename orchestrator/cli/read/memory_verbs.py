"""The verbs `memory list`, `show`, `retract`, `export` and `check`: what agents have learned, taking back what was wrong.

They work on the memory's own file and need no store; all but `retract` only read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs

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
from orchestrator.cli.parsing import Add, add_verb, print_all, words
from orchestrator.cli.store_writing import user_name
from orchestrator.cli.value_lines import columns, json_line, stamp
from orchestrator.errors import UsageError
from orchestrator.text.terminal_text import one_line

_WHERE = """\
Which memory: --memory FILE, or --project NAME below $ORCHESTRATOR_MEMORY_DIR (default: the user's data folder, such as
~/.local/share/orchestrator); neither is needed if there is only one."""
_HELP = {
    "list": "list what a memory holds",
    "show": "show one episode or fact, and who was told of it",
    "retract": "take back an episode or a fact, and every fact derived from it",
    "export": "write everything that a memory holds, one JSON object a line",
    "check": "check that a memory is in order",
}


def add_verbs(add: Add) -> None:
    """Add the verbs."""
    parsers = {verb: _add(add, f"memory {verb}", verb, help) for verb, help in _HELP.items()}
    alone = _add(add, "memory", "list", "list what agents have learned; `memory list`, `show`, `retract`, `export`, `check`")
    for parser in (parsers["list"], alone):
        parser.add_argument("--all", action="store_true", help="also what was retracted")
    for verb in ("show", "retract"):
        parsers[verb].add_argument("id", metavar="ID", type=words, help="as `orchestrator memory list` shows it")
    parsers["retract"].add_argument("--reason", metavar="TEXT", type=words, required=True, help="why; kept with it")
    parsers["retract"].add_argument("--by", metavar="NAME", type=words, help="who says so (default: who gives the command)")


def _add(add: Add, name: str, verb: str, help: str) -> argparse.ArgumentParser:
    parser = add_verb(add, name, help, partial(_carry_out, verb), _WHERE)
    parser.add_argument("--memory", metavar="FILE", type=Path, help="the file of the memory")
    parser.add_argument("--project", metavar="NAME", type=words, help="whose memory it is")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object a line")
    return parser


_HEAD = ("ID", "WHEN", "WHAT", "STANDING", "SAYS")


def _carry_out(verb: str, options: argparse.Namespace) -> int:
    """Carry out a verb and return its exit code.

    Raises:
        UsageError: the memory is not there, or cannot be used, or holds nothing of that id.
    """
    try:
        return _VERBS[verb](_chosen(options), options)
    except (HarnessMisuse, MemoryUnusable) as error:
        raise UsageError(str(error)) from error


def _chosen(options: argparse.Namespace) -> Path:
    if options.memory is not None and options.project is not None:
        raise UsageError("memory: expected --memory or --project, got both; leave one out")
    if options.memory is not None:
        return Path(options.memory)
    if options.project is not None:
        return memory_path(options.project)
    found = known_memories()
    if len(found) != 1:
        names = ", ".join(path.parts[-3] for path in found[:10]) or "none"
        raise UsageError(f"memory: expected one memory below {memory_root()}, found {names}; give --project or --memory")
    return found[0]


def _list(path: Path, options: argparse.Namespace) -> int:
    contents = read_contents(path)
    rows = [row for row in _rows(contents) if options.all or row["standing"] != "retracted"]
    if options.json:
        print_all(json_line({name: value for name, value in row.items() if name != "whole"}) for row in rows)
    elif rows:
        print_all(columns(_HEAD, (_cells(row) for row in rows)))
    _say_what_is_left_out(contents, len(rows))
    return ExitCode.OK


def _show(path: Path, options: argparse.Namespace) -> int:
    contents = read_contents(path)
    row = next((row for row in _rows(contents) if row["id"] == options.id), None)
    if row is None:
        raise UsageError(f"memory {path} has no {options.id!r}: expected an id of `orchestrator memory list --all`")
    retraction = contents.retraction_of(options.id)
    with closing(EpisodicMemory(path, project=contents.project)) as memory:
        used = memory.affected_by(options.id)
    retracted = None if retraction is None else _plain(attrs.asdict(retraction))
    fields: dict[str, Any] = {**row, "retracted": retracted, "used_by": _users(used)}
    if options.json:
        print_all([json_line(fields)])
        return ExitCode.OK
    whole: dict[str, Any] = fields.pop("whole")
    shown = {name: value for name, value in {**fields, **whole}.items() if value not in ("", [], ())}
    print_all(f"{name:<16} {one_line(str(value), 2000)}" for name, value in shown.items())
    return ExitCode.OK


def _retract(path: Path, options: argparse.Namespace) -> int:
    by = user_name() if options.by is None else options.by
    project = read_contents(path).project
    with closing(EpisodicMemory(path, project=project)) as memory:
        used = memory.retract(options.id, reason=options.reason, by=by)
    if options.json:
        print_all([json_line({"id": options.id, "used_by": _users(used), "facts": list(used.facts)})])
    told = f"; told to {', '.join(used.harnesses)}: look at what they made of it" if used.harnesses else ""
    facts = f", with {len(used.facts)} facts derived from it" if used.facts else ""
    streams.say(one_line(f"{options.id} is retracted{facts}{told}", 2000))
    return ExitCode.OK


def _export(path: Path, options: argparse.Namespace) -> int:
    contents = read_contents(path)
    print_all(json_line(row) for row in _rows(contents))
    _say_what_is_left_out(contents, len(contents.episodes) + len(contents.facts))
    return ExitCode.OK


def _check(path: Path, options: argparse.Namespace) -> int:
    found = diagnose(path, project=read_contents(path).project)
    fields = _plain(attrs.asdict(found))
    print_all([json_line(fields)] if options.json else _check_lines(found))
    return ExitCode.OK if found.healthy else ExitCode.INTEGRITY


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


_VERBS: dict[str, Callable[[Path, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "retract": _retract,
    "export": _export,
    "check": _check,
}
