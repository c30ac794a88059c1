"""What commands write never harms a store: not the one that is read, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import SqliteStore, UsageError
from orchestrator.cli.output_targets import check_target
from orchestrator.store.conformance import claim, step_row
from tests.orchestrator.commanding import Command

WRITING = (
    ("export", "--output"),
    ("export", "--incremental", "--output"),
    ("export", "a", "--layout", "run-folder", "--output"),
    ("traces", "--output"),
    ("analyze", "--html"),
    ("analyze", "--pictures"),
)
ENDS = ("-wal", "-shm", "-head", "-key", "-latch", "-latch/@all", ".run-0123456789ab", ".control-0123456789ab")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """Give a store that is in use."""
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "a")
        store.commit([step_row(claimed, 1)])
        yield store


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


@pytest.mark.parametrize("end", ["", "-wal", "-latch"])
def test_no_command_writes_to_what_a_living_store_needs(end: str, store: SqliteStore, command: Command) -> None:
    target = Path(f"{store.path}{end}")
    before = _seen(target)

    told = command.each(*([*words, str(target), "--store", str(store.path)] for words in WRITING))

    assert [said.code for said in told] == [2] * len(WRITING)
    assert _seen(target) == before


def _seen(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_ino, path.stat().st_size) if path.exists() else None


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_open", [True, False])
def test_what_lies_beside_a_store_under_its_name_is_refused_by_any_way(
    end: str, store: SqliteStore, tmp_path: Path, *, is_open: bool
) -> None:
    known = [store.path] if is_open else []
    (tmp_path / "link.db").symlink_to(store.path)
    (tmp_path / "harmless").symlink_to(f"{store.path}{end}")

    for target in (f"run.db{end}", f"link.db{end}", "harmless"):
        with pytest.raises(UsageError, match=r"belongs to the store .*\.db"):
            check_target(tmp_path / target, *known)


def test_other_files_are_written_to_whatever_they_are_called(store: SqliteStore, tmp_path: Path) -> None:
    for name in ("run.db.jsonl", "notes-wal", "steps.csv", "-wal", ".run-1", "run.db-walnut"):
        check_target(tmp_path / name, store.path)


def test_a_store_is_refused_by_any_of_its_names(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "twin").hardlink_to(store.path)

    for known in ((), (store.path,)):
        with pytest.raises(UsageError, match="is the store"):
            check_target(tmp_path / "twin", *known)
