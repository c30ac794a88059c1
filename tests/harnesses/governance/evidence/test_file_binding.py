"""Evidence speaks of content, and turns stale when that is another."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from harnesses.governance import Bound, EvidenceError, bind
from harnesses.governance.evidence.file_binding import Content


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/src").mkdir(parents=True)
    (tmp_path / "root/src/a.py").write_text("one")
    (tmp_path / "root/src/b.py").write_text("one")
    (tmp_path / "outside.py").write_text("one")
    return tmp_path / "root"


def test_a_file_is_bound_by_the_hash_of_its_content(root: Path) -> None:
    assert bind(root, ["src/a.py"]) == (Bound("src/a.py", sha256(b"one").hexdigest()),)


def test_a_path_is_kept_below_the_root_and_once_however_it_is_written(root: Path) -> None:
    [bound] = bind(root, ["src/a.py", "./src/../src/a.py", root / "src/a.py"])

    assert bound.path == "src/a.py"


def _rewrite(path: Path) -> None:
    path.write_text("two")


def _delete(path: Path) -> None:
    path.unlink()


def _link_inside(path: Path) -> None:
    path.unlink()
    path.symlink_to("b.py")


def _link_outside(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent.parent.parent / "outside.py")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_on_the_way(path: Path) -> None:
    path.parent.rename(path.parent.parent / "other")
    path.parent.symlink_to("other")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to("a.py")


@pytest.mark.parametrize(
    "change", [_rewrite, _delete, _link_inside, _link_outside, _directory, _pipe, _link_on_the_way, _loop]
)
def test_whatever_becomes_of_a_file_it_is_another_content(root: Path, change: Callable[[Path], None]) -> None:
    bound = bind(root, ["src/a.py"])

    change(root / "src/a.py")

    assert Content(root).changed(bound) == ("src/a.py",)


def test_the_same_content_written_anew_is_the_same(root: Path) -> None:
    bound = bind(root, ["src/a.py", "src/b.py"])

    _delete(root / "src/a.py")
    (root / "src/a.py").write_text("one")
    os.utime(root / "src/b.py", (0, 0))

    assert Content(root).changed(bound) == ()


@pytest.mark.parametrize(
    "path",
    ["../outside.py", "/etc/passwd", "", ".", "..", "src/../../outside.py", "a\0b", "link", "up/outside.py", "src", "no"],
)
def test_what_is_not_a_file_inside_the_root_can_not_be_bound(root: Path, path: str) -> None:
    (root / "link").symlink_to("src/a.py")
    (root / "up").symlink_to("..")

    with pytest.raises(EvidenceError, match=r"expected a (regular )?file"):
        bind(root, [path])


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.py", "", "a/../b", "a//b", 3, None, "x" * 5000])
def test_a_path_from_elsewhere_does_not_lead_out_of_the_root(path: str) -> None:
    with pytest.raises(EvidenceError, match="path: expected one below the root"):
        Bound(path, "0" * 64)


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, None])
def test_a_hash_is_a_hash(digest: str) -> None:
    with pytest.raises(EvidenceError, match="sha256: expected 64"):
        Bound("a", digest)


def test_the_root_itself_may_be_reached_by_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)

    assert bind(link, ["src/a.py", link / "src/b.py", root / "src/b.py"]) == bind(root, ["src/a.py", "src/b.py"])
    assert Content(root).changed(bind(link, ["src/a.py"])) == ()
