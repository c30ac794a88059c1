"""Coding tools in real directories and repositories: what they return, and that they stay inside."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from harnesses.agents.sandbox import Sandbox
from harnesses.agents.tools import coding_tools as coding
from harnesses.agents.tools import folder_walk
from harnesses.agents.tools.coding_tools import coding_tools
from harnesses.agents.tools.confined_files import ConfinedFolder
from harnesses.agents.tools.folder_walk import OutsideFolder
from harnesses.agents.tools.nearest_text import show_nearest
from harnesses.agents.tools.tool import ToolError, ToolSetting
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.tools.turn_tools import agent_run, opened

SECRET = "outside: do not show"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A repository with a few files, and a secret beside it."""
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 2\n")
    (root / "notes.txt").write_text("first\nsecond\n")
    (root / ".gitignore").write_text("build/\n")
    (root / "build").mkdir()
    (root / "build" / "a.py").write_text("def one(): built\n")
    (tmp_path / "secret.txt").write_text(SECRET)
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


@pytest.fixture(params=["rg", "python"])
def searcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "rg" and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    if request.param == "python":
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == "rg" else which(name))
    return request.param


def setting(place: Path, **how: object) -> ToolSetting:
    return ToolSetting(run=agent_run(), directory=place, **how)  # type: ignore[arg-type]


# reading


def test_lines_are_numbered_and_the_rest_is_announced(place):
    assert coding.read("src/a.py", setting(place), start=2, count=1) == (
        "     2\t    return 1\n[lines 2 to 2 of 6; read on with start=3]"
    )


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda path: path.write_bytes(b"\0\1\2"), "binary file of 3 bytes"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: os.mkfifo(path), "device, FIFO or socket"),
        (lambda path: path.symlink_to("/dev/zero"), "link to '/dev/zero'"),
        (lambda path: os.truncate(_touched(path), 11 * 1024 * 1024), "too large"),
        (lambda path: None, "there is no"),
    ],
    ids=["binary", "folder", "fifo", "device", "huge", "missing"],
)
def test_what_is_no_text_file_is_told_and_not_waited_for(place, prepare, told):
    prepare(place / "odd")

    with pytest.raises(ToolError, match=told):
        coding.read("odd", setting(place))


def _touched(path: Path) -> Path:
    path.touch()
    return path


async def test_a_search_leaves_out_ignored_files_and_git(place, searcher):
    found = await coding.search("def o.e", setting(place))
    below = await coding.search("RETURN", setting(place), path="src", ignore_case=True, most=1)
    one = await coding.search("first", setting(place), path="notes.txt")

    assert found == "src/a.py:1:def one():"
    assert below.startswith("src/a.py:2:    return 1\n[more than 1 lines match")
    assert one == "notes.txt:1:first"
    assert await coding.search("repositoryformat", setting(place)) == "nothing matches"


async def test_a_search_follows_no_link(place, searcher):
    (place / "link.txt").symlink_to(place.parent / "secret.txt")
    (place / "folder").symlink_to(place.parent)

    assert await coding.search("do not show", setting(place)) == "nothing matches"
    with pytest.raises(ToolError, match="outside"):
        await coding.search("do not show", setting(place), path="folder")


async def test_a_pattern_that_takes_for_ever_is_ended(place, searcher, monkeypatch):
    (place / "long.txt").write_text("a" * 5_000 + "!\n")
    monkeypatch.setattr("harnesses.agents.tools.tree_search._LIMIT_S", 0.7)

    with trio.fail_after(20):
        if searcher == "rg":  # Its patterns take time linear in the text.
            assert await coding.search("^(a+)+$", setting(place)) == "nothing matches"
        else:
            with pytest.raises(ToolError, match="took longer"):
                await coding.search("^(a+)+$", setting(place))


async def test_a_wrong_pattern_is_told(place, searcher):
    with pytest.raises(ToolError, match=r"regular expression|regex"):
        await coding.search("(", setting(place))


def test_a_folder_is_listed_to_a_depth_without_git(place):
    (place / "link").symlink_to("notes.txt")

    assert coding.list_folder(setting(place)) == ".gitignore\nbuild/\nlink@\nnotes.txt\nsrc/"
    assert "src/a.py" in coding.list_folder(setting(place), depth=2).split("\n")


# editing


def test_an_edit_replaces_the_text_that_occurs_once_and_keeps_the_mode(place):
    (place / "src" / "a.py").chmod(0o755)

    coding.edit("src/a.py", "return 1", "return 11", setting(place))

    assert "return 11\n" in (place / "src" / "a.py").read_text()
    assert (place / "src" / "a.py").stat().st_mode & 0o777 == 0o755


def test_an_edit_that_occurs_more_than_once_is_refused_with_the_lines(place):
    with pytest.raises(ToolError, match=r"occurs 2 times in 'src/a.py', at lines 2, 6"):
        coding.edit("src/a.py", "    return ", "    yield ", setting(place))
    coding.edit("src/a.py", "    return ", "    yield ", setting(place), all=True)

    assert (place / "src" / "a.py").read_text().count("yield") == 2


def test_an_edit_that_does_not_occur_shows_what_is_most_like_it(place):
    with pytest.raises(ToolError) as caught:
        coding.edit("src/a.py", "def two():\n    return 22", "", setting(place))

    assert "     5\tdef two():\n     6\t    return 2" in str(caught.value)


@pytest.mark.parametrize("data", [b"a\r\nb\r\n", b"\xef\xbb\xbfa\nb\n", b"a\nb\xff\n"])
def test_an_edit_keeps_every_byte_that_it_does_not_replace(place, data):
    (place / "odd.txt").write_bytes(data)

    coding.edit("odd.txt", "a\n", "one\ntwo\n", setting(place))

    end = b"\r\n" if b"\r\n" in data else b"\n"
    assert (place / "odd.txt").read_bytes() == data.replace(b"a" + end, b"one" + end + b"two" + end)


def test_a_file_is_written_with_its_folders(place):
    assert coding.write("new/deep/file.txt", "one\ntwo", setting(place)) == "created new/deep/file.txt: 2 lines"
    assert (place / "new" / "deep" / "file.txt").read_text() == "one\ntwo"


def test_a_second_name_of_a_file_elsewhere_keeps_its_content(place):
    os.link(place.parent / "secret.txt", place / "twin.txt")

    coding.write("twin.txt", "mine", setting(place))

    assert (place.parent / "secret.txt").read_text() == SECRET


# confinement

_OUTSIDE = ["../secret.txt", "src/../../secret.txt", "/etc/passwd", "up/secret.txt", "file", "loop", "far"]


@pytest.fixture
def trapped(place: Path) -> Path:
    (place / "up").symlink_to("..")
    (place / "file").symlink_to(place.parent / "secret.txt")
    (place / "loop").symlink_to("loop")
    (place / "far").symlink_to("src/../../secret.txt")
    return place


@pytest.mark.parametrize("path", _OUTSIDE)
def test_nothing_outside_is_read_or_written(trapped, path):
    for call in (
        lambda: coding.read(path, setting(trapped)),
        lambda: coding.write(path, "changed", setting(trapped)),
        lambda: coding.edit(path, "outside", "changed", setting(trapped)),
        lambda: coding.apply_patch(f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch", setting(trapped)),
    ):
        with pytest.raises(OutsideFolder):
            call()

    assert (trapped.parent / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize(
    "path", [".git/config", ".GIT/config", "src/../.git/hooks/pre-commit", "git/config", "src/.git/config"]
)
def test_nothing_in_a_git_folder_is_written(place, path):
    (place / "git").symlink_to(".git")
    before = (place / ".git" / "config").read_text()

    with pytest.raises(OutsideFolder, match=r"\.git folder"):
        coding.write(path, "[core]\nfsmonitor = evil\n", setting(place))

    assert (place / ".git" / "config").read_text() == before
    assert not (place / ".git" / "hooks" / "pre-commit").exists()


def test_links_that_stay_inside_are_followed(place):
    (place / "here").symlink_to("src/../src")
    (place / "CLAUDE.md").symlink_to("notes.txt")

    assert "def one" in coding.read("here/a.py", setting(place))
    coding.edit("CLAUDE.md", "first", "1st", setting(place))
    assert (place / "notes.txt").read_text() == "1st\nsecond\n"
    assert (place / "CLAUDE.md").is_symlink()


@pytest.fixture
def swapping(place: Path) -> Iterator[Path]:
    """A folder that another thread replaces by a link to the outside, and back, without end."""
    inside, link, aside = place / "door", place / "link", place / "aside"
    inside.mkdir()
    (inside / "secret.txt").write_text("inside")
    link.symlink_to(place.parent)
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for old, new in ((inside, aside), (link, inside), (inside, link), (aside, inside)):
                try:
                    os.rename(old, new)
                except OSError:  # A write has made the folder anew in the moment in which it was missing.
                    shutil.rmtree(inside, ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    yield place
    done.set()
    thread.join()


def test_a_link_that_is_swapped_in_during_the_walk_leads_nowhere(swapping):
    folder, seen = ConfinedFolder(swapping), set[bytes]()
    for _ in range(1_500):
        with suppress(ToolError):
            seen.add(folder.read("door/secret.txt"))
        with suppress(ToolError):
            folder.write("door/secret.txt", b"inside")

    assert seen <= {b"inside"}, "whatever is read comes from within; the thread may leave nothing to read"
    assert (swapping.parent / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("part", ["door", "secret.txt"])
def test_a_link_that_is_swapped_in_between_the_look_and_the_opening_is_not_followed(place, monkeypatch, part):
    (place / "door").mkdir()
    (place / "door" / "secret.txt").write_text("inside")
    look = folder_walk._link_at

    def swap(folder: int, name: str) -> str | None:
        found = look(folder, name)
        if name == part:
            here = place / "door" if part == "door" else place / "door" / part
            os.rename(here, place / "aside")
            here.symlink_to(place.parent if part == "door" else place.parent / part)
        return found

    monkeypatch.setattr(folder_walk, "_link_at", swap)
    with pytest.raises(ToolError):
        ConfinedFolder(place).read("door/secret.txt")
    assert (place / "door").resolve() == place.parent or (place / "door" / part).is_symlink()


# patches

_UNIFIED = """\
diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,3 @@
 def one():
-    return 1
+    return 10

@@ -5,2 +5,3 @@
 def two():
-    return 2
+    x = 20
+    return x
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+hello
+there
--- a/notes.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-first
-second
"""
_MARKED = """\
*** Begin Patch
*** Update File: src/a.py
@@ def one():
-    return 1
+    return 10
@@ def two():
-    return 2
+    x = 20
+    return x
*** Add File: new.txt
+hello
+there
*** Delete File: notes.txt
*** End Patch
"""


@pytest.mark.parametrize("patch", [_UNIFIED, _MARKED], ids=["unified", "marked"])
def test_a_patch_changes_adds_and_deletes_files(place, patch):
    said = coding.apply_patch(patch, setting(place))

    assert said == "changed src/a.py\nadded new.txt\ndeleted notes.txt"
    assert (place / "src" / "a.py").read_text() == "def one():\n    return 10\n\n\ndef two():\n    x = 20\n    return x\n"
    assert (place / "new.txt").read_text() == "hello\nthere\n"
    assert not (place / "notes.txt").exists()


def test_a_patch_that_does_not_fit_in_one_part_changes_nothing(place):
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}

    with pytest.raises(ToolError, match=r"hunk 2 for 'src/a\.py' does not fit"):
        coding.apply_patch(_UNIFIED.replace("-    return 2", "-    return 3"), setting(place))

    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def _files(place: Path) -> dict[str, str]:
    return {
        str(one.relative_to(place)): one.read_text() if one.is_file() else ""
        for one in place.rglob("*")
        if ".git" not in one.parts
    }


_MOVE = "*** Begin Patch\n*** Update File: notes.txt\n*** Move to: {}\n@@\n-first\n+FIRST\n second\n*** End Patch"
_RENAME = "diff --git a/notes.txt b/{0}\nsimilarity index 100%\nrename from notes.txt\nrename to {0}\n"


@pytest.mark.parametrize("patch", [_MOVE, _RENAME], ids=["marked", "git"])
@pytest.mark.parametrize("target", ["../out", ".git/x", "src/a.py/x", "n" * 300, "fresh/.git/x", f"fresh/{'n' * 300}", "src"])
def test_a_file_that_cannot_be_moved_stays(place, patch, target):
    before = _files(place)
    with pytest.raises(ToolError):
        coding.apply_patch(patch.format(target), setting(place))
    assert _files(place) == before
    assert not (place.parent / "out").exists()


_ALL = (
    "*** Begin Patch\n*** Delete File: src/a.py\n*** Update File: notes.txt\n@@\n-first\n+FIRST\n second\n"
    f"*** Add File: new/large.txt\n+{'x' * 20_000}\n*** Update File: .gitignore\n*** Move to: ignored\n@@\n-build/\n+b/\n"
    "*** End Patch"
)


def test_a_patch_whose_files_find_no_room_changes_nothing(place):
    before, limits = _files(place), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(ToolError, match="large"):
            coding.apply_patch(_ALL, setting(place))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert _files(place) == before


@pytest.mark.parametrize("links", [True, False])
def test_a_patch_is_undone_whichever_rename_fails(place, monkeypatch, links):
    before, calls, rename, link = _files(place), list[object](), os.rename, os.link

    def rename_or_fail(*names: object, **how: object) -> None:
        calls.append(names)
        if len(calls) == failing:
            raise OSError("failed here")
        rename(*names, **how)  # type: ignore[arg-type]

    def link_or_fail(*names: object, **how: object) -> None:
        if not links:
            raise PermissionError("no hard links here")
        link(*names, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename_or_fail)
    monkeypatch.setattr(os, "link", link_or_fail)
    times = 5 if links else 6
    for failing in range(1, times + 1):
        calls.clear()
        with pytest.raises(ToolError, match="failed here"):
            coding.apply_patch(_ALL, setting(place))
        assert _files(place) == before, failing
    calls, failing = [], 0
    coding.apply_patch(_ALL, setting(place))
    after = _files(place)
    assert len(calls) == times
    assert sorted(after) == ["build", "build/a.py", "ignored", "new", "new/large.txt", "notes.txt", "src"]


def test_a_patch_moves_a_file(place):
    coding.apply_patch(
        "*** Begin Patch\n*** Update File: notes.txt\n*** Move to: doc/notes.md\n@@\n-first\n+1st\n*** End Patch",
        setting(place),
    )

    assert not (place / "notes.txt").exists()
    assert (place / "doc" / "notes.md").read_text() == "1st\nsecond\n"


def test_a_patch_moves_no_file_onto_another(place):
    move = "*** Begin Patch\n{}*** Update File: notes.txt\n*** Move to: src/a.py\n@@\n-first\n+1st\n*** End Patch"
    with pytest.raises(ToolError, match=r"'src/a\.py', which exists"):
        coding.apply_patch(move.format(""), setting(place))
    assert (place / "notes.txt").read_text() == "first\nsecond\n"

    coding.apply_patch(move.format("*** Delete File: src/a.py\n"), setting(place))
    assert (place / "src" / "a.py").read_text() == "1st\nsecond\n"


@pytest.mark.parametrize("other", ["./notes.txt", "src/../notes.txt", "new/../notes.txt", "{root}/notes.txt", "link.txt"])
def test_a_patch_that_spells_a_file_in_two_ways_makes_both_changes(place, other):
    (place / "link.txt").symlink_to("notes.txt")
    other = other.format(root=place)
    if other.startswith("new/"):
        (place / "new").mkdir()
    hunks = ("*** Update File: notes.txt\n@@\n-first\n+1", f"*** Update File: {other}\n@@\n-second\n+2")

    coding.apply_patch("\n".join(["*** Begin Patch", *hunks, "*** End Patch"]), setting(place))

    assert (place / "notes.txt").read_text() == "1\n2\n"


def test_a_patch_does_not_add_a_file_twice_in_two_spellings(place):
    adds = ("*** Add File: new/a.txt\n+1", "*** Add File: new/../new/a.txt\n+2")

    with pytest.raises(ToolError, match=r"adds 'new/\.\./new/a.txt', which exists"):
        coding.apply_patch("\n".join(["*** Begin Patch", *adds, "*** End Patch"]), setting(place))

    assert not (place / "new").exists()


_WITH_SECRET = 'host = "db"\npassword = "hunter2hunter2"\nport = 1\n'
_SHOWN = _WITH_SECRET.replace("hunter2hunter2", "[REDACTED]")


@pytest.mark.parametrize(
    "change",
    [
        lambda place: coding.write("conf.py", _SHOWN.replace("port = 1", "port = 2"), place),
        lambda place: coding.edit("conf.py", "port = 1", 'port = 2\npassword = "[REDACTED]"', place),
        lambda place: coding.apply_patch(
            "*** Begin Patch\n*** Update File: conf.py\n@@\n-port = 1\n+port = [REDACTED]\n*** End Patch",
            place,
        ),
        lambda place: coding.apply_patch(
            "*** Begin Patch\n*** Delete File: conf.py\n*** Add File: conf.py\n+password = '[REDACTED]'\n*** End Patch", place
        ),
    ],
)
def test_a_mark_is_not_written_over_the_secret_that_it_stands_for(place, change):
    (place / "conf.py").write_text(_WITH_SECRET)

    with pytest.raises(ToolError, match=r"'conf.py' was not changed: .* a secret that you are not shown.*; "):
        change(setting(place))

    assert (place / "conf.py").read_text() == _WITH_SECRET


def test_an_edit_of_a_line_with_a_mark_is_told_what_it_stands_for(place):
    (place / "conf.py").write_text(_WITH_SECRET)

    with pytest.raises(ToolError, match=r"is not in 'conf.py'. .*stands for a secret that you are not shown"):
        coding.edit("conf.py", _SHOWN, "", setting(place))

    coding.edit("conf.py", "port = 1", "port = 2", setting(place))
    coding.write("docs.md", "shown as [REDACTED]\n", setting(place))
    coding.write("docs.md", "shown as [REDACTED], [REDACTED]\n", setting(place))
    assert (place / "conf.py").read_text() == _WITH_SECRET.replace("port = 1", "port = 2")


def test_the_nearest_lines_of_a_large_file_are_found_in_bounded_time(place):
    lines = [f"    value_{number} = compute(source[{number}], width={number % 97})" for number in range(18_000)]
    wanted = "    value_9000 = compute(sources[9000], width=76)"

    began = time.thread_time()
    told = show_nearest(wanted, "\n".join(lines))
    took_s = time.thread_time() - began

    assert "value_9000 = compute(source[9000]" in told
    assert took_s < 0.3


def test_every_change_that_git_can_write_is_applied_like_git(place):
    git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    (place / "notes.txt").write_text("".join(f"line {number}\n" for number in range(60)))
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "first"], check=True)
    wanted = "line 0\n" + "".join(f"line {number}\n" for number in range(2, 30)) + "new\n\n" + "line 59"
    (place / "notes.txt").write_text(wanted)
    os.rename(place / "src" / "a.py", place / "src" / "b.py")
    (place / "src" / "b.py").write_text((place / "src" / "b.py").read_text().replace("return 2", "return 3"))
    subprocess.run([*git, "add", "."], check=True)
    patch = subprocess.run([*git, "diff", "--cached", "-M"], check=True, capture_output=True, text=True).stdout
    subprocess.run([*git, "reset", "--quiet", "--hard"], check=True)

    coding.apply_patch(patch, setting(place))

    assert (place / "notes.txt").read_text() == wanted
    assert not (place / "src" / "a.py").exists()
    assert "return 3" in (place / "src" / "b.py").read_text()


@pytest.mark.parametrize(
    "patch", ["", "hello", "*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Update File: a\n", "@@ x"]
)
def test_what_is_no_patch_is_told(place, patch):
    with pytest.raises(ToolError, match="patch"):
        coding.apply_patch(patch, setting(place))


# commands


async def test_a_command_returns_its_code_and_output_without_secrets_in_its_environment(place, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    assert await coding.run("pwd; echo [$OPENAI_API_KEY]; exit 3", setting(place)) == f"exit code 3\n{place}\n[]\n"


async def test_the_middle_of_a_long_output_is_cut(place):
    said = await coding.run("seq 1 100000", setting(place))

    assert said.startswith("exit code 0\n1\n2\n")
    assert said.endswith("99999\n100000\n")
    assert "bytes are cut" in said
    assert len(said) < coding.MAX_OUTPUT + 100


async def test_a_command_and_its_children_end_at_the_time_limit(place):
    with pytest.raises(ToolError, match="longer than 1 s"):
        await coding.run("echo $$ > pid; setsid sleep 600 & echo $! >> pid; sleep 600", setting(place), timeout_s=1)

    pids = (place / "pid").read_text().split()
    assert len(pids) == 2
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}")] == []  # noqa: ASYNC240


async def test_tools_need_a_directory(place):
    with pytest.raises(HarnessMisuse, match="working directory"):
        async with opened(*coding_tools()) as call:
            await call("read", path="a")


@pytest.mark.skipif(not Sandbox().works(), reason="bubblewrap does not work here")
async def test_a_command_in_the_sandbox_changes_only_the_directory_and_has_no_network(place):
    commands = {
        "echo inside > made.txt": 0,
        f"echo outside > {place.parent}/secret.txt": None,
        "echo '[core]' >> .git/config": 1,
        "exec 3<>/dev/tcp/127.0.0.1/22": 1,
    }
    git = (place / ".git" / "config").read_text()
    for command, code in commands.items():
        said = await coding.run(command, setting(place, sandbox=Sandbox()))
        assert code is None or said.startswith(f"exit code {code}"), said

    assert (place / "made.txt").read_text() == "inside\n"
    assert (place.parent / "secret.txt").read_text() == SECRET
    assert (place / ".git" / "config").read_text() == git
