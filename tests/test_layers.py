"""The walls of the house: every import points down, no module is without a place, and what is pure stays pure.

Imports within functions and under `TYPE_CHECKING` count like any other.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent

HARNESSES = (
    # nouns
    ("choices", "control_characters", "errors", "faults", "moment", "step"),
    ("budget", "clock", "config", "drafts", "forks", "frames", "key_file", "links", "record_size", "schedule", "stopwatch"),
    ("diagnosis", "extras", "object_reference", "unawaited", "usage"),
    ("agent", "values"),
    ("approval", "private_files", "read_only", "requests"),
    ("attachments", "child_order", "delta", "effects", "migrations", "pools", "returned"),
    ("charging", "entries", "held"),
    ("governor",),
    # what is not to be written or shown
    ("secret_rules",),
    ("secret_names",),
    ("secret_values",),
    ("secret_keys", "secret_named", "secret_tables"),
    ("secret_text",),
    ("secret_scan",),
    ("secrets",),
    # orders, and the loop that obeys them
    ("control", "once", "spending", "ticks"),
    ("bill", "local_mail", "meter"),
    ("driver", "runtime", "state"),
    ("ledger",),
    ("alone", "verbs"),
    ("base",),
    # the front door
    ("",),
    # beside the loop, and in other programs
    ("threads",),
    ("process_output", "process_sweep", "reaper"),
    ("process_tree",),
    ("process",),
    # features: nouns and decisions
    ("features.errors", "features.feature", "features.manifest"),
    ("features.policy", "features.selectors"),
    ("features.protocols", "features.record"),
    ("features.risk", "features.texts"),
    ("features.lists",),
    ("features.agreeing", "features.prompts", "features.survey"),
    ("features.planning",),
    ("features.changes", "features.handoff"),
    # features: what is done
    ("features.turn",),
    ("features.aside", "features.handoff_files", "features.health", "features.streaming", "features.validators"),
    ("features.hooks", "features.orders"),
    ("features.attempt", "features.bearings"),
    ("features.parts",),
    ("features.telling",),
    ("features.steps",),
    ("features.leaving",),
    ("features.harness",),
    ("features",),
    # agents
    ("agents.errors", "agents.reading", "agents.scripted"),
    ("agents.dialects", "agents.recorded", "agents.sandbox_mounts", "agents.stream_counts"),
    ("agents.metering",),
    ("agents.sandbox",),
    ("agents.command",),
    ("agents",),
    # governance
    ("governance.errors", "governance.words", "governance.grades", "governance.contract_nouns"),
    ("governance.binding", "governance.contract_fields", "governance.digests", "governance.guardrails"),
    (
        "governance.claiming",
        "governance.completeness",
        "governance.guardrail_tables",
        "governance.contracts",
        "governance.evidence",
    ),
    ("governance.judging", "governance.policy"),
    ("governance.fingerprints", "governance.looping", "governance.standing", "governance.stream_counts", "governance.tally"),
    ("governance.counting", "governance.retry", "governance.watching"),
    ("governance.actions.nouns", "governance.actions.scripts"),
    ("governance.actions.bash", "governance.actions.harmless", "governance.actions.patterns"),
    ("governance.actions.paths", "governance.actions.repository"),
    ("governance.actions.checks",),
    ("governance.actions.findings",),
    ("governance.actions.calls",),
    ("governance.actions",),
    ("governance.commands",),
    ("governance",),
    # governance: what is remembered
    ("governance.memory.errors", "governance.memory.sanitising", "governance.memory.settings", "governance.memory.words"),
    ("governance.memory.episodes", "governance.memory.schema", "governance.memory.signing"),
    ("governance.memory.file", "governance.memory.nouns", "governance.memory.rows"),
    ("governance.memory.contents",),
    ("governance.memory.rendering", "governance.memory.retracting", "governance.memory.scoring", "governance.memory.state"),
    ("governance.memory.compacting", "governance.memory.embedding"),
    ("governance.memory.finding",),
    ("governance.memory.memory",),
    ("governance.memory.recalling",),
    ("governance.memory",),
    # the staged pipeline
    ("pipeline.errors", "pipeline.material", "pipeline.walls"),
    ("pipeline.copies",),
    ("pipeline.ids",),
    ("pipeline.record", "pipeline.seen", "pipeline.stage", "pipeline.stage_checks"),
    ("pipeline.folder", "pipeline.handover", "pipeline.memory", "pipeline.planning", "pipeline.readonly", "pipeline.task"),
    ("pipeline.prompts",),
    ("pipeline.assignments", "pipeline.changes", "pipeline.folder_files", "pipeline.preset", "pipeline.requests"),
    ("pipeline.episodes", "pipeline.looking", "pipeline.orders"),
    ("pipeline.entries",),
    ("pipeline.court",),
    ("pipeline.parts",),
    ("pipeline.work",),
    ("pipeline.telling",),
    ("pipeline.verdicts",),
    ("pipeline.attempts",),
    ("pipeline.deeds",),
    ("pipeline.steps",),
    ("pipeline.harness",),
    ("pipeline",),
    # ready-made harnesses
    ("coding.branches", "coding.candidate", "coding.git", "coding.trees"),
    ("coding.judge", "coding.workspace"),
    ("coding.merging", "coding.workshop"),
    (
        "coding.validators.contrary",
        "coding.validators.equality",
        "coding.validators.examiner",
        "coding.validators.imports",
        "coding.validators.inside",
        "coding.validators.kept",
        "coding.validators.pytest_config",
        "coding.validators.pytest_report",
        "coding.validators.steps",
        "coding.validators.surroundings",
        "coding.validators.test_side",
        "coding.validators.watch",
        "coding.validators.words",
    ),
    ("coding.validators.judged_process", "coding.validators.tells"),
    ("coding.validators.base", "coding.validators.ground", "coding.validators.overlay", "coding.validators.pytest_process"),
    (
        "coding.validators.paths",
        "coding.validators.pytest_sessions",
        "coding.validators.tests_kept",
    ),
    ("coding.validators.command", "coding.validators.pytest_nodes"),
    ("coding.validators.suite_kept",),
    ("coding.validators",),
    ("coding.sources.problems", "coding.sources.protocol"),
    ("coding.sources.entries", "coding.sources.markdown_items", "coding.sources.nodes"),
    ("coding.sources.markdown_marks", "coding.sources.toml_json"),
    ("coding.sources.markdown",),
    ("coding.sources.failing_tests", "coding.sources.files"),
    ("coding.sources",),
    ("trading.bars", "trading.indicators", "trading.numbers"),
    ("trading.orders",),
    ("trading.ccxt_answers",),
    ("trading.ccxt_client",),
    ("coding.python_tests", "trading.averages", "trading.feed", "trading.replay_files", "trading.rsi"),
    ("trading.instruments",),
    ("trading.broker", "trading.paper_rules"),
    ("trading.book", "trading.ccxt_nouns", "trading.paper_books"),
    ("trading.ccxt_broker", "trading.ccxt_feed", "trading.matching", "trading.paper_ledger"),
    ("trading.paper",),
    ("trading.paper_later",),
    ("trading.feed_conformance", "trading.polling_bars", "trading.strategies.market"),
    ("trading.polling_http", "trading.polling_slices", "trading.replay"),
    ("trading.polling", "trading.strategies.cross", "trading.strategies.portfolio", "trading.strategies.rsi"),
    ("trading.strategies", "trading.risk"),
    ("trading.risk_screening",),
    ("trading.account_nouns",),
    ("trading.account", "trading.figures"),
    ("trading.harness_checks", "trading.harness_lookout", "trading.harness_verbs", "trading.report_figures"),
    ("trading.report_chart", "trading.report_text"),
    ("trading.report",),
    ("trading.harness_turn",),
    ("trading.harness_desk",),
    ("trading.harness",),
    ("coding.site",),
    ("coding.tries",),
    ("coding.described_reading", "described", "described.references"),
    ("coding.described_parts", "coding.harness"),
    ("coding.described",),
    ("coding", "trading"),
    ("described.signatures",),
    ("described.features_table", "described.memory_table", "described.programs", "described.trading_table"),
    ("described.pipeline_table",),
)

ORCHESTRATOR = (
    # nouns and decisions
    ("bell", "buckets", "events", "hints", "outcome", "pool", "restart", "signals", "text", "within"),
    ("waiting",),
    ("errors", "supervisor"),
    ("failure", "latch", "lifecycle", "terms"),
    ("system_faults",),
    ("records",),
    # what remembers
    (
        "store.approval_schema",
        "store.approvals",
        "store.budget_schema",
        "store.budgets",
        "store.child_schema",
        "store.messages",
        "store.seal_schema",
        "store.version_schema",
    ),
    ("store.holder", "store.presence"),
    ("store.owner", "store.read_only"),
    ("store.capabilities",),
    ("store.secret",),
    ("store.head", "store.protocol", "store.record_bytes", "store.schema"),
    ("store.schema_shape", "store.sealing"),
    ("store.open_here",),
    ("codec", "store.sqlite_file"),
    ("store.encryption", "store.message_records"),
    ("store.deriving", "store.proof_deep"),
    ("store.approval_desk", "store.budget_books", "store.folding", "store.settling"),
    ("store.sqlite_states", "store.sqlite_versions", "store.versions"),
    ("store.forking",),
    ("store.pruning_plan", "store.pruning_residue"),
    ("store.proof_account", "store.pruning_survey"),
    ("store.lost_note", "store.proof_marks", "store.proof_rows"),
    ("store.proof_pruned",),
    ("store.proof_walk",),
    (
        "store.memory_mail",
        "store.sqlite_approvals",
        "store.sqlite_budgets",
        "store.sqlite_children",
        "store.sqlite_mail",
    ),
    ("store.memory", "store.proof", "store.pruning", "store.sqlite_operations", "store.sqlite_reader"),
    ("store.repair", "store.sqlite"),
    ("store",),
    ("activity", "shown"),
    ("standing",),
    # what runs
    ("declared", "mailbox", "queries", "savings", "shapes", "slot"),
    ("migrating",),
    ("factories",),
    ("children",),
    ("log_target", "redaction"),
    ("output", "recorder"),
    ("approvals", "loop_watch"),
    ("post",),
    ("correspondence",),
    ("actor", "log", "till"),
    ("child",),
    ("handle",),
    ("again",),
    # who watches what runs
    ("telemetry", "control"),
    ("telemetry.aside", "telemetry.counts", "telemetry.span"),
    ("telemetry.figures", "telemetry.otlp", "telemetry.spans"),
    ("telemetry.meter", "telemetry.prometheus", "telemetry.sdk"),
    ("telemetry.pushing", "telemetry.stored", "telemetry.tracing"),
    ("control.address", "control.messages", "control.places"),
    ("control.questions",),
    ("control.api", "control.asking", "control.serving"),
    ("control.beside",),
    ("orchestrator",),
    # what has been
    ("fork", "history.sources"),
    ("history.replaying", "history.states", "history.stillness"),
    ("history.differences", "history.rejudging"),
    ("history.judges",),
    ("history",),
    # the front door
    ("",),
    # what looks: the analysis
    ("analysis.answer", "analysis.duck"),
    ("analysis.sources.cleaning", "analysis.flattening", "analysis.sources.reading", "analysis.sources.survey"),
    ("analysis.sources.bad_lines", "analysis.sources.log", "analysis.sources.parquet", "analysis.sources.store"),
    ("analysis.sources",),
    ("analysis.sources.opening",),
    ("analysis.frames.acts", "analysis.frames.features", "analysis.frames.life", "analysis.frames.standing"),
    ("analysis.frames.equity",),
    ("analysis.frames.trades",),
    ("analysis.frames",),
    ("analysis.run",),
    ("analysis.sql.cells", "analysis.sql.described", "analysis.sql.errors", "analysis.sql.functions", "analysis.sql.room"),
    ("analysis.sql.columns_work", "analysis.sql.judge"),
    ("analysis.sql.columns",),
    ("analysis.sql.walls",),
    ("analysis.sql", "analysis.sql.inside"),
    ("analysis",),
    ("analysis.statistics", "analysis.wording"),
    ("analysis.questions.cells", "analysis.questions.folding", "analysis.questions.gathered"),
    ("analysis.questions.remaining",),
    ("analysis.questions.first_books",),
    ("analysis.questions.coding", "analysis.questions.trading"),
    ("analysis.questions.compare_sides",),
    ("analysis.questions.compare_findings",),
    ("analysis.questions.told", "analysis.questions.why_facts"),
    ("analysis.questions.spans", "analysis.questions.tally", "analysis.questions.why_attempts"),
    ("analysis.questions.standing_out", "analysis.questions.why_steps"),
    ("analysis.questions.why_ends",),
    (
        "analysis.questions.compare",
        "analysis.questions.cost",
        "analysis.questions.failures",
        "analysis.questions.loops",
        "analysis.questions.progress",
        "analysis.questions.restarts",
        "analysis.questions.slow",
        "analysis.questions.summary",
        "analysis.questions.throughput",
        "analysis.questions.timeline",
        "analysis.questions.why",
    ),
    ("analysis.questions",),
    ("analysis.pictures.names", "analysis.pictures.paper", "analysis.pictures.times"),
    ("analysis.pictures.lines", "analysis.pictures.roll", "analysis.pictures.tables"),
    ("analysis.pictures.pace", "analysis.pictures.spells"),
    (
        "analysis.pictures.cost",
        "analysis.pictures.equity",
        "analysis.pictures.failures",
        "analysis.pictures.latency",
        "analysis.pictures.progress",
        "analysis.pictures.restarts",
        "analysis.pictures.shares",
        "analysis.pictures.throughput",
        "analysis.pictures.timeline",
    ),
    ("analysis.pictures.comparison",),
    ("analysis.pictures",),
    ("analysis.report",),
    # for the tests of users
    ("store.conformance.tools", "testing"),
    (
        "store.conformance.approvals",
        "store.conformance.budgets",
        "store.conformance.children",
        "store.conformance.commits",
        "store.conformance.effects",
        "store.conformance.forks",
        "store.conformance.messages",
        "store.conformance.operators",
    ),
    (
        "store.conformance.capabilities",
        "store.conformance.ownership",
        "store.conformance.runs",
        "store.conformance.steps",
        "store.conformance.versions",
    ),
    ("store.conformance",),
    # the command
    ("command",),
    ("command.exits", "command.ready_made", "command.streams"),
    ("command.groups",),
    ("command.lines", "command.loading", "command.parsing", "command.progress", "command.runfile", "command.writing"),
    ("command.targets",),
    (
        "command.approvals",
        "command.budgets",
        "command.contract",
        "command.controlling",
        "command.effects",
        "command.guard",
        "command.latching",
        "command.memories",
        "command.notices",
        "command.pages",
        "command.posting",
        "command.report",
        "command.tail",
    ),
    (
        "command.questions",
        "command.memory_verbs",
        "command.operating",
        "command.verify",
        "command.watchdog",
        "command.watchdog_process",
    ),
    ("command.doctor_nouns",),
    ("command.doctor_file", "command.doctor_machine", "command.doctor_store", "command.doctor_work"),
    ("command.doctor_repair",),
    ("command.doctor",),
    ("command.task_limits",),
    ("command.verbs", "command.display", "command.run_folder", "command.making", "command.script"),
    ("command.export_sheets",),
    ("command.export_formats",),
    ("command.export", "command.export_parts", "command.prune", "command.tracing"),
    ("command.keeping",),
    ("command.checking", "command.doctor_probe", "command.running", "command.tables", "command.watch"),
    ("command.analyze_page", "command.rejudging"),
    ("command.analyze",),
    ("command.history",),
    ("command.sql_examples", "command.sql_history", "command.sql_splitting"),
    ("command.sql_lines",),
    ("command.sql_prompt",),
    ("command.sql",),
    ("cli", "verify_alone"),
    ("__main__",),
)
"""The floors of each package, from the ground up. A module imports from the floors below its own, and from nowhere else."""

PURE = (
    "harnesses.coding.sources.entries",
    "harnesses.coding.sources.markdown",
    "harnesses.coding.sources.markdown_items",
    "harnesses.coding.sources.markdown_marks",
    "harnesses.coding.sources.nodes",
    "harnesses.coding.sources.problems",
    "harnesses.coding.sources.toml_json",
    "harnesses.agent",
    "harnesses.charging",
    "harnesses.choices",
    "harnesses.held",
    "harnesses.usage",
    "harnesses.budget",
    "harnesses.config",
    "harnesses.control_characters",
    "harnesses.coding.branches",
    "harnesses.coding.validators.steps",
    "harnesses.approval",
    "harnesses.attachments",
    "harnesses.delta",
    "harnesses.record_size",
    "harnesses.effects",
    "harnesses.entries",
    "harnesses.moment",
    "harnesses.errors",
    "harnesses.governance.actions.nouns",
    "harnesses.governance.actions.scripts",
    "harnesses.governance.claiming",
    "harnesses.governance.contract_fields",
    "harnesses.governance.contract_nouns",
    "harnesses.governance.contracts",
    "harnesses.governance.digests",
    "harnesses.governance.errors",
    "harnesses.governance.fingerprints",
    "harnesses.governance.grades",
    "harnesses.governance.guardrail_tables",
    "harnesses.governance.guardrails",
    "harnesses.governance.judging",
    "harnesses.governance.memory.episodes",
    "harnesses.governance.memory.errors",
    "harnesses.governance.memory.nouns",
    "harnesses.governance.memory.rendering",
    "harnesses.governance.memory.sanitising",
    "harnesses.governance.memory.schema",
    "harnesses.governance.memory.scoring",
    "harnesses.governance.memory.settings",
    "harnesses.governance.memory.words",
    "harnesses.governance.looping",
    "harnesses.governance.retry",
    "harnesses.governance.standing",
    "harnesses.governance.words",
    "harnesses.governor",
    "harnesses.features.agreeing",
    "harnesses.features.changes",
    "harnesses.features.errors",
    "harnesses.features.feature",
    "harnesses.features.handoff",
    "harnesses.features.lists",
    "harnesses.features.manifest",
    "harnesses.features.planning",
    "harnesses.features.policy",
    "harnesses.features.prompts",
    "harnesses.features.record",
    "harnesses.features.risk",
    "harnesses.features.selectors",
    "harnesses.features.survey",
    "harnesses.features.texts",
    "harnesses.pipeline.errors",
    "harnesses.pipeline.ids",
    "harnesses.pipeline.material",
    "harnesses.pipeline.stage",
    "harnesses.pipeline.stage_checks",
    "harnesses.pipeline.task",
    "harnesses.pipeline.preset",
    "harnesses.returned",
    "harnesses.pools",
    "harnesses.schedule",
    "harnesses.secret_keys",
    "harnesses.secret_named",
    "harnesses.secret_names",
    "harnesses.secret_rules",
    "harnesses.secret_scan",
    "harnesses.secret_tables",
    "harnesses.secret_text",
    "harnesses.secret_values",
    "harnesses.secrets",
    "harnesses.step",
    "harnesses.trading.ccxt_answers",
    "harnesses.trading.ccxt_nouns",
    "harnesses.trading.averages",
    "harnesses.trading.bars",
    "harnesses.trading.book",
    "harnesses.trading.broker",
    "harnesses.trading.indicators",
    "harnesses.trading.instruments",
    "harnesses.trading.matching",
    "harnesses.trading.numbers",
    "harnesses.trading.orders",
    "harnesses.trading.paper_books",
    "harnesses.trading.paper_rules",
    "harnesses.trading.rsi",
    "harnesses.trading.strategies.cross",
    "harnesses.trading.strategies.market",
    "harnesses.trading.strategies.portfolio",
    "harnesses.trading.strategies.rsi",
    "harnesses.values",
    "orchestrator.activity",
    "orchestrator.analysis.sql.cells",
    "orchestrator.analysis.sql.described",
    "orchestrator.analysis.sql.errors",
    "orchestrator.analysis.sql.functions",
    "orchestrator.analysis.sql.judge",
    "orchestrator.errors",
    "orchestrator.events",
    "orchestrator.lifecycle",
    "orchestrator.outcome",
    "orchestrator.pool",
    "orchestrator.records",
    "orchestrator.restart",
    "orchestrator.store.approval_schema",
    "orchestrator.store.approvals",
    "orchestrator.store.budget_schema",
    "orchestrator.store.budgets",
    "orchestrator.store.child_schema",
    "orchestrator.store.messages",
    "orchestrator.store.protocol",
    "orchestrator.store.schema",
    "orchestrator.store.seal_schema",
    "orchestrator.store.version_schema",
    "orchestrator.supervisor",
    "orchestrator.terms",
    "orchestrator.text",
)
"""Functions of their arguments: no Trio, no input or output, no clock, no chance."""

PURE_IMPORTS = (
    frozenset(
        {
            "__future__",
            "abc",
            "array",
            "ast",
            "attrs",
            "bisect",
            "collections",
            "dataclasses",
            "datetime",
            "decimal",
            "difflib",
        }
    )
    | frozenset({"enum", "functools", "graphlib", "hashlib", "hmac", "itertools", "json", "math", "msgspec", "operator", "re"})
    | frozenset({"bisect", "importlib"})
    | frozenset({"tomllib", "types", "typing", "unicodedata", "uuid"})
)
IMPURE_CALLS = frozenset({"now", "utcnow", "today", "open", "print", "input", "uuid1", "uuid4", "urandom", "getenv"})

CORE_THIRD_PARTY = frozenset({"attrs", "msgspec", "outcome", "structlog", "trio"})
OPTIONAL_THIRD_PARTY = frozenset(
    {
        "cryptography",
        "duckdb",
        "duckdb_ext",
        "h11",
        "opentelemetry",
        "pandas",
        "polars",
        "prometheus_client",
        "pyarrow",
        "rich",
        "tree_sitter",
        "tree_sitter_bash",
        "vl_convert",
    }
)


def _sources() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for package in ("harnesses", "orchestrator"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


SOURCES = _sources()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}


def _floors() -> dict[str, int]:
    """Return the floor of every placed module; all of `orchestrator` is above all of `harnesses`."""
    floors: dict[str, int] = {}
    for package, storeys in (("harnesses", HARNESSES), ("orchestrator", ORCHESTRATOR)):
        base = len(HARNESSES) if package == "orchestrator" else 0
        for floor, names in enumerate(storeys):
            floors.update({f"{package}.{name}".rstrip("."): base + floor for name in names})
    return floors


FLOORS = _floors()


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they point"
            module = node.module or ""
            for alias in node.names:
                yield f"{module}.{alias.name}" if f"{module}.{alias.name}" in SOURCES else module


@cache
def _ours(name: str) -> set[str]:
    return {other for other in _imported(TREES[name]) if other in SOURCES}


def _tops(name: str) -> set[str]:
    return {module.split(".")[0] for module in _imported(TREES[name])}


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _third_party(tree: ast.AST) -> set[str]:
    tops = {module.split(".")[0] for module in _imported(tree)}
    return tops - sys.stdlib_module_names - {"harnesses", "orchestrator"}


def test_every_module_has_a_place() -> None:
    assert set(SOURCES) <= set(FLOORS), "modules without a place: give them one in tests/test_layers.py"


def test_a_module_imports_only_from_below() -> None:
    upward = {name: above for name in SOURCES if (above := {other for other in _ours(name) if FLOORS[other] >= FLOORS[name]})}

    assert upward == {}


def test_what_a_harness_is_knows_nothing_of_who_runs_it() -> None:
    knowing = {name for name in SOURCES if name.split(".")[0] == "harnesses" and "orchestrator" in _tops(name)}

    assert knowing == set()


def test_no_modules_import_each_other_in_a_ring() -> None:
    done: set[str] = set()
    while ready := {name for name in SOURCES if name not in done and _ours(name) <= done}:
        done |= ready

    assert done == set(SOURCES)


def test_a_pure_module_imports_only_what_is_pure() -> None:
    ours = {name: _ours(name) - set(PURE) for name in PURE}
    others = {name: _tops(name) - {"harnesses", "orchestrator"} - PURE_IMPORTS for name in PURE}

    assert {name: found for name, found in ours.items() if found} == {}
    assert {name: found for name, found in others.items() if found} == {}


def test_a_pure_module_asks_neither_the_clock_nor_the_world() -> None:
    calls = {name: {_called(node) for node in ast.walk(TREES[name]) if isinstance(node, ast.Call)} for name in PURE}

    assert {name: found & IMPURE_CALLS for name, found in calls.items() if found & IMPURE_CALLS} == {}


def test_only_the_declared_packages_are_needed() -> None:
    lazy = {
        name: {package for node in ast.walk(tree) if _is_lazy(node) for package in _third_party(node)}
        for name, tree in TREES.items()
    }
    outside = {name: _third_party(tree) - (lazy[name] & OPTIONAL_THIRD_PARTY) for name, tree in TREES.items()}
    at_once = {name: {package for node in tree.body for package in _direct(node)} for name, tree in TREES.items()}

    assert {name: found for name, found in lazy.items() if not found <= CORE_THIRD_PARTY | OPTIONAL_THIRD_PARTY} == {}
    assert {name: found for name, found in outside.items() if not found <= CORE_THIRD_PARTY} == {}
    assert {name: found for name, found in at_once.items() if found & OPTIONAL_THIRD_PARTY} == {}


def _is_lazy(node: ast.AST) -> bool:
    """Return whether what is imported in it is not imported with the module: a function, or for the type checker alone."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _direct(node: ast.stmt) -> set[str]:
    """Return the other people's packages that a statement at the top of a module imports."""
    return _third_party(node) if isinstance(node, ast.Import | ast.ImportFrom) else set()
