"""A memory by command: where it is by default, what it holds, who was told, and taking back what was wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesses.memory import EpisodicMemory, Fact, MemoryUnusable, Query, known_memories, memory_path, read_contents
from tests.orchestrator.commanding import Command
from tests.remembering import NOW, Clock, episode


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORCHESTRATOR_MEMORY_DIR", str(tmp_path / "memories"))
    return tmp_path / "memories"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as made:
        yield made


def filled(project: str = "shop") -> Path:
    """Write two episodes and a fact into the memory of a project, where it is by default; tell somebody of one."""
    with EpisodicMemory(project=project, now=Clock()) as memory:
        memory.write(episode("one", "Round prices to ticks \x1b[31m in the checkout"))
        memory.write(episode("two", "Send the invoice by mail"))
        memory.learn(Fact(learning="ticks are cents", created_at=NOW, derived_from=("ep_run_one_1",)))
        memory.recall(Query("round prices to ticks", harness="sdlc", run_id="r2", task_id="t9"))
    return memory.path


def test_a_memory_has_a_default_place_that_the_environment_can_move(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert filled("My Shop") == root / "projects" / "my-shop" / "memory" / "memory.db"
    assert known_memories() == (memory_path("My Shop"),)

    monkeypatch.delenv("ORCHESTRATOR_MEMORY_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert memory_path("My Shop") == tmp_path / "data" / "orchestrator" / "projects" / "my-shop" / "memory" / "memory.db"

    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert memory_path("x").parts[-7:-3] == (".local", "share", "orchestrator", "projects")


def test_what_a_memory_holds_is_listed_and_shown_with_who_was_told(root: Path, command: Command) -> None:
    filled()

    listed, shown, people = command.each(
        ["memory", "list", "--json"], ["memory", "show", "ep_run_one_1", "--json"], ["memory", "list"]
    )

    rows = listed.objects
    assert [(row["id"][:6], row["kind"], row["standing"]) for row in rows] == [
        ("ep_run", "episode", "trusted"),
        ("ep_run", "episode", "trusted"),
        ("fact_" + rows[2]["id"][5], "fact", "known"),
    ]
    assert [use["harness"] for use in shown.objects[0]["used_by"]] == ["sdlc"]
    assert shown.objects[0]["retracted"] is None
    assert "Send the invoice" in people.out
    assert "\x1b" not in people.out


def test_what_is_retracted_by_command_is_never_recalled_again_and_stays_listed_with_all(root: Path, command: Command) -> None:
    path = filled()

    retracted, listed, every, shown = command.each(
        ["memory", "retract", "ep_run_one_1", "--reason", "ticks are not cents", "--by", "ann"],
        ["memory", "list", "--json"],
        ["memory", "list", "--all", "--json"],
        ["memory", "show", "ep_run_one_1", "--json"],
    )

    assert retracted.code == 0
    assert "with 1 facts derived from it; it was recalled by sdlc" in retracted.err
    assert [row["id"] for row in listed.objects] == ["ep_run_two_1"]
    assert [row["standing"] for row in every.objects] == ["retracted", "trusted", "retracted"]
    assert shown.objects[0]["retracted"]["by"] == "ann"
    with EpisodicMemory(path, project="shop", now=Clock()) as memory:
        assert memory.recall(Query("round prices to ticks")).ids == ()
    assert [one.reason for one in read_contents(path).retractions] == ["ticks are not cents", "ticks are not cents"]


def test_all_of_a_memory_is_exported_and_what_cannot_be_trusted_is_named(root: Path, command: Command) -> None:
    path = filled()
    whole = command("memory", "export").objects

    assert [row["whole"].get("task") or row["whole"]["learning"] for row in whole][1:] == [
        "Send the invoice by mail",
        "ticks are cents",
    ]

    key = path.with_name("memory.db-key")
    key.write_bytes(key.read_bytes()[::-1])
    exported, checked = command.each(["memory", "export"], ["memory", "check", "--json"])

    assert exported.out == ""
    assert "3 rows of" in exported.err
    assert checked.code == 5
    assert {problem["kind"] for problem in checked.objects[0]["problems"]} >= {"signing_key_drift"}


def test_to_look_makes_no_file_and_a_mistake_is_one_line(root: Path, command: Command, tmp_path: Path) -> None:
    missing, none, wrong = command.each(
        ["memory", "list", "--project", "shop"], ["memory"], ["memory", "list", "--memory", __file__]
    )

    assert [one.code for one in (missing, none, wrong)] == [2, 2, 2]
    assert "got none" in missing.err
    assert "found none; give --project or --memory" in none.err
    assert all(one.err.count("\n") == 1 for one in (missing, none, wrong))
    assert not root.exists()
    with pytest.raises(MemoryUnusable, match="got none"):
        read_contents(tmp_path / "no.db")

    filled("a")
    filled("b")
    unknown, many = command.each(["memory", "show", "ep_x", "--project", "a"], ["memory", "list"])
    assert "has no 'ep_x'" in unknown.err
    assert "found a, b" in many.err
