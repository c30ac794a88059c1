"""A row that is not what was written is not read; a file that is no memory is refused; nothing of it fails a run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harnesses.memory import EpisodicMemory, MemoryUnusable, Query, diagnose, memory_path
from tests.remembering import NOW, episode, memory

ASKED = "prices are rounded wrongly to ticks"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a memory of two episodes and a fact."""
    with memory(tmp_path) as kept:
        kept.write(episode("one"))
        kept.write(episode("two", created_at=NOW))
        kept.learn("Ticks are 0.01")
    return tmp_path


def _edit(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "memory.db")) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


EDITS = {
    "the notes": "UPDATE episodes SET body = replace(body, 'ticks', 'tocks') WHERE id = 'ep_run_one_1'",
    "the trust": "UPDATE episodes SET trusted = 0 WHERE id = 'ep_run_one_1'",
    "the retraction": "UPDATE episodes SET retracted = 1 WHERE id = 'ep_run_one_1'",
    "the time": "UPDATE episodes SET created_us = created_us + 1 WHERE id = 'ep_run_one_1'",
    "the task": "UPDATE episodes SET task_id = 'other' WHERE id = 'ep_run_one_1'",
    "the signature": "UPDATE episodes SET signature = 'ü' WHERE id = 'ep_run_one_1'",
    "no signature": "UPDATE episodes SET signature = '' WHERE id = 'ep_run_one_1'",
    "the signature of another": "UPDATE episodes SET signature = (SELECT signature FROM episodes WHERE id = 'ep_run_two_1') "
    "WHERE id = 'ep_run_one_1'",
    "no JSON": "UPDATE episodes SET body = '{' WHERE id = 'ep_run_one_1'",
}


@pytest.mark.parametrize("edit", [pytest.param(edit, id=id) for id, edit in EDITS.items()])
def test_an_edited_row_is_dropped_and_counted(folder: Path, edit: str) -> None:
    _edit(folder, edit)

    with memory(folder) as kept:
        assert kept.recall(Query(ASKED)).ids == ("ep_run_two_1",)
        found = kept.diagnostics()

    assert (found.episodes, found.dropped, found.healthy) == (1, 1, False)
    assert found.problems[0].kind == "invalid_signature"


def test_an_edited_index_brings_nothing_up_that_is_not_about_it(folder: Path) -> None:
    _edit(folder, "UPDATE episode_words SET words = 'beekeep garden finnish' WHERE rowid = 1")

    with memory(folder) as kept:
        assert kept.recall(Query("beekeeping and gardening in Finnish")).ids == ()


def test_an_edited_fact_is_dropped(folder: Path) -> None:
    _edit(folder, "UPDATE facts SET body = replace(body, '0.01', '100')")

    with memory(folder) as kept:
        assert kept.facts() == ()
        assert kept.diagnostics().dropped == 1


def test_a_key_that_was_lost_or_changed_is_told(folder: Path) -> None:
    (folder / "memory.db-key").unlink()

    assert not diagnose(folder / "memory.db", project="shop").healthy
    with memory(folder) as kept:
        assert kept.recall(Query(ASKED)).ids == ()
        kinds = {problem.kind for problem in kept.diagnostics().problems}
        kept.write(episode("three"))
        found = kept.recall(Query(ASKED)).ids

    assert kinds == {"signing_key_drift", "signature_failure"}
    assert found == ("ep_run_three_1",)


def test_file_and_key_are_their_users_alone(folder: Path) -> None:
    assert [oct((folder / name).stat().st_mode & 0o777) for name in ("memory.db", "memory.db-key")] == ["0o600", "0o600"]


def _open_key(folder: Path) -> None:
    (folder / "memory.db-key").chmod(0o644)


def _torn_key(folder: Path) -> None:
    (folder / "memory.db-key").write_text("abc")


def _linked_key(folder: Path) -> None:
    (folder / "memory.db-key").rename(folder / "elsewhere")
    (folder / "memory.db-key").symlink_to(folder / "elsewhere")


def _piped_key(folder: Path) -> None:
    (folder / "memory.db-key").unlink()
    os.mkfifo(folder / "memory.db-key", 0o600)


def _torn_file(folder: Path) -> None:
    content = (folder / "memory.db").read_bytes()
    (folder / "memory.db").write_bytes(content[:5000])


def _no_database(folder: Path) -> None:
    (folder / "memory.db").write_bytes(b"not a database" * 1000)


def _other_database(folder: Path) -> None:
    (folder / "memory.db").unlink()
    _edit(folder, "CREATE TABLE accounts (name TEXT)")


def _trigger(folder: Path) -> None:
    _edit(folder, "CREATE TRIGGER t AFTER INSERT ON retrievals BEGIN DELETE FROM retractions; END")


def _changed_table(folder: Path) -> None:
    _edit(folder, "ALTER TABLE facts ADD COLUMN more TEXT")


def _folder(folder: Path) -> None:
    (folder / "memory.db").unlink()
    (folder / "memory.db").mkdir()


HARM = (
    *(_open_key, _torn_key, _linked_key, _piped_key, _torn_file),
    *(_no_database, _other_database, _trigger, _changed_table, _folder),
)


@pytest.mark.parametrize("harm", HARM)
def test_what_is_torn_or_hostile_is_refused_with_what_to_do(folder: Path, harm: Callable[[Path], None]) -> None:
    harm(folder)

    with pytest.raises(MemoryUnusable, match=r"memory\.db.*;"):
        memory(folder).recall(Query(ASKED))
    assert not diagnose(folder / "memory.db", project="shop").healthy


def test_the_memory_of_another_project_is_refused(folder: Path) -> None:
    with pytest.raises(MemoryUnusable, match="project 'bank'"):
        EpisodicMemory(folder / "memory.db", project="bank")


def test_a_memory_that_is_not_there_is_in_order_and_is_not_made(tmp_path: Path) -> None:
    found = diagnose(tmp_path / "none" / "memory.db", project="shop")

    assert (found.exists, found.healthy, found.episodes, found.hit_rate) == (False, True, 0, None)
    assert list(tmp_path.iterdir()) == []


def test_each_project_has_a_place_of_its_own(tmp_path: Path) -> None:
    assert memory_path("My Shop!", tmp_path) == tmp_path / "projects" / "my-shop" / "memory" / "memory.db"
    assert memory_path("../..", tmp_path) == tmp_path / "projects" / "project" / "memory" / "memory.db"
    assert len(memory_path("x" * 500, tmp_path).parts[-3]) == 80


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    one, other = memory(tmp_path), memory(tmp_path)

    for number in range(10):
        one.write(episode(f"a{number}"))
        other.write(episode(f"b{number}"))

    assert one.diagnostics().episodes == 20


def test_what_is_stale_double_or_large_is_told_and_is_no_error(tmp_path: Path) -> None:
    kept = memory(tmp_path, stale_after_days=1, max_kilobytes=64)
    kept.write(episode("old", created_at=NOW.replace(year=2025), task_id="same"))
    kept.write(episode("new", task_id="same"))
    for number in range(40):
        kept.write(episode(f"long{number}", notes="word " * 120))

    found = kept.diagnostics()

    assert {problem.kind for problem in found.problems} == {"stale", "duplicate", "oversized"}
    assert found.healthy
