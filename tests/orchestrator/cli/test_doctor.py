"""`orchestrator doctor`: what it finds in set-ups that are whole, half broken or broken; and that it changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import stat
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pytest
import trio

from harnesses.agents import sandbox
from harnesses.effects.approval import Action
from orchestrator import Orchestrator
from orchestrator.cli.doctor import doctor_machine
from orchestrator.cli.doctor.doctor_file import run_file
from orchestrator.cli.doctor.doctor_model import Check, Level, examine, well
from orchestrator.cli.doctor.doctor_verb import Patient, findings
from orchestrator.control.control_client import order
from orchestrator.kill_switch import Latch
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import claim
from orchestrator.store.rules.signing_key import secret_path
from orchestrator.store.run_orders import OrderNotTaken
from tests.orchestrator.commanded import Ticking
from tests.orchestrator.commanding import ROOT, Command, heads, wait_until
from tests.orchestrator.operated import Ended as EndedHarness
from tests.orchestrator.operated import Unsure

TABLE = '[[harness]]\nname = "{name}"\nharness = "{harness}"\ninitial_state = 0\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a run that has ended: one harness is blocked by an effect of unknown outcome, one has completed."""
    path = tmp_path_factory.mktemp("recorded") / "run.db"

    async def record() -> None:
        async with Orchestrator(path) as orchestrator:
            orchestrator.start(Unsure(0), name="unsure")
            orchestrator.start(EndedHarness(0), name="ended")

    trio.run(record)
    return path


@pytest.fixture
def store(recorded: Path, tmp_path: Path) -> Path:
    """A copy of that store, which nobody else can read."""
    for suffix in ("", "-head"):
        shutil.copy(f"{recorded}{suffix}", tmp_path / f"run.db{suffix}")
        (tmp_path / f"run.db{suffix}").chmod(0o600)
    return tmp_path / "run.db"


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    with Command(tmp_path) as command:
        yield command


def of_store(store: Path, *, named: bool = True) -> list[Check]:
    return list(findings(Patient(store, named)))


def about(checks: list[Check], check: str) -> list[Check]:
    return [one for one in checks if one.check == check]


def not_well(checks: list[Check]) -> list[tuple[str, Level]]:
    return [(one.check, one.level) for one in checks if one.level is not Level.PASS]


def everything_in(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


# --- the store as a file


def test_a_store_that_is_not_there_fails_if_somebody_named_it(tmp_path: Path) -> None:
    assert ("store", Level.FAIL) in not_well(of_store(tmp_path / "run.db", named=True))
    assert ("store", Level.WARN) in not_well(of_store(tmp_path / "run.db", named=False))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"garbage" * 1000, "not a database"), (b"SQLite format 3\0" + b"\0" * 5000, "database")],
)
def test_a_file_that_is_no_store_fails_and_is_left_as_it_is(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(content)

    (found,) = about(of_store(path), "store")

    assert found.level is Level.FAIL
    assert words in found.finding
    assert found.fix
    assert path.read_bytes() == content


def test_a_store_cut_off_in_the_middle_fails(store: Path) -> None:
    store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])

    assert Level.FAIL in {check.level for check in of_store(store) if check.check in ("store", "integrity")}


def test_a_store_with_an_overwritten_page_fails(store: Path) -> None:
    content = bytearray(store.read_bytes())
    content[5 * 4096 : 6 * 4096] = os.urandom(0) + b"\x55" * 4096
    store.write_bytes(content)

    checks = of_store(store)

    assert Level.FAIL in {check.level for check in checks}


@pytest.mark.parametrize(("version", "words"), [(9_999, "newer release"), (1, "up to date")])
def test_a_store_of_another_schema_fails_and_says_what_to_do(store: Path, version: int, words: str) -> None:
    with closing(sqlite3.connect(store)) as db:
        db.execute(f"PRAGMA user_version = {version}")

    (found,) = about(of_store(store), "store")

    assert found.level is Level.FAIL
    assert words in f"{found.finding} {found.fix}"


def test_a_folder_in_the_place_of_a_store_fails(tmp_path: Path) -> None:
    (tmp_path / "run.db").mkdir()

    (found,) = about(of_store(tmp_path / "run.db"), "store")

    assert found.level is Level.FAIL
    assert "folder" in found.finding


def test_a_store_in_a_folder_that_is_not_there_fails(tmp_path: Path) -> None:
    checks = of_store(tmp_path / "none" / "run.db")

    assert {"store", "room"} <= {check for check, level in not_well(checks) if level is Level.FAIL}


def test_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
    (tmp_path / "run.db").symlink_to(tmp_path / "gone.db")

    assert ("store", Level.FAIL) in not_well(of_store(tmp_path / "run.db", named=False))


def test_the_files_of_a_new_store_are_nobody_elses_to_read(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    before = os.umask(0o022)
    try:
        with closing(SqliteStore(path)) as made:
            claim(made, "one")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
            found = about(of_store(path), "permissions")
    finally:
        os.umask(before)

    assert {name: mode for name, mode in modes.items() if mode & 0o007} == {}
    assert {"new.db", "new.db-wal", "new.db-head"} <= set(modes)
    assert [check.level for check in found] == [Level.PASS]


def test_what_others_can_read_is_told_with_how_to_mend_it(store: Path) -> None:
    store.chmod(0o644)

    (found,) = about(of_store(store), "permissions")

    assert found.level is Level.WARN
    assert found.fix.startswith(f"chmod o-rwx {store}")


def test_a_key_that_others_can_read_fails(store: Path) -> None:
    secret_path(store).write_bytes(b"k" * 32)
    secret_path(store).chmod(0o644)

    assert about(of_store(store), "permissions")[0].level is Level.FAIL


def test_it_writes_nothing_to_the_store(store: Path) -> None:
    before = everything_in(store.parent)

    of_store(store)

    after = everything_in(store.parent)
    assert {name: after[name] for name in before} == before
    assert {name for name in after if name not in before} <= {"run.db-wal", "run.db-shm"}


def test_a_record_that_was_changed_is_found_by_its_seal(store: Path) -> None:
    whole = about(of_store(store), "seals")
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE records SET body = replace(body, 'fine', 'mine') WHERE kind = 'step'")

    changed = about(of_store(store), "seals")

    assert [check.level for check in whole] == [Level.PASS]
    assert {check.level for check in changed} == {Level.FAIL}


def test_a_store_whose_head_is_gone_is_told(store: Path) -> None:
    store.with_name("run.db-head").unlink()

    checks = about(of_store(store), "seals")

    assert checks
    assert all(check.fix for check in checks if check.level is not Level.PASS)


# --- the work in it


def test_an_effect_of_unknown_outcome_and_a_blocked_harness_are_told(store: Path) -> None:
    checks = of_store(store)

    (effect,) = about(checks, "effects")
    (harness,) = about(checks, "harnesses")
    assert (effect.level, harness.level) == (Level.WARN, Level.WARN)
    assert "orchestrator effects settle unsure" in effect.fix
    assert harness.finding.startswith("unsure is blocked")


def test_a_latch_that_is_on_is_told_with_its_reason(store: Path) -> None:
    Latch(store).put_on("@all", reason="storm")

    (found,) = about(of_store(store), "latch")

    assert found.level is Level.WARN
    assert "storm" in found.finding


def test_a_secret_in_a_state_is_told_and_not_shown(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    store = tmp_path / "run.db"

    async def record() -> None:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(EndedHarness(0), name="ended")

    trio.run(record)
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("UPDATE harnesses SET initial_state = ?", (json.dumps({"token": secret}),))
    found = about(of_store(store), "secrets")

    assert found[0].level is Level.WARN
    assert "ended" in found[0].finding
    assert secret not in str(found)


class _Asking(Ticking):
    async def execute(self) -> Any:
        await self.approval("gate", Action("publish", "publish the package"))
        yield 1, "published"


def test_what_waits_for_a_person_is_told_with_the_command(store: Path) -> None:
    async def record() -> None:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(_Asking(0), name="asking")
            await wait_for_request(store)
            orchestrator.stop()

    trio.run(record)
    (found,) = about(of_store(store), "approvals")

    assert found.level is Level.WARN
    assert "asking waits" in found.finding
    assert "orchestrator approve " in found.fix


async def wait_for_request(store: Path) -> None:
    with closing(SqliteReader(store)) as reader, trio.fail_after(10):
        while not reader.approvals():  # noqa: ASYNC110 - it is seen from outside, as another process would
            await trio.sleep(0.01)


def test_a_living_program_is_told_and_a_suspended_and_a_dead_one(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.control.control_client.TAKE_S", 0.3)
    command.run_file("Ticking")
    process = command.start("run", "run.toml", "--quiet")
    store = command.folder / "run.db"
    wait_until(lambda: heads(store).get("ticking", 0) > 1)

    living = about(of_store(store), "ownership")
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    suspended = about(of_store(store), "ownership")
    with pytest.raises(OrderNotTaken, match=f"process {process.pid} .* but it is suspended; `kill -CONT {process.pid}`"):
        order(store, "ticking", "pause")
    process.kill()
    process.wait()
    before = everything_in(command.folder)
    dead = of_store(store)

    assert (living[0].level, living[0].finding) == (Level.PASS, f"process {process.pid} runs ticking")
    assert suspended[0].level is Level.WARN
    assert f"kill -CONT {process.pid}" in suspended[0].fix
    assert about(dead, "attempts")[0].level is Level.WARN
    assert everything_in(command.folder).keys() == before.keys()


def test_a_store_that_another_process_has_locked_is_told_within_a_bounded_time(store: Path) -> None:
    with closing(sqlite3.connect(store)) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        (found,) = about(of_store(store), "store")

    assert found.level is Level.FAIL
    assert "locked" in found.finding


# --- run files


def test_a_run_file_is_read_and_its_harnesses_are_made_but_not_run(command: Command) -> None:
    path = command.run_file("Ticking", "Failing")

    done = command("doctor", path, "--json")

    assert done.code == 0
    said = [check["finding"] for check in done.objects if check["check"] == "run file"]
    assert said == ["run.toml lists 2", "ticking: Ticking can be made", "failing: Failing can be made"] or len(said) == 3
    assert not (command.folder / "run.db").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[harness]\n", "not valid TOML"),
        (TABLE.format(name="a", harness="nowhere:It"), "no module 'nowhere'"),
        (TABLE.format(name="a", harness="tests.orchestrator.commanded:None_"), "has no 'None_'"),
        (TABLE.format(name="a", harness="tests.orchestrator.commanded:Ticking") + '\napprove = "nowhere:rule"\n', "'nowhere'"),
        ("colour = 1\n" + TABLE.format(name="a", harness="x:y"), "unknown key 'colour'"),
    ],
)
def test_a_mistake_in_a_run_file_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)

    (failed,) = [check for check in run_file(path) if check.level is not Level.PASS]

    assert failed.level is Level.FAIL
    assert failed.finding.startswith(str(path))
    assert words in failed.finding
    assert failed.fix


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ValueError('broken at import')", "broken at import"),
        ("import os; os._exit(7)", "code 7"),
        ("def broken(:", "not valid Python"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "code -9"),
        ("class It: pass", "expected a class that takes initial_state"),
    ],
)
def test_code_that_can_not_be_loaded_is_a_finding(tmp_path: Path, code: str, words: str) -> None:
    (tmp_path / "broken.py").write_text(code)
    (tmp_path / "run.toml").write_text(TABLE.format(name="a", harness="broken:It"))

    read, made = run_file(tmp_path / "run.toml")

    assert (read.level, made.level) == (Level.PASS, Level.FAIL)
    assert words in made.finding
    assert "Traceback" not in made.finding


def test_code_that_hangs_when_it_is_imported_is_ended(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text("import time\nwhile True: time.sleep(1)\n")
    (tmp_path / "run.toml").write_text(TABLE.format(name="a", harness="hanging:It"))

    checks = list(run_file(tmp_path / "run.toml", load_s=1.5))

    assert [check.level for check in checks] == [Level.PASS, Level.FAIL]
    assert "did not end within" in checks[1].finding


def test_code_that_writes_to_standard_output_is_heard_over(tmp_path: Path) -> None:
    loud = "import sys\nprint('x' * 100_000)\nfrom tests.orchestrator.commanded import Ticking as It\nsys.stdout = None\n"
    (tmp_path / "loud.py").write_text(loud)
    (tmp_path / "run.toml").write_text(TABLE.format(name="a", harness="loud:It"))

    _, made = run_file(tmp_path / "run.toml")

    assert (made.level, made.finding) == (Level.PASS, "a: Ticking can be made")


def test_a_supervisor_script_is_loaded(command: Command) -> None:
    command.write("good.py", "async def supervise(orchestrator):\n    raise AssertionError('it is not run')\n")
    command.write("bad.py", "def supervise(orchestrator):\n    pass\n")

    good, bad = command.each(["doctor", "good.py"], ["doctor", "bad.py"])

    assert (good.code, bad.code) == (0, 1)
    assert "plain function" in bad.out


def test_the_store_that_the_run_file_names_is_looked_at(command: Command) -> None:
    command.write("run.toml", 'store = "other.db"\n' + TABLE.format(name="a", harness="tests.orchestrator.commanded:Ticking"))

    done = command("doctor", "run.toml")

    assert "other.db is not there yet" in done.out


# --- the machine


def test_a_bare_environment_is_a_warning_and_no_crash(command: Command) -> None:
    bare = "import os; os.environ.clear(); os.environ['PATH'] = '/none'; from orchestrator.cli import main; "
    process = command.python("-c", f"{bare}raise SystemExit(main(['doctor', '--json']))")
    out, err = process.communicate(timeout=20)
    warned = {(check["check"], check["level"]) for check in map(json.loads, out.splitlines())}

    assert process.returncode == 0, err
    assert {("programs", "WARN"), ("environment", "WARN")} <= warned


def test_a_folder_that_can_not_be_written_to_fails(store: Path, command: Command) -> None:
    if os.geteuid() != 0:
        store.parent.chmod(0o500)
        found = about(of_store(store), "room")
        store.parent.chmod(0o700)
    else:
        found = _as_nobody(store)

    assert found[0].level is Level.FAIL
    assert "cannot be written to" in found[0].finding


def _as_nobody(store: Path) -> list[Check]:
    """Look as a user who may do nothing: whoever runs the tests as root may do everything."""
    # As deep as they are: tests that run in several processes have a folder more.
    folders = [folder for folder in store.parents if folder.is_relative_to(gettempdir()) and folder != Path(gettempdir())]
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(0o755)
    os.seteuid(65534)
    try:
        return about(of_store(store), "room")
    finally:
        os.seteuid(0)
        for folder in folders:
            folder.chmod(modes[folder])


def test_the_packages_it_looks_for_are_those_that_are_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]

    assert [f"{name}>={low}" for name, low in doctor_machine.PACKAGES.items()] == declared["dependencies"]
    for extra, (_, wanted) in doctor_machine.EXTRAS.items():
        assert [f"{name}>={low}" for name, low in wanted.items()] == extras[extra]


def test_every_extra_for_users_is_looked_for() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(declared) - {"test", "examples", "docs"} == set(doctor_machine.EXTRAS)


@pytest.mark.parametrize(
    ("there", "bounds", "fits"),
    [
        ("1.4.4", "1.4.4,<1.5", True),
        ("1.4.10", "1.4.4,<1.5", True),
        ("1.4.3", "1.4.4,<1.5", False),
        ("1.5.0", "1.4.4,<1.5", False),
        ("2", "1.4", True),
        ("1.3", "1.4", False),
    ],
)
def test_a_version_fits_from_the_lowest_up_to_the_first_that_is_too_new(there: str, bounds: str, fits: bool) -> None:
    assert doctor_machine.fits(there, bounds) is fits


@pytest.mark.parametrize(
    ("older", "newer"), [("1.9", "1.10"), ("23.2", "26.1.0"), ("1.3.0", "1.3.0.post0.1"), ("4.5.60", "4.5.90")]
)
def test_versions_are_compared_by_their_numbers(older: str, newer: str) -> None:
    assert doctor_machine.release(older) <= doctor_machine.release(newer)


def test_a_look_that_breaks_is_a_finding_and_keeps_no_other_from_being_taken() -> None:
    def breaks() -> Iterator[Check]:
        yield well("first", "begun")
        raise ZeroDivisionError("by nought")

    checks = list(examine({"first": breaks, "second": lambda: [well("second", "fine")]}))

    assert [(check.check, check.level) for check in checks] == [
        ("first", Level.PASS),
        ("first", Level.FAIL),
        ("second", Level.PASS),
    ]
    assert "by nought" in checks[1].finding


def test_every_finding_that_is_not_well_says_what_to_do(store: Path) -> None:
    Latch(store).put_on("@all")
    store.chmod(0o666)

    checks = of_store(store)

    assert all(check.fix for check in checks if check.level is not Level.PASS)
    assert any(check.level is Level.FAIL for check in checks)


@pytest.mark.parametrize(
    ("level", "said"),
    [
        (sandbox.Level.BUBBLEWRAP, "sandbox: level bubblewrap holds: an agent in it sees nothing of a run"),
        (sandbox.Level.LANDLOCK, "sandbox: level landlock holds, bubblewrap does not"),
        (sandbox.Level.NONE, "sandbox: no level holds: an agent can do what its user can"),
    ],
)
def test_the_level_of_sandbox_that_holds_here_is_told(
    monkeypatch: pytest.MonkeyPatch, level: sandbox.Level, said: str
) -> None:
    if level is not sandbox.Level.BUBBLEWRAP:
        monkeypatch.setenv("PATH", "/none")
    if level is sandbox.Level.NONE:
        monkeypatch.setattr("harnesses.agents.sandbox.sandbox_settings.why_landlock_fails", lambda: "not here")
    if sandbox.Sandbox().in_force() is not level:
        pytest.skip(f"{level} is not the level of this machine")

    told = next(doctor_machine.check_sandbox())

    assert said in told.finding


def test_a_file_with_only_alerts_is_one_for_notify(tmp_path: Path) -> None:
    path = tmp_path / "alerts.toml"
    path.write_text('[[alert]]\nwhen = "blocked"\nto = ["json://localhost"]\n')

    (check,) = run_file(path)

    assert (check.level, check.finding) == (Level.PASS, f"{path} has only alerts, for `orchestrator notify`")
