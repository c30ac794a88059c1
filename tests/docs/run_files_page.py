"""The keys of a run file as tables of the page about run files."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from harnesses.budgets.budget import Budget
from harnesses.config import HarnessConfig
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.run_file_harnesses import coding_table, features_table, memory_table, pipeline_table, trading_table
from orchestrator.alerts.alert_rules import AlertTable, PingTable
from orchestrator.cli.run import run_file as runfile
from orchestrator.cli.run.ready_made import READY_MADE
from orchestrator.cli.run.supervisor_tables import PoolTable, SupervisorTable
from orchestrator.restart import Backoff
from tests import ROOT
from tests.docs.run_file_keys import KeyDoc, described
from tests.docs.tables import rows

PAGE = ROOT / "docs" / "reference" / "run-file.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"


def _fields(cls: type) -> tuple[str, ...]:
    return tuple(one.name for one in attrs.fields(cls))


def _without_own(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a word without those that belong to `[[harness]]`."""
    return tuple(name for name in names if name not in ("max_context_steps", "constraints"))


KEYS: Mapping[str, tuple[str, ...]] = {
    "the file": (*_fields(runfile._Top), *runfile.ALSO[runfile._Top]),
    "backoff": _fields(Backoff),
    "[[harness]]": (*_fields(HarnessConfig), *runfile.ALSO[HarnessConfig]),
    "[[supervisor]]": (*_fields(SupervisorTable), "budget"),
    "[[pool]]": (*_fields(PoolTable), *_fields(Budget)),
    "[[alert]]": _fields(AlertTable),
    "ping": _fields(PingTable),
    "budget": _fields(Budget),
    "guardrails": _fields(Guardrails),
    **memory_table.KEYS,
    **{key: _without_own(names) for key, names in trading_table.KEYS.items()},
    **{key: _without_own(names) for key, names in features_table.KEYS.items()},
    **{key: _without_own(names) for key, names in coding_table.KEYS.items()},
    **{key: _without_own(names) for key, names in pipeline_table.KEYS.items()},
}
TITLES = {"the file": "At the top of the file"}
assert set(READY_MADE) <= set(KEYS)


def tables() -> str:
    """Return the part of the page that is generated."""
    parts = [BEGIN]
    for where, keys in KEYS.items():
        table = rows(("key", "type", "default", "meaning"), (_row(described(where, key)) for key in keys))
        parts += [f"\n### {TITLES.get(where, f'`{where}`')}\n\n", *(f"{line}\n" for line in table)]
    return "".join([*parts, "\n", END])


def _row(key: KeyDoc) -> tuple[str, ...]:
    meaning = key.meaning[:1].upper() + key.meaning[1:]
    return f"`{key.name}`", key.type, f"`{key.default}`" if key.default else "", meaning


def page() -> str:
    """Return the page with the tables as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    return text[: text.index(BEGIN)] + tables() + text[text.index(END) + len(END) :]
