"""Model agents in run files: what a table makes, how mistakes are told, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesses.agents import ModelAgent
from harnesses.run_file_harnesses.coding_parts import read_agent
from harnesses.run_file_harnesses.model_agent_table import missing_parts
from harnesses.run_file_harnesses.table_arguments import TableProblems

URL = "http://127.0.0.1:1/v1"


def read(table: object, beside: Path = Path()) -> tuple[Any, list[str]]:
    problems = TableProblems("run file", beside=beside)
    agent = read_agent(table, "agent", problems)
    return agent, [str(problem) for problem in problems.found]


def test_a_table_makes_a_model_agent(tmp_path: Path) -> None:
    agent, problems = read(
        {
            "model": "openai-chat:small",
            "base_url": URL,
            "tools": ["coding"],
            "mcp": [{"command": ["mcp-server-git"]}],
            "policy": {"deny": ["run(rm*)"], "otherwise": "ask"},
            "fallback": ["openai-chat:other"],
            "options": {"temperature": 0.2, "stop": ["END"]},
            "chat": {"compact_at": 0.7},
            "budget": {"tokens": 10_000},
            "cassette": "turn.jsonl",
            "max_rounds": 9,
            "system": "Be brief.",
        },
        tmp_path,
    )

    assert problems == []
    assert isinstance(agent, ModelAgent)
    assert [model for _, model in agent.client.models] == ["small", "other"]


def test_all_mistakes_are_told_together_with_what_was_meant() -> None:
    agent, problems = read(
        {"model": "opnai:gpt-5", "toolz": [], "tools": ["codign"], "policy": {"denny": []}, "max_rounds": "many", "mcp": [{}]}
        | {"max_tokens": 9, "deny": []}
    )

    assert agent is None
    told = "\n".join(problems)
    for part in (
        "'opnai'",
        "unknown key 'toolz'",
        "did you mean",
        "'codign'",
        "unknown key 'denny'",
        "max_rounds",
        "mcp 1",
        "write options = { max_tokens",
        "write policy = { deny",
    ):
        assert part in told, (part, told)


def test_a_missing_key_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    table = {"agent": {"model": "anthropic:claude-sonnet-4-5"}}

    (told,) = missing_parts(table)

    assert "ANTHROPIC_API_KEY" in told
    assert "agent: model 'anthropic:claude-sonnet-4-5' has no key" in told
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    assert list(missing_parts(table)) == []


@pytest.mark.parametrize(
    ("mode", "advice"), [(0o644, "is not private: expected mode 0600, got 0644; run `chmod 600"), (None, "cannot be read")]
)
def test_a_key_file_that_cannot_be_used_is_told_with_its_reason(tmp_path: Path, mode: int | None, advice: str) -> None:
    key = tmp_path / "key"
    if mode is not None:
        key.write_text("sk-ant-0123456789abcdef")
        key.chmod(mode)

    (told,) = missing_parts({"agent": {"model": "anthropic:claude-sonnet-5", "key_file": str(key)}})

    assert f"has no key: key file {key} {advice}" in told


def test_a_recorded_agent_and_one_on_this_machine_need_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    assert list(missing_parts({"agent": {"model": "anthropic:claude-sonnet-4-5", "cassette": "a.jsonl"}})) == []
    assert list(missing_parts({"agents": {"*": [{"model": "openai-chat:small", "base_url": URL}]}})) == []


def test_a_cassette_may_be_a_table_with_its_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")

    def cassette_of(mode: str) -> str:
        table = {"model": "anthropic:claude-sonnet-5", "cassette": {"path": "a.jsonl", "mode": mode, "live": ["run"]}}
        agent, problems = read(table, tmp_path)
        assert problems == []
        assert isinstance(agent, ModelAgent)
        return agent.client.models[0][0].account

    assert cassette_of("replay") == f"cassette {tmp_path / 'a.jsonl'}"
    assert cassette_of("record").startswith("https://api.anthropic.com ")
    assert cassette_of("auto").startswith("https://api.anthropic.com ")
    _, problems = read({"model": "anthropic:x", "cassette": {"path": "a.jsonl", "mode": "rewind"}}, tmp_path)
    assert "expected one of replay, record, auto, got 'rewind'" in "\n".join(problems)


def test_a_cassette_that_records_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    def missing(mode: str) -> list[str]:
        return list(missing_parts({"agent": {"model": "anthropic:x", "cassette": {"path": "a", "mode": mode}}}))

    assert missing("replay") == missing("auto") == []
    assert "has no key" in missing("record")[0]
