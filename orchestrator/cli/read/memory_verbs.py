"""The verbs `memory list`, `show`, `retract`, `export` and `check`: what agents have learned, taking back what was wrong."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from orchestrator.cli.parsing import Add, add_verb, words

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
MEMORY_VERBS = tuple(f"memory {verb}" for verb in _HELP)


def add_memory_verbs(add: Add) -> None:
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


def _carry_out(verb: str, options: argparse.Namespace) -> int:
    from orchestrator.cli.read.memory_pages import carry_out

    return carry_out(verb, options)
