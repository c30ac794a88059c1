"""The rules for collectors hold for a line of every kind, and give each field one type."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime
from typing import Any, cast

import pytest

from tests import ROOT
from tests.docs.log_page import KINDS, RUN, SAMPLES

PAGE = ROOT / "docs" / "how-to" / "log-collectors.md"
RULES: dict[str, str] = {
    name: rule
    for rule in re.findall(r"^```jq\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for name in re.findall(r"^# (\w+)$", rule, re.MULTILINE)
}
LINES = [path.read_text(encoding="utf-8") for path in (RUN, SAMPLES)]
JQ = shutil.which("jq")


def mapped(name: str) -> list[dict[str, Any]]:
    """Return what a rule makes of the lines."""
    assert JQ is not None
    made = subprocess.run([JQ, "-c", RULES[name]], input="".join(LINES), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in made.stdout.splitlines()]


def types(value: Any, path: str = "") -> set[tuple[str, str]]:
    """Return the fields of nested objects, each with its JSON type; numbers are of one."""
    if isinstance(value, dict):
        return {pair for name, part in cast("dict[str, Any]", value).items() for pair in types(part, f"{path}.{name}")}
    if value is None:
        return set()
    return {(path, "number" if type(value) in (int, float) else type(value).__name__)}


@pytest.mark.skipif(JQ is None, reason="jq is not installed")
@pytest.mark.parametrize("name", ["vector", "datadog", "elastic"])
def test_each_field_has_one_type_after_a_rule(name: str) -> None:
    found = mapped(name)
    seen = {pair for fields in found for pair in types(fields)}

    assert len(found) == sum(text.count("\n") for text in LINES)
    assert sorted({path for path, _ in seen}) == sorted(path for path, _ in seen)


@pytest.mark.skipif(JQ is None, reason="jq is not installed")
def test_the_rules_keep_time_level_sentence_and_place() -> None:
    lines = [json.loads(line) for text in LINES for line in text.splitlines()]
    assert {line["event"].removeprefix("harness.") for line in lines} == set(KINDS)
    for line, loki, vector, datadog, elastic in zip(lines, *map(mapped, RULES), strict=True):
        ((ns, text, more),) = loki["values"]
        stamp = datetime.fromisoformat(line["timestamp"])
        assert int(ns) == round(stamp.timestamp() * 1e6) * 1000
        assert (json.loads(text), more["seq"]) == (line, str(line["seq"]))
        assert (loki["stream"]["level"], datadog["status"], elastic["log"]["level"]) == (line["level"],) * 3
        assert (vector["message"], datadog["message"], elastic["message"]) == (line["message"],) * 3
        assert (datadog["orchestrator"]["attempt"], elastic["orchestrator"]["step"]) == (line["attempt"], line["step"])
        assert (elastic["error"] is None) == (line["level"] != "error")
