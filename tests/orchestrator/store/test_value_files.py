"""Large results are in files beside the store: each is there before its record, is read back, and cannot change unseen."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harnesses import BaseHarness
from harnesses.data.large_values import LARGE_BYTES
from harnesses.effects.effect import EffectOutcome
from harnesses.effects.once import Effects
from harnesses.files.private_files import is_concealed
from orchestrator import Orchestrator, SqliteStore, StoreCorrupt, StoreUnusable
from orchestrator.cli.doctor import doctor_store
from orchestrator.cli.doctor.doctor_model import Level
from orchestrator.codec import decode
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader
from orchestrator.store.conformance import claim, intent_row, step_row
from orchestrator.store.conformance.conformance_tools import outcome_row
from orchestrator.store.file.value_files import files_folder
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune, survey
from orchestrator.store.store_protocol import Claimed
from tests.orchestrator.commanding import Command
from tests.tampering.proof import judge
from tests.zygote import Program

KEY = bytes(range(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def look(store: SqliteStore, claimed: Claimed, step: int, result: object, key: str = "look") -> None:
    """Record an effect of a step with its result, then the step."""
    rows = [intent_row(claimed, step, key), outcome_row(claimed, step, key, EffectOutcome.CONFIRMED, result=result)]
    store.commit([], effects=rows)
    store.commit([step_row(claimed, step, state=f'{{"total":{step}}}' if step % 10 == 0 else None)])


def made(path: Path, *results: object, key: bytes | None = None) -> None:
    with closing(SqliteStore(path, key=key)) as store:
        claimed = claim(store, "one")
        for step, result in enumerate(results, 1):
            look(store, claimed, step, result)


def files(path: Path) -> list[Path]:
    folder = files_folder(path)
    return sorted(folder.iterdir()) if folder.exists() else []


def large(letter: str, count: int = LARGE_BYTES) -> str:
    return letter * count


@pytest.mark.parametrize(("characters", "count"), [(LARGE_BYTES - 2, 0), (LARGE_BYTES - 1, 1)])
def test_a_result_goes_to_a_file_if_its_json_is_larger_than_the_limit(path: Path, characters: int, count: int) -> None:
    made(path, large("x", characters))

    assert len(files(path)) == count


def test_equal_results_share_a_file_and_the_database_does_not_grow_with_them(path: Path) -> None:
    made(path, *[large("x", 1_000_000)] * 20, large("y", 1_000_000))

    assert len(files(path)) == 2
    assert path.stat().st_size < 200_000


def test_an_encrypted_store_encrypts_its_files_and_equal_results_still_share_one(path: Path) -> None:
    made(path, large("secret"), large("secret"), large("other"), key=KEY)

    with closing(SqliteReader(path, key=KEY)) as reader, closing(SqliteReader(path)) as stranger:
        found = [effect.file for effect in reader.effects()]
        assert len(files(path)) == 2
        assert all(b"secret" not in file.read_bytes() for file in files(path))
        assert found[0] is not None
        assert decode(reader.read_file(found[0])) == large("secret")
        with pytest.raises(StoreUnusable, match="is encrypted"):
            stranger.read_file(found[0])
    assert [proof.findings for proof in [judge(path)[0]]] == [[]]


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _change(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"x", b"y", 1))


def _lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b" ")


def _link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("deed", "what", "words"),
    [
        (Path.unlink, "dropped", "is missing"),
        (_link, "dropped", "is missing"),
        (_cut, "cut off", "got 64,001"),
        (_change, "edited", "its hash differs"),
        (_lengthen, "edited", "got more"),
    ],
)
def test_both_verifiers_name_a_file_that_was_changed_and_its_value_is_not_returned(
    path: Path, deed: Callable[[Path], object], what: str, words: str
) -> None:
    made(path, large("x"), large("y"))
    with closing(SqliteReader(path)) as reader:
        file = reader.effects()[0].file
        assert file is not None
        deed(files_folder(path) / file.sha256)

        proof, alone = judge(path)

        (finding,) = proof.findings
        assert (finding.what, finding.where, finding.harness, finding.step) == (what, "value", "one", 1)
        assert (words in finding.text, file.sha256 in finding.text) == (True, True)
        assert alone == [(finding.seq, what, "value")]
        with pytest.raises(StoreCorrupt, match="restore the store and the folder"):
            reader.read_file(file)


def test_a_record_that_names_another_file_does_not_match_its_seal(path: Path) -> None:
    made(path, large("x"), large("y"))
    first, second = (file.name for file in files(path))
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE records SET body = replace(body, ?, ?)", (first, second))

    proof, alone = judge(path)

    assert [(one.what, one.where) for one in proof.findings] == [("edited", "record")]
    assert [what for _, what, _ in alone] == ["edited"]


def test_pruning_removes_the_files_that_no_record_names_any_more(path: Path) -> None:
    made(path, large("x"), large("y"), *[large("z")] * 150)
    would = survey(path, Rule(keep=10, context=10))

    done = prune(path, Rule(keep=10, context=10), by="ann")

    assert (would.files, would.file_bytes) == (done.files, done.file_bytes) == (2, 2 * (LARGE_BYTES + 2))
    assert len(files(path)) == 1
    assert judge(path) == (judge(path)[0], [])


def test_pruning_beside_a_program_keeps_the_file_that_it_names_anew(path: Path) -> None:
    made(path, large("x"), *range(150))
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        look(store, claimed, 152, large("x"))  # the same as in step 1, which is removed
        pruned = prune(path, Rule(keep=10, context=10), by="ann")

        assert pruned.steps[claimed.harness] == 139
        assert (pruned.files, len(files(path))) == (0, 1)
    assert judge(path)[1] == []


def test_the_next_owner_removes_what_no_record_names_and_names_what_one_does(path: Path) -> None:
    made(path, large("x"))
    (file,) = files(path)
    file.rename(file.with_name(f"{file.name}.new"))
    (file.parent / f"{'0' * 64}.new").write_text("left by a crash")
    (file.parent / ("1" * 64)).write_text("left by a prune that was killed")
    (file.parent / "notes.txt").write_text("not ours")
    assert judge(path)[1] == []

    SqliteStore(path).close()

    assert files(path) == [file, file.parent / "notes.txt"]
    assert judge(path)[1] == []


def test_the_doctor_counts_the_files_and_names_what_no_record_does(path: Path) -> None:
    made(path, large("x"))

    (well,) = doctor_store.files(path)
    (files_folder(path) / ("0" * 64)).write_text("left by a prune that was killed")
    (warning,) = doctor_store.files(path)

    assert (well.level, well.finding.startswith("1 large values, 64 kB, are in files in")) == (Level.PASS, True)
    assert (warning.level, warning.finding.startswith("1 of the files in")) == (Level.WARN, True)


def test_commands_say_that_a_result_is_in_a_file_and_what_prune_removes(path: Path) -> None:
    made(path, large("x"), *range(150))

    with Command(path.parent) as command:
        shown, gone = command.each(["effects", "--all", "--json"], ["prune", "--keep", "10", "--context", "10"])

    assert shown.objects[0]["result"] is None
    assert shown.objects[0]["file"]["bytes"] == LARGE_BYTES + 2
    assert f"1 files with large values taken away, {LARGE_BYTES + 2:,} bytes" in gone.out


def test_a_reader_finds_a_file_that_was_not_renamed(path: Path) -> None:
    made(path, large("x"))
    (file,) = files(path)
    file.rename(file.with_name(f"{file.name}.new"))

    with closing(SqliteReader(path)) as reader:
        (effect,) = reader.effects()
        assert effect.file is not None
        assert decode(reader.read_file(effect.file)) == large("x")


def test_nothing_is_recorded_if_its_file_cannot_be_written(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        files_folder(path).write_text("in the way")

        with pytest.raises(Exception, match=r"run\.db-files cannot be written: .*; earlier records are safe"):
            look(store, claimed, 1, large("x"))

        assert store.effects() == []


def test_the_files_belong_to_the_user_and_are_hidden_from_sandboxes(path: Path) -> None:
    before = os.umask(0o022)
    try:
        made(path, large("x"))
    finally:
        os.umask(before)

    (file,) = files(path)
    assert (file.stat().st_mode & 0o007, file.parent.stat().st_mode & 0o007) == (0, 0)
    assert is_concealed(files_folder(path).name, frozenset({path.name}))


def test_a_fork_has_no_effects_and_needs_none_of_the_files(path: Path) -> None:
    made(path, large("x"), large("y"))

    fork(path, "one", 1, to="two")

    with closing(SqliteReader(path)) as reader:
        assert reader.effects("two") == []
    assert judge(path)[1] == []


class Looking(BaseHarness[int, int, int]):
    """Looks at something large in each step, and counts the calls."""

    def __init__(self, steps: int, *, fails_at: int = 0) -> None:
        super().__init__(0)
        self.steps, self.fails_at, self.calls = steps, fails_at, 0

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for step in range(self.current_step + 1, self.steps + 1):
            text = await self.once("look", self._look, step)
            if step == self.fails_at:
                raise SystemError("stop here")
            yield step, len(text)

    def _look(self, step: int) -> str:
        self.calls += 1
        return large("x", LARGE_BYTES + step)


async def test_a_resumed_harness_gets_the_value_from_the_file_without_a_second_call(path: Path) -> None:
    first, second = Looking(3, fails_at=3), Looking(3)
    with pytest.raises(ExceptionGroup):
        async with Orchestrator(SqliteStore(path), intensity=0) as orchestrator:
            orchestrator.start(first, name="one")

    async with Orchestrator(SqliteStore(path)) as orchestrator:
        handle = orchestrator.start(second, name="one")
        await handle.wait()

    assert (first.calls, second.calls) == (3, 0)
    with closing(SqliteReader(path)) as reader:
        assert [step.output for step in reader.steps("one")] == [LARGE_BYTES + step for step in (1, 2, 3)]


class Hoarding(BaseHarness[int, int, int]):
    """Has many large results in one step."""

    def __init__(self) -> None:
        super().__init__(0)
        self.held: list[object] = []

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for number in range(20):
            await self.once(f"look {number}", large, "x", 1_000_000 + number)
        effects: Any = self._runtime.effects  # type: ignore[union-attr]
        assert isinstance(effects, Effects)
        self.held = [entry.result for entry in effects._entries.values()]  # pyright: ignore[reportPrivateUsage]
        yield 1, 1


async def test_results_in_files_are_not_kept_in_memory(path: Path) -> None:
    harness = Hoarding()
    async with Orchestrator(SqliteStore(path)) as orchestrator:
        orchestrator.start(harness, name="one")

    assert [type(result).__name__ for result in harness.held] == ["StoredText"] * 20


CHILD = """
import os, sys, signal
from contextlib import closing
from orchestrator.store import SqliteStore
from orchestrator.store.conformance import claim, step_row, intent_row
from orchestrator.store.conformance.conformance_tools import outcome_row
from harnesses.effects.effect import EffectOutcome
path, left = sys.argv[1], int(sys.argv[2])
def count(event, arguments):
    global left
    if event in ("open", "os.mkdir", "os.rename", "os.remove") and "run.db-files" in str(arguments[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
with closing(SqliteStore(path)) as store:
    claimed = claim(store, "one")
    sys.addaudithook(count)
    for step, letter in enumerate("xyx", 1):
        rows = [intent_row(claimed, step, "look")]
        rows += [outcome_row(claimed, step, "look", EffectOutcome.CONFIRMED, result=letter * 70_000)]
        store.commit([], effects=rows)
        store.commit([step_row(claimed, step)])
"""


def test_whatever_it_was_killed_at_no_record_is_without_its_file(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    kills = 0
    while True:
        folder = tmp_path / str(kills)
        folder.mkdir()
        path = folder / "run.db"
        code = Program([str(script), str(path), str(kills + 1)]).wait()
        assert code in (0, -signal.SIGKILL)
        assert judge(path) == (judge(path)[0], [])
        with closing(SqliteStore(path)) as store:
            claimed = claim(store, "one", take_over=True)
            named = {effect.file.sha256 for effect in store.effects() if effect.file is not None}
            assert {file.name for file in files(path)} == named
            look(store, claimed, claimed.step + 1, large("z", 70_000), "again")
        assert judge(path)[1] == []
        if code == 0:
            break
        kills += 1
    assert kills >= 8
