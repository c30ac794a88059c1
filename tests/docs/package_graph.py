"""What the packages of this project are made of: modules, folders, and who imports whom. Read from the sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from attrs import frozen

from tests import ROOT
from tests.docs.import_picture import Edges
from tests.test_layers import FRONT_DOORS, SPINES, Project


@cache
def project() -> Project:
    """Return the sources of this project."""
    paths = (path for package in SPINES for path in sorted((ROOT / package).rglob("*.py")))
    return Project(
        {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8") for path in paths}
    )


@frozen
class Chapter:
    """The packages that one page is about."""

    packages: tuple[str, ...]
    """Dotted names."""
    begin: tuple[str, ...] = ()
    """Nodes of the picture where reading begins."""
    own_only: bool = False
    """Whether folders within have pages of their own."""
    unfolded: bool = False
    """Whether the picture shows the modules of folders, rather than the folders."""

    @property
    def name(self) -> str:
        """The name of the page and of its picture."""
        return self.packages[0].replace(".", "-") if len(self.packages) == 1 else f"{self.packages[0].split('.')[0]}-small"

    def has(self, module: str) -> bool:
        folder = module.rpartition(".")[0]
        if self.own_only:
            return folder in self.packages
        return any(f"{folder}.".startswith(f"{package}.") for package in self.packages)

    def folders(self) -> Mapping[str, list[str]]:
        """Return the modules by their folders, front doors left out where they only say what is in the folder."""
        found: dict[str, list[str]] = {}
        for module in project().texts:
            if self.has(module):
                found.setdefault(module.rpartition(".")[0], []).append(module)
        return {folder: sorted(found[folder]) for folder in sorted(found)}

    def node(self, module: str) -> str | None:
        """Return which node of the picture a module belongs to."""
        for package in self.packages:
            if module.startswith(f"{package}."):
                head, _, rest = module.removeprefix(f"{package}.").partition(".")
                if head in FRONT_DOORS:
                    return None
                if len(self.packages) > 1:
                    return f"{package.rpartition('.')[2]}/{head}"
                if not rest:
                    return head
                return f"{head}/{rest}" if self.unfolded and rest not in FRONT_DOORS else None if self.unfolded else f"{head}/"
        return None

    def edges(self) -> Edges:
        found: dict[str, set[str]] = {}
        for module in project().texts:
            if (here := self.node(module)) is not None:
                tos = {self.node(other) for other in project().own_imports[module]}
                found.setdefault(here, set()).update(to for to in tos if to is not None and to != here)
        return {node: frozenset(tos) for node, tos in found.items()}

    def imports(self) -> Iterator[tuple[str, str]]:
        """Yield which module outside is imported by which module here."""
        for module in project().texts:
            if self.has(module):
                yield from ((module, other) for other in project().own_imports[module] if not self.has(other))

    def importers(self) -> Iterator[tuple[str, str]]:
        """Yield which module outside imports which module here."""
        for module in project().texts:
            if not self.has(module):
                yield from ((module, other) for other in project().own_imports[module] if self.has(other))


READY = {
    "agents": ("command/",),
    "budgets": ("spending",),
    "coding": ("validators/", "candidate"),
    "effects": ("once",),
    "features": ("loop/",),
    "governance": ("limits/",),
    "guard": ("command_findings",),
    "memory": ("episodic_memory",),
    "messages": ("requests",),
    "processes": ("bounded_command",),
    "redaction": ("redactor",),
    "run_file_harnesses": ("coding_table",),
    "timing": ("interval",),
    "trading": ("trading_harness",),
}
BESIDE = {
    "alerts": ("notifier",),
    "analysis": ("questions/",),
    "cli": ("read/",),
    "control": ("control_server",),
    "history": (),
    "mail": ("durable_mailbox",),
    "mcp": ("supervision_tools", "tool_box"),
    "nodes": ("run_node", "node_life"),
    "operating": ("approval_answers", "effect_outcomes"),
    "presets": ("run_folder",),
    "recording": ("recorder",),
    "runtime": ("child", "actor"),
    "states": ("state_migration",),
    "store": ("store_protocol",),
    "telemetry": (),
    "text": (),
    "web": ("site", "site_routes"),
    "workers": ("run_workers", "worker_pool"),
}
CHAPTERS = (
    Chapter(("harnesses",), ("base", "loop"), own_only=True),
    *(Chapter((f"harnesses.{name}",), begin) for name, begin in READY.items()),
    Chapter(("harnesses.pipeline",), ("harness",), unfolded=True),
    Chapter(("harnesses.data", "harnesses.diagnostics", "harnesses.files", "harnesses.charts"), ("data/values",)),
    Chapter(("orchestrator",), ("orchestrator",), own_only=True),
    *(Chapter((f"orchestrator.{name}",), begin) for name, begin in BESIDE.items()),
)
