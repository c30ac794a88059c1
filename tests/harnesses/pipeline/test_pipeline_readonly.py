"""What a validator can do: read and run, in a copy. What it cannot: reach the workspace, change what is judged unseen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harnesses import Ending, Waiting
from harnesses.agents import CommandAgent
from harnesses.pipeline import Inspection, PipelineInvalid, ReadOnly, Seen
from harnesses.pipeline.judging import read_only_copy
from harnesses.pipeline.judging.copies import Copy, begin_copy, copy_tree
from harnesses.pipeline.judging.read_only_copy import has_sandbox

from .scripted import Builders, judging, pipeline, statuses, verdict

WRITES = (sys.executable, "-c", "open('a.txt', 'a').write('more')")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    (place / "src").mkdir(parents=True)
    (place / "a.txt").write_text("a")
    (place / "src" / "b.txt").write_text("b")
    (place / "__pycache__").mkdir()
    (place / "__pycache__" / "x.pyc").write_bytes(b"x")
    (place / "out").symlink_to("/etc/hostname")
    return place


@pytest.fixture
def copy(workspace: Path, tmp_path: Path) -> Copy:
    return begin_copy(workspace, tmp_path / "folder")


@pytest.fixture
def seen() -> list[Seen]:
    return []


@pytest.fixture(params=[True, False], ids=["walls", "no walls"])
def project(request: pytest.FixtureRequest, copy: Copy, seen: list[Seen], monkeypatch: pytest.MonkeyPatch) -> ReadOnly:
    if request.param and not has_sandbox():
        pytest.skip("bubblewrap does not work here")
    if not request.param:
        monkeypatch.setattr("harnesses.pipeline.judging.read_only_copy.has_sandbox", lambda: False)
    return ReadOnly(copy, seen.append, limit_s=60.0)


def test_it_reads_the_files_of_the_copy(project: ReadOnly) -> None:
    assert project.files() == ("a.txt", "out", "src/b.txt")
    assert project.files("src") == ("src/b.txt",)
    assert project.read_text("src/b.txt") == "b"
    assert len(project.sha256("a.txt")) == 64


@pytest.mark.parametrize("path", ["../work/a.txt", "/etc/hostname", "out", "src", "nothing", "src/../../x"])
def test_it_reads_nothing_outside_of_the_copy(project: ReadOnly, path: str) -> None:
    with pytest.raises(OSError, match=r"."):
        project.read_bytes(path)


def test_it_has_no_way_to_write_and_no_path(project: ReadOnly) -> None:
    public = {name for name in dir(project) if not name.startswith("_")}

    assert public == {"files", "read_bytes", "read_text", "run", "sha256"}
    with pytest.raises(AttributeError):
        project.root = "/"  # type: ignore[attr-defined]


async def test_a_command_is_noted_by_us_with_its_exit_code(project: ReadOnly, seen: list[Seen]) -> None:
    found = await project.run([sys.executable, "-c", "import sys; print(open('a.txt').read()); sys.exit(3)"])

    assert (found.code, found.good, found.tail.strip()) == (3, False, "a")
    assert seen == [found]


async def test_a_command_that_changes_something_proves_nothing(project: ReadOnly, copy: Copy, workspace: Path) -> None:
    found = await project.run(WRITES)

    assert not found.good
    assert copy.changed() == ()
    assert (workspace / "a.txt").read_text() == "a"


async def test_a_command_can_not_write_to_the_workspace_behind_walls(copy: Copy, workspace: Path, seen: list[Seen]) -> None:
    if not has_sandbox():
        pytest.skip("bubblewrap does not work here")
    program = f"open({str(workspace / 'a.txt')!r}, 'w').write('owned')"

    found = await ReadOnly(copy, seen.append, limit_s=60.0).run([sys.executable, "-c", program])

    assert found.code != 0
    assert (workspace / "a.txt").read_text() == "a"


async def test_what_a_command_says_is_kept_inert_and_without_secrets(project: ReadOnly) -> None:
    program = "print('\\x1b[31mtoken=ghp_0123456789abcdefghijklmnopqrstuvwxyz')"

    found = await project.run([sys.executable, "-c", program])

    assert "\x1b" not in found.tail
    assert "ghp_0" not in found.tail + " ".join(found.command)


async def test_a_validator_runs_only_so_many_commands(project: ReadOnly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_only_copy, "MAX_COMMANDS", 2)
    for _ in range(2):
        await project.run(["true"])

    with pytest.raises(PipelineInvalid, match="has run 2 commands"):
        await project.run(["true"])


@pytest.mark.parametrize("command", [[], ["a\0b"], [7]])
async def test_what_is_no_command_is_refused(project: ReadOnly, command: list[str]) -> None:
    with pytest.raises(PipelineInvalid, match="expected words"):
        await project.run(command)


def test_caches_and_what_is_named_are_not_copied(workspace: Path, tmp_path: Path) -> None:
    os.mkfifo(workspace / "pipe")

    copy_tree(workspace, tmp_path / "target", ["src/b.txt"])

    assert sorted(str(path.relative_to(tmp_path / "target")) for path in (tmp_path / "target").rglob("*")) == [
        "a.txt",
        "out",
        "src",
    ]


def test_a_changed_copy_is_told_by_path(copy: Copy) -> None:
    (copy.root / "a.txt").write_text("other")
    (copy.root / "new.txt").write_text("new")
    (copy.root / "src" / "b.txt").unlink()

    assert copy.changed() == ("a.txt", "new.txt", "src/b.txt")


async def test_no_copy_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    await pipeline(tmp_path / "w", "a", "b", agents=Builders(pause_s=0.0)).run()

    assert os.listdir(tmp_path) == ["w"]


async def test_a_validator_that_finds_its_copy_and_changes_it_voids_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def changes(inspection: Inspection) -> object:
        for place in tmp_path.glob("pipeline-*/copy/run/artifacts/stages/a/a.json"):
            place.write_text("{}")
        return verdict(inspection)

    harness = pipeline(tmp_path / "w", "a", agents=Builders(pause_s=0.0), validators=judging(changes))

    with pytest.raises(Waiting):
        await harness.run()

    assert "copy_unchanged" in str(harness.state.tasks[0].failed)


VALIDATOR = """\
import json, pathlib, sys
prompt = sys.stdin.read()
form = json.loads(prompt.rpartition("```json")[2].partition("```")[0])
form.update(status="PASS", checks=[{"name": "read", "status": "PASS", "evidence": "read it"}], retry_recommendation="none")
if len(sys.argv) > 1:
    pathlib.Path("added.txt").write_text("owned")
print("My verdict:\\n```json\\n" + json.dumps(form) + "\\n```")
"""


@pytest.mark.parametrize(("arguments", "status"), [([], "PASS"), (["write"], "BLOCKED")])
async def test_a_program_as_validator_gets_a_copy_of_its_own_and_may_not_change_it(
    tmp_path: Path, arguments: list[str], status: str
) -> None:
    program = tmp_path / "validator.py"
    program.write_text(VALIDATOR)
    validator = CommandAgent([sys.executable, str(program), *arguments], name="validating program")
    harness = pipeline(tmp_path / "w", "a", agents=Builders(pause_s=0.0), validators=validator)

    if status == "PASS":
        assert await harness.run() is Ending.COMPLETED
    else:
        with pytest.raises(Waiting, match="the validator has changed"):
            await harness.run()

    assert statuses(harness) == {"a": status}
    assert not (tmp_path / "w/added.txt").exists()


BUILDER = """\
import json, pathlib, sys
prompt = sys.stdin.read()
form = json.loads(prompt.partition("```json")[2].partition("```")[0])
place = pathlib.Path(form["files_modified"][0])
place.write_text(json.dumps({"said": "by a program"}))
done = "wrote the artifact"
form.update(status="PASS", summary=done, tests_run=["read it"])
form["memory_summary"].update(work_done=done, evidence=[str(place)])
for entry in form["stage_summaries"]:
    entry.update(work_done=done, evidence=[str(place)])
if sys.argv[1] == "file":
    task = form["task_id"]
    pathlib.Path(f"run/tasks/{task}/builder.json").write_text(json.dumps(form))
    print("I have left my contract in builder.json.")
else:
    print("Done.\\n```json\\n" + json.dumps(form) + "\\n```")
"""


@pytest.mark.parametrize("way", ["file", "answer"])
async def test_a_program_as_builder_hands_in_by_file_or_by_answer(tmp_path: Path, way: str) -> None:
    program = tmp_path / "builder.py"
    program.write_text(BUILDER)
    builder = CommandAgent([sys.executable, str(program), way], name="building program")
    harness = pipeline(tmp_path / "w", "a", agents=builder)

    assert await harness.run() is Ending.COMPLETED
    assert statuses(harness) == {"a": "PASS"}


async def test_a_contract_that_an_older_attempt_has_left_is_not_taken(tmp_path: Path) -> None:
    program = tmp_path / "builder.py"
    program.write_text(BUILDER.replace("if sys.argv", "import os\nform['nonce'] = '0' * 32\nif sys.argv"))
    builder = CommandAgent([sys.executable, str(program), "file"], name="building program")
    harness = pipeline(tmp_path / "w", "a", agents=builder)

    with pytest.raises(Waiting, match="nonce of the claim"):
        await harness.run()
