"""A run file as a fleet: what a node starts of it, and when."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

from attrs import define, field

from orchestrator.cli.run.harness_factory import make, make_all
from orchestrator.cli.run.run_file import RunFile, Table, parse_run_file
from orchestrator.cli.run.supervisor_tables import Opened
from orchestrator.errors import UsageError
from orchestrator.handle import Handle
from orchestrator.nodes.fleet_members import Fleet, Member
from orchestrator.orchestrator import Orchestrator


@define(eq=False)
class FleetFile:
    """A run file whose harnesses are started one by one, each whenever the node takes it."""

    read: RunFile
    _orchestrator: Orchestrator | None = None
    _opened: Opened = field(factory=Opened)
    """The supervisors and pools in the orchestrator that is open."""

    def members(self) -> list[Member]:
        """Return the harnesses of the file. Each can be made: it was tried.

        Raises:
            UsageError: one of them cannot be made, or not on any node.
        """
        make_all(self.read)  # what needs a file beside the store is refused
        for table in self.read.harnesses:
            _check_books(table)
        groups = {name: names[0] for names in self.read.together() if len(names) > 1 for name in names}
        return [
            Member(
                table.config.name,
                partial(self._start, table),
                table.needs,
                table.cpus,
                groups.get(table.config.name, ""),
            )
            for table in self.read.harnesses
        ]

    def _start(self, table: Table, orchestrator: Orchestrator) -> Handle:
        if orchestrator is not self._orchestrator:
            self._orchestrator, self._opened = orchestrator, Opened()
            self.read.groups.open(orchestrator, self._opened)
        return make(table).start(orchestrator, partial(self._renew, table), self._opened)

    def _renew(self, table: Table) -> partial[Handle]:
        """Make a harness anew, for `start` and `restart`: as the file was when the node began."""
        made = make(table)
        assert self._orchestrator is not None
        return partial(made.start, self._orchestrator, partial(self._renew, table), self._opened)


def _check_books(table: Table) -> None:
    """Refuse paper trading with books on this machine: a node that takes the harness over would not find them."""
    broker: object = table.config.arguments.get("broker", "paper")
    given = set(cast(Mapping[str, object], broker)) if isinstance(broker, Mapping) else {broker}
    if table.config.harness == "trading" and "paper" in given and "path" not in given:
        raise UsageError(
            f"{table.where}: trading: broker: expected a `path` of books that every node of the fleet reaches, got none, "
            "which puts them on one machine; write it, or run this harness with `orchestrator run`"
        )


def read_fleet(file: Path) -> tuple[Fleet, FleetFile]:
    """Return the fleet of a run file, and the file.

    Raises:
        UsageError: it cannot be read, something in it is wrong, or a harness cannot be made.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}; expected a run file (.toml)") from error
    kept = FleetFile(parse_run_file(text, file))
    return Fleet.of(kept.members(), text), kept
