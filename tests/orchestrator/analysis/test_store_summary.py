"""The copy of a store that is kept beside it is used only while it belongs to the store, and never matters for an answer."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import astuple

from orchestrator import analysis
from orchestrator.analysis.questions import QUESTIONS
from orchestrator.analysis.sources import StoreSource, copied_columns, store_source, store_summary
from orchestrator.cli.output_targets import check_target
from orchestrator.errors import UsageError
from orchestrator.store import SqliteStore
from orchestrator.store.file.summary_folder import remove_summary, summary_folder
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from orchestrator.store.store_protocol import Claim, Claimed, StepRow
from tests.benchmarks.large_store import write_large_store

_CONTENTS = "contents.json"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("summary") / "run.db"
    write_large_store(path, 1100, 2)
    return path


@pytest.fixture
def store(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of which every number of records is worth a copy, made without another process."""
    monkeypatch.setattr(store_source, "LEAST", 1)
    monkeypatch.setattr(store_summary, "SHARE", 20)
    monkeypatch.setattr(copied_columns, "FEW", 1 << 30)
    for file in written.parent.glob("run.db*"):
        if file.is_file():
            shutil.copy(file, tmp_path / file.name)
    return tmp_path / "run.db"


def answers(store: Path) -> tuple[list[Any], list[Path]]:
    """Return two answers, and the files that they are from."""
    with analysis.open(store) as run:
        told = [astuple(QUESTIONS[name](run)) for name in ("throughput", "summary")]
        assert isinstance(run.source, StoreSource)
        copied = run.source.copied
        files = [] if copied is None else [Path(os.path.realpath(one.steps)) for one in copied.ranges]
    return told, files


def plain(store: Path) -> list[Any]:
    """Return the same answers, from the store itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_source, "LEAST", 1 << 30)
        return answers(store)[0]


def names(store: Path) -> set[str]:
    return {path.name for path in summary_folder(store).iterdir()}


def test_a_summary_is_made_once_for_its_owner_alone(store: Path) -> None:
    told, files = answers(store)
    assert told == plain(store)
    assert {file.parent for file in files} == {summary_folder(store)}
    modes = {path.stat().st_mode & 0o777 for path in summary_folder(store).iterdir()}
    assert (modes, summary_folder(store).stat().st_mode & 0o777) == ({0o600}, 0o700)
    before = names(store)
    assert answers(store) == (told, files)
    assert names(store) == before


def append(store: Path, count: int) -> None:
    """Add a harness that makes so many steps."""
    with closing(SqliteStore(store)) as db:
        claimed = db.commit([], [Claim(f"late-{count}", "null", "example:Late")]).results[0]
        assert isinstance(claimed, Claimed)
        body = '{"input":1,"output":2,"delta":{"set":{"count":3}},"took_us":{"work":4}}'
        db.commit([StepRow(claimed.harness, claimed.epoch, 1, step + 1, step, body, None) for step in range(count)])


def test_few_new_records_are_read_beside_a_summary_and_many_extend_it(store: Path) -> None:
    _, first = answers(store)
    append(store, 3)
    told, files = answers(store)
    assert told == plain(store)
    assert files[:-1] == first
    assert files[-1].parent != summary_folder(store)
    append(store, 40)
    told, files = answers(store)
    assert told == plain(store)
    assert files[:-1] == first
    assert files[-1].parent == summary_folder(store)
    append(store, 2000)
    told, files = answers(store)
    assert told == plain(store)
    assert not set(files) & set(first)
    assert len(names(store)) == 2 + 2 * len(files)


def change(store: Path, what: str) -> None:
    """Change a summary so that it must not be used."""
    folder = summary_folder(store)
    contents = folder / _CONTENTS
    segment = next(path for path in folder.iterdir() if path.name.endswith("steps.parquet"))
    match what:
        case "truncated":
            os.truncate(segment, segment.stat().st_size - 1)
        case "missing":
            segment.unlink()
        case "a link":
            segment.rename(store.with_name("elsewhere"))
            segment.symlink_to(store.with_name("elsewhere"))
        case "torn":
            contents.write_bytes(contents.read_bytes()[:50])
        case "another version":
            contents.write_bytes(contents.read_bytes().replace(b'"version":"', b'"version":"0'))
        case "a gap":
            held = json.loads(contents.read_bytes())
            first = held["parts"][0]
            held["parts"][:1] = [{**first, "last": first["first"] + 10}, {**first, "first": first["first"] + 20}]
            contents.write_text(json.dumps(held))
        case _:
            contents.write_bytes(contents.read_bytes().replace(b'"hash":"', b'"hash":"0'))


@pytest.mark.parametrize("what", ["truncated", "missing", "a link", "torn", "another version", "a gap", "another store"])
def test_a_summary_that_is_not_whole_or_not_of_the_store_is_made_anew(store: Path, what: str) -> None:
    told, _ = answers(store)
    old = names(store)
    change(store, what)
    assert answers(store)[0] == told
    new = names(store)
    assert len(new) == len(old)
    assert new & old == {_CONTENTS, "lock"}


def test_a_store_that_was_replaced_gets_another_summary(store: Path, tmp_path: Path) -> None:
    told, _ = answers(store)
    for file in store.parent.glob("run.db*"):
        if file.is_file():
            file.unlink()
    write_large_store(store, 80, 2)
    again, _ = answers(store)
    assert again == plain(store)
    assert again != told


def test_pruning_removes_the_summary_and_what_was_pruned_is_in_no_new_one(store: Path) -> None:
    told, _ = answers(store)
    prune(store, Rule(keep=10), by="ann")
    assert not summary_folder(store).exists()
    again, _ = answers(store)
    assert again == plain(store)
    assert again != told


def test_a_summary_of_records_that_were_pruned_since_is_made_anew(store: Path) -> None:
    answers(store)
    kept = store.with_name("kept")
    shutil.copytree(summary_folder(store), kept)
    prune(store, Rule(keep=10), by="ann")
    shutil.copytree(kept, summary_folder(store))
    assert answers(store)[0] == plain(store)
    assert names(store) & {path.name for path in kept.iterdir()} == {_CONTENTS, "lock"}


def test_a_run_goes_on_after_its_summary_was_deleted(store: Path) -> None:
    with analysis.open(store) as run:
        before = astuple(QUESTIONS["throughput"](run))
        remove_summary(store)
        assert not summary_folder(store).exists()
        assert astuple(QUESTIONS["throughput"](run)) == before


def test_several_readers_may_build_a_summary_at_once(store: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        told = list(pool.map(answers, [store] * 3))
    assert all(one == told[0] for one in told)
    assert len(names(store)) == 4


def test_a_run_opened_before_others_extended_the_summary_reads_no_later_records(store: Path) -> None:
    with analysis.open(store) as run:
        append(store, 50)
        answers(store)
        seen = run.rows("SELECT max(seq), count(*) FROM step_heads")
        run.expect()
        assert isinstance(run.source, StoreSource)
        assert run.source.copied is not None
        assert run.rows("SELECT max(seq), count(*) FROM step_heads") == seen


@pytest.mark.parametrize("why", ["folder", "permissions", "owner", "file"])
def test_where_no_summary_can_be_kept_answers_are_from_a_temporary_copy(
    store: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    place = summary_folder(store)
    match why:
        case "folder":
            place.symlink_to(store.parent)
        case "permissions":
            place.mkdir(mode=0o755)
        case "owner":
            monkeypatch.setattr(os, "geteuid", lambda: 4711)
        case _:
            place.touch()
    told, files = answers(store)
    assert told == plain(store)
    assert not any(file.parent == place for file in files)
    assert not list(place.glob("*.parquet"))
    with analysis.open(store) as run:
        QUESTIONS["summary"](run)
        assert isinstance(run.source, StoreSource)
        assert run.source.copied is None


def test_a_summary_is_neither_opened_nor_written_over(store: Path) -> None:
    answers(store)
    with pytest.raises(UsageError, match="belongs to the store"):
        analysis.open(summary_folder(store))
    with pytest.raises(UsageError, match="belongs to the store"):
        check_target(summary_folder(store) / "page.html")
