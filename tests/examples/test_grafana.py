"""The dashboard for Grafana and the rules for Prometheus ask only for what a program really serves."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from harnesses import Agent, Usage
from harnesses.budgets.budget import Budget
from orchestrator import OrchestratorError
from tests import ROOT
from tests.orchestrator.control.asked import ask, controlled
from tests.orchestrator.operated import Unsure
from tests.orchestrator.scripted import Scripted, Steps
from tests.orchestrator.telemetry.recorded import busy

DASHBOARD: dict[str, Any] = json.loads((ROOT / "examples/grafana/orchestrator.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel.get("targets", ())]
yaml: Any = pytest.importorskip("yaml")  # comes with mkdocs
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((ROOT / "examples/prometheus/orchestrator.rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
KNOWN_PANELS = {"row", "stat", "timeseries", "table", "bargauge"}
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds itself."""


def expression(target: dict[str, Any]) -> str:
    """Return what Grafana asks Prometheus, with its own variables filled in."""
    return str(target["expr"]).replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$harness", ".*")


def selectors(node: Any) -> Iterator[Any]:
    """Yield every vector that an expression names."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    below = [getattr(node, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    for child in (*below, *(getattr(node, "args", None) or ())):
        if child is not None:
            yield from selectors(child)


class Halted(Scripted):
    """Asks its agent, and waits without doing its work."""

    halted = "the venue is closed"
    gauges = {"equity": 10.0}  # noqa: RUF012


async def asks(harness: Scripted) -> Steps:
    async def work(run: Any) -> str:
        run.charge(Usage(input_tokens=900, output_tokens=40))
        return "done"

    yield 1, await harness.run_agent(Agent(work, reports=["tokens"]), "work")
    await trio.sleep_forever()


@pytest.fixture
async def served(tmp_path: Path) -> dict[str, set[str]]:
    """The names of the numbers that a program serves, and the labels that each has."""
    labels: dict[str, set[str]] = defaultdict(set)
    try:
        async with controlled(tmp_path / "run.db", budget=Budget(steps=100)) as orchestrator:
            orchestrator.start(Scripted(busy), name="a")
            await orchestrator.start(Unsure(0), name="unsure").wait()
            halted = orchestrator.start(Halted(asks), name="halted")
            await orchestrator.handles[0].wait()
            async for _ in halted.steps():
                break
            said = await ask(orchestrator.beside.control_path, "GET", "/metrics")
            halted.stop(0)
    except* OrchestratorError:
        pass
    for family in text_string_to_metric_families(said.body.decode()):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    return labels


async def test_every_expression_names_only_what_is_served(served: dict[str, set[str]]) -> None:
    for title, target in TARGETS:
        named = list(selectors(promql_parser.parse(expression(target))))

        assert named, title
        for vector in named:
            matched = {matcher.name for matcher in vector.matchers.matchers}
            assert vector.name in served, f"{title}: {vector.name} is not served"
            assert matched <= served[vector.name] | OF_PROMETHEUS, f"{title}: {vector.name} has no such label"


async def test_every_rule_names_only_what_is_served_and_tells_only_labels_that_it_keeps(served: dict[str, set[str]]) -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        named = list(selectors(promql_parser.parse(rule["expr"])))

        assert named, rule["alert"]
        for vector in named:
            matched = {matcher.name for matcher in vector.matchers.matchers}
            assert vector.name in {*served, "up"}, f"{rule['alert']}: {vector.name} is not served"
            assert matched <= served.get(vector.name, set()) | OF_PROMETHEUS, rule["alert"]
        kept = {name for by in re.findall(r"by \(([^)]*)\)", rule["expr"]) for name in by.split(", ")} or OF_PROMETHEUS
        said = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", said)) <= kept, rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")


async def test_what_is_served_is_looked_at(served: dict[str, set[str]]) -> None:
    """What nobody looks at is not worth serving; the rest is for alerts and the words of others."""
    shown = {vector.name for _, target in TARGETS for vector in selectors(promql_parser.parse(expression(target)))}
    beside = {
        "orchestrator_info",
        "orchestrator_ends_total",
        "orchestrator_effects_begun_total",
        "orchestrator_messages_total",
    }
    parts = ("_bucket", "_sum", "_count")

    unseen = {name for name in served if not name.endswith(parts) and not name.endswith("_created")} - shown - beside

    assert unseen == set()


def test_every_panel_has_a_place_of_its_own_and_a_source() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}

        assert panel["type"] in KNOWN_PANELS
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert {target["datasource"]["uid"] for _, target in TARGETS} == {"${datasource}"}


def test_the_queries_of_a_panel_are_told_apart_and_its_variables_are_there() -> None:
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}

    assert variables == {"datasource", "instance", "harness"}
    for panel in PANELS:
        letters = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(letters)) == len(letters)
    assert DASHBOARD["uid"] == "durable-harnesses"
    assert "id" not in DASHBOARD, "one that has an id replaces another dashboard when it is loaded"


def test_what_each_worker_tells_of_the_whole_store_is_counted_once() -> None:
    of_store = re.compile(r"orchestrator_(?:approvals_waiting|messages_waiting|effects_unknown|budget_\w+)")
    asked = [str(target["expr"]) for _, target in TARGETS] + [rule["expr"] for rule in RULES]
    before = [text[: match.start()] for text in asked for match in of_store.finditer(text)]

    assert len(before) > 8
    assert [text[-80:] for text in before if not re.search(r"max by \([a-z, ]+\) \($", text)] == []
