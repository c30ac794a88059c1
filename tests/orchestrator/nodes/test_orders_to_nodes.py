"""Orders and questions reach a harness on whatever node it runs, through the store alone, and are carried out at most once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import main
from orchestrator.store.postgres import postgres_order_table
from tests.orchestrator.nodes import node_processes
from tests.orchestrator.nodes.node_processes import Nodes, wait_until

Captured = pytest.CaptureFixture[str]


class Operator:
    """Gives orders by the command, on a machine on which no node runs."""

    def __init__(self, nodes: Nodes, captured: Captured) -> None:
        self.nodes = nodes
        self._captured = captured

    def order(self, *words: str, code: int = 0) -> Any:
        """Give an order; return what it prints with --json, or stderr if it fails."""
        assert main([*words, "--json", "--store", self.nodes.url]) == code, self._captured.readouterr()
        out, err = self._captured.readouterr()
        return err if code else json.loads(out)

    def status(self, name: str) -> str:
        return next(one.status.value for one in self.nodes.store.harnesses() if one.name == name)


@pytest.fixture
def operator(nodes: Nodes, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operator:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Operator(nodes, capsys)


def test_orders_and_questions_reach_the_node_that_runs_a_harness(nodes: Nodes, operator: Operator) -> None:
    pids = {nodes.start(name, "answering").pid for name in "ab"}
    nodes.wait_for({"a": 1, "b": 1})
    nodes.wait_for_steps(3, "ticks")

    asked = operator.order("ask", "answers", '"who"')
    assert asked["asked"] == "who"
    assert asked["pid"] in pids
    assert operator.order("query", "answers", "twice", "21") == 42
    operator.order("send", "ticks", '"hello"')
    assert operator.order("pause", "ticks")["done"]
    wait_until(lambda: operator.status("ticks") == "paused", "ticks pauses")
    assert operator.order("resume", "ticks")["status"] == "running"
    assert operator.order("limits", "set", "ticks", "step_timeout_s=30", "--by", "ann")["limits"]["step_timeout_s"] == 30
    restarted = operator.order("restart", "ticks")
    assert (restarted["status"], restarted["changed"]) == ("running", True)
    assert "'none'" in operator.order("query", "answers", "none", code=2)
    stopped = operator.order("stop", "ticks")
    assert (stopped["status"], stopped["changed"]) == ("stopped", True)
    assert operator.order("start", "ticks")["status"] == "running"


def test_a_stopped_harness_whose_node_has_ended_is_started_by_another(nodes: Nodes, operator: Operator) -> None:
    first = nodes.start("a", "answering")
    nodes.wait_for({"a": 2})
    nodes.wait_for_steps(3, "ticks")
    assert operator.order("stop", "ticks")["status"] == "stopped"
    nodes.start("b", "answering")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    nodes.wait_for({"b": 1})

    started = operator.order("start", "ticks")
    assert (started["status"], started["changed"], started["attempt"]) == ("running", True, 2)
    nodes.wait_for({"b": 2})
    nodes.wait_for_steps(3, "ticks")


def test_an_order_that_nobody_took_in_time_is_withdrawn(
    nodes: Nodes, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_order_table, "_TAKE_S", 0.5)
    monkeypatch.setattr(node_processes, "LEASE_S", 30.0)
    node = nodes.start("a", "answering")
    nodes.wait_for({"a": 2})
    nodes.wait_for_steps(3, "ticks")

    node.send_signal(signal.SIGSTOP)
    try:
        said = operator.order("pause", "ticks", code=1)
    finally:
        node.send_signal(signal.SIGCONT)
    assert "'ticks' did not get the order to pause, which is withdrawn" in said
    assert "of node a, whose lease was renewed" in said
    nodes.wait_for_steps(3, "ticks")
    assert operator.status("ticks") == "running"
