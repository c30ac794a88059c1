"""A run file as a fleet: what a node starts of it, and when."""

from __future__ import annotations

from functools import partial
from pathlib import Path

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
    _store: str
    _orchestrator: Orchestrator | None = None
    _opened: Opened = field(factory=Opened)
    """The supervisors and pools in the orchestrator that is open."""

    def members(self) -> list[Member]:
        """Return the harnesses of the file. Each can be made: it was tried.

        Raises:
            UsageError: one of them cannot be made.
        """
        make_all(self.read, self._store)
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
        return make(table, self._store).start(orchestrator, partial(self._renew, table), self._opened)

    def _renew(self, table: Table) -> partial[Handle]:
        """Make a harness anew, for `start` and `restart`: as the file was when the node began."""
        made = make(table, self._store)
        assert self._orchestrator is not None
        return partial(made.start, self._orchestrator, partial(self._renew, table), self._opened)


def read_fleet(file: Path, store: str) -> tuple[Fleet, FleetFile]:
    """Return the fleet of a run file, and the file.

    Raises:
        UsageError: it cannot be read, something in it is wrong, or a harness cannot be made.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}; expected a run file (.toml)") from error
    kept = FleetFile(parse_run_file(text, file), store)
    return Fleet.of(kept.members(), text), kept
