"""Every key of a run file with its type, default and meaning, from the classes and functions that take it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from attrs import frozen

from harnesses.budgets.budget import Budget
from harnesses.coding import CodingHarness, PullRequest
from harnesses.config import HarnessConfig
from harnesses.features import FailFast, FeatureHarness, RunPolicy
from harnesses.governance import EvidencePolicy
from harnesses.governance.limits.guardrails import Guardrails
from harnesses.memory import MemorySettings
from harnesses.pipeline import Deed, PipelineHarness, Stage, Task
from harnesses.run_file_harnesses.trading_table import STRATEGIES, Allotment
from harnesses.trading import (
    CcxtBroker,
    CcxtFeed,
    CcxtOptions,
    Fees,
    Instrument,
    Limits,
    Margin,
    PaperBroker,
    PollingFeed,
    ReplayFeed,
    TradingHarness,
)
from orchestrator import Backoff, Orchestrator
from orchestrator.alerts.alert_rules import AlertTable, PingTable
from orchestrator.cli.run import run_file
from orchestrator.cli.run.supervisor_tables import PoolTable, SupervisorTable
from tests.docs.field_docs import fields_of
from tests.docs.run_file_meanings import MEANINGS

MAKERS: Mapping[str, tuple[Callable[..., object], ...]] = {
    "the file": (run_file._Top, Orchestrator),
    "backoff": (Backoff,),
    "[[harness]]": (HarnessConfig, Orchestrator.start),
    "[[supervisor]]": (SupervisorTable, Orchestrator.supervisor),
    "[[pool]]": (PoolTable, Budget),
    "[[alert]]": (AlertTable,),
    "ping": (PingTable,),
    "budget": (Budget,),
    "guardrails": (Guardrails,),
    "memory": (MemorySettings,),
    "trading": (TradingHarness,),
    "trading.account": (Allotment,),
    "trading.feed with files": (ReplayFeed.read, ReplayFeed),
    "trading.feed with request": (PollingFeed,),
    "trading.feed with exchange": (CcxtFeed,),
    "trading.broker with paper": (PaperBroker,),
    "trading fees": (Fees,),
    "trading margin": (Margin,),
    "trading instruments.SYMBOL": (Instrument,),
    "trading.broker with exchange": (CcxtBroker,),
    "trading exchange options": (CcxtOptions,),
    "trading.limits": (Limits,),
    **{f"trading.strategy {name}": (make,) for name, make in STRATEGIES.items()},
    "features": (FeatureHarness,),
    "features.policy": (RunPolicy,),
    "features.policy.fail_fast": (FailFast,),
    "coding": (CodingHarness, FeatureHarness),
    "coding.into": (PullRequest,),
    "pipeline": (PipelineHarness,),
    "pipeline.stages": (Stage,),
    "pipeline.tasks": (Task,),
    "pipeline.deeds": (Deed,),
    "pipeline.evidence_policy": (EvidencePolicy,),
}
_EMPTY = ("None", "()", "[]", "{}", "''", "mappingproxy({})")
_TYPES = (
    (r"\bbool\b", "boolean"),
    (r"\bint\b", "integer"),
    (r"\b(float|_Seconds)\b", "number"),
    (r"\bDecimal\b", "number or text"),
    (r"\b(str|Path|datetime|timedelta|TaskId|StageId)\b", "text"),
)


@frozen
class KeyDoc:
    """One key."""

    name: str
    type: str
    default: str
    meaning: str


def described(where: str, name: str) -> KeyDoc:
    """Return what is known of one key of a table."""
    found: dict[str, str] = {}
    for make in MAKERS[where]:
        for field, text in _facts(make).get(name, {}).items():
            found.setdefault(field, text)
    given = MEANINGS.get(f"{where}.{name}", MEANINGS.get(name, ()))
    for field, text in zip(("meaning", "type", "default"), given, strict=False):
        found[field] = text
    return KeyDoc(name, found.get("type", "table"), found.get("default", ""), found.get("meaning", ""))


def _facts(make: Callable[..., object]) -> dict[str, dict[str, str]]:
    """Return type, default and meaning of each parameter, as far as code and docstrings say them."""
    facts: dict[str, dict[str, str]] = {}
    for name, parameter in inspect.signature(make).parameters.items():
        facts[name] = {"type": _toml(str(parameter.annotation))}
        if parameter.default is not inspect.Parameter.empty and not isinstance(parameter.default, attrs.Attribute):
            facts[name]["default"] = _shown(parameter.default)
    if isinstance(make, type) and attrs.has(make):
        for one in fields_of(make):
            facts.setdefault(one.name, {"type": _toml(one.type)})
            plain = "" if one.default in _EMPTY or "(" in one.default else one.default.strip("'")
            facts[one.name]["default"] = {"True": "true", "False": "false"}.get(plain, plain)
            facts[one.name]["meaning"] = one.meaning
    for name, meaning in _arguments_in(make).items():
        facts.setdefault(name, {})["meaning"] = meaning
    return {name: {key: text for key, text in fact.items() if text or key == "default"} for name, fact in facts.items()}


def _shown(value: Any) -> str:
    text = str(getattr(value, "value", value)) if not callable(value) else ""
    plain = "" if text in ("None", "{}", "NOTHING") or "(" in text else text
    return {"True": "true", "False": "false"}.get(plain, plain)


def _toml(annotation: str) -> str:
    """Return what an annotation is in TOML."""
    text = re.sub(r"\s*\|\s*None\b", "", annotation)
    if "Annotated[" in text:
        text = text.partition("Annotated[")[2].partition(",")[0]
    if text.startswith("Literal["):
        return "text"
    if re.search(r"\b(Mapping|dict)\b", text):
        return "table"
    if re.search(r"\b(Sequence|list|tuple|Iterable|Collection)\b", text):
        return "array"
    kinds = [word for pattern, word in _TYPES if re.search(pattern, text)]
    enums = {
        "Strategy",
        "Restart",
        "RunMode",
        "OnExhausted",
        "Mode",
        "Grade",
        "RiskState",
        "Retrieval",
        "WritePolicy",
        "Category",
    }
    return " or ".join(dict.fromkeys(" or ".join(kinds).split(" or "))) if kinds else ("text" if text in enums else "table")


def _arguments_in(make: Callable[..., object]) -> dict[str, str]:
    """Return what the section `Args` of a docstring says of each argument."""
    text = inspect.getdoc(make) or ""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)*)", text, flags=re.MULTILINE)
    found: dict[str, str] = {}
    for match in re.finditer(r"^    (\w+): ((?:.*\n?)(?:^        .*\n?)*)", section[1] if section else "", flags=re.MULTILINE):
        found[match[1]] = re.sub(r"\s+", " ", match[2]).strip()
    return found
