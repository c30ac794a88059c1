"""`docs/reference/api/`: which public name stands on which page; mkdocstrings fills in what the docstrings say."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

from attrs import frozen

PACKAGES = (
    *("harnesses", "harnesses.agents", "harnesses.coding", "harnesses.features", "harnesses.governance", "harnesses.guard"),
    *("harnesses.memory", "harnesses.pipeline", "harnesses.redaction", "harnesses.trading"),
    *("orchestrator", "orchestrator.analysis", "orchestrator.analysis.pictures", "orchestrator.history"),
    *("orchestrator.store", "orchestrator.testing"),
)
"""Packages whose names are public."""


@frozen
class ApiPage:
    """A page: its title, what it says first, and the names on it."""

    title: str
    intro: str
    names: Mapping[str, str]
    """Names by package, in the order of the page; a module alone, for all that is public in it."""


PAGES: Mapping[str, ApiPage] = {
    "harness": ApiPage(
        "Harness",
        "What the author of a harness writes and is given.",
        {
            "harnesses": "BaseHarness StepYield Step StateDelta LoadedContext PersistentState HarnessConfig Agent AgentRun "
            "Constraints Request migrates query",
        },
    ),
    "effects": ApiPage(
        "Effects, approvals, budgets",
        "Acts that happen once, acts that need human approval, and what may be spent.",
        {
            "harnesses": "Effect EffectOutcome Confirmed NotDone Undecided Action Category Grant Budget Spend Usage",
        },
    ),
    "surroundings": ApiPage(
        "Runtime",
        "What a harness asks of whatever runs it. `LocalRuntime` runs one harness alone, in memory.",
        {"harnesses": "Runtime LocalRuntime Control Ending Governor Finding"},
    ),
    "orchestrator": ApiPage(
        "Orchestrator",
        "Running many harnesses side by side.",
        {
            "orchestrator": "Orchestrator Handle Outcome OutcomeKind Status Restart Intensity Backoff Strategy Supervisor "
            "Pool run_workers run_node run_on_ray Member",
        },
    ),
    "store": ApiPage(
        "Store",
        "What remembers: the protocol, the stores that come with the package, and the values that they give.",
        {
            "orchestrator": "Store SqliteStore PostgresStore MemoryStore Record StepRecord HarnessRecord",
            "orchestrator.store": "SqliteReader Counted InFile Keyed Watched",
            "orchestrator.store.store_protocol": "StepRow EffectRow VersionRow Claim Append Migrate Settle Remark Past Fork "
            "Claimed Committed",
            "orchestrator.store.conformance": "LAWS LAWS_BETWEEN_RUNS Law Open",
        },
    ),
    "testing": ApiPage("Testing", "Tests of your own harness, without a disk.", {"orchestrator.testing": ""}),
    "analysis": ApiPage(
        "Analysis and history",
        "Questions asked of what was recorded, and any earlier state.",
        {"orchestrator.analysis": "", "orchestrator.analysis.pictures": "", "orchestrator.history": ""},
    ),
    "agents": ApiPage("Agents", "Ready-made agents.", {"harnesses.agents": ""}),
    "features": ApiPage("Feature lists", "A list of features, worked until every one is proven.", {"harnesses.features": ""}),
    "coding": ApiPage("Coding", "Features of a git repository.", {"harnesses.coding": ""}),
    "trading": ApiPage("Trading", "Feeds, brokers, strategies, and the harness that joins them.", {"harnesses.trading": ""}),
    "pipeline": ApiPage("Pipelines", "Stages that build on each other.", {"harnesses.pipeline": ""}),
    "governance": ApiPage(
        "Governance and guard",
        "Guardrails, contracts, evidence, and which commands are harmless.",
        {
            "harnesses.governance": "",
            "harnesses.governance.approved_commands": "GovernedCommands CommandRan CommandRefused",
            "harnesses.guard": "",
        },
    ),
    "memory": ApiPage("Memory", "What was done before.", {"harnesses.memory": ""}),
    "redaction": ApiPage("Redaction", "Secrets taken out of text and data.", {"harnesses.redaction": ""}),
}


def public(package: str) -> list[str]:
    """Return the public names of a package or module, without errors (they have a page of their own) and earlier names."""
    module = importlib.import_module(package)
    names: Iterable[str] = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == package
    ]
    values = {name: getattr(module, name) for name in names}
    return [name for name, value in values.items() if not is_error(value) and getattr(value, "__name__", name) == name]


def value_of(package: str, name: str) -> int:
    """Return what tells one value from another, whatever it is called and from where."""
    return id(getattr(importlib.import_module(package), name))


def is_error(value: object) -> bool:
    """Return whether a value is a class of errors."""
    return isinstance(value, type) and issubclass(value, BaseException)


def names_on(page: ApiPage) -> list[tuple[str, str]]:
    """Return package and name of everything on a page."""
    return [(package, name) for package, names in page.names.items() for name in names.split() or public(package)]


def markdown(page: ApiPage) -> str:
    """Return a page."""
    parts = [f"# {page.title}", page.intro]
    for package in page.names:
        if len(page.names) > 1:
            parts.append(f"## `{package}`")
        parts += [f"::: {package}.{name}" for where, name in names_on(page) if where == package]
    return "\n\n".join(parts) + "\n"
