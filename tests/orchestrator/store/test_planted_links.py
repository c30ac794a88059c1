"""Whatever somebody puts in the place of a file that this program makes, nothing is written where that leads to."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import trio

from harnesses import BaseHarness
from harnesses.errors import Latched
from harnesses.files.safe_files import open_own
from orchestrator import Orchestrator, SqliteStore
from orchestrator.errors import StoreUnusable, UsageError
from orchestrator.kill_switch import Latch
from orchestrator.log import LogFollower
from orchestrator.store.conformance.conformance_tools import claim
from orchestrator.store.integrity.chain_head import Head, Noted
from orchestrator.store.rules.signing_key import Secret

PRECIOUS = "precious"


class One(BaseHarness[int, int, int]):
    """Makes one step."""

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        yield 1, 1


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "victim"
    file.write_text(PRECIOUS)
    return file


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder in which others can write."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("exists", [True, False], ids=["to a file", "to nothing"])
@pytest.mark.parametrize("end", ["-head.new", "-head", "-head.before", "-wal", "-shm", "-journal", "-latch/@all", "-key"])
def test_a_link_beside_a_store_is_not_written_through(victim: Path, shared: Path, end: str, exists: bool) -> None:
    link = shared / f"run.db{end}"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim if exists else victim.with_name("other"))
    path = shared / "run.db"

    async def run() -> None:
        async with Orchestrator(path, control=True, log=path.with_name("steps.jsonl")) as orchestrator:
            orchestrator.start(One(0), name="one")
            with suppress(StoreUnusable):
                Secret(orchestrator.store).get()
            Latch(path).put_on(reason="to see")

    with suppress(StoreUnusable, UsageError):
        trio.run(run)

    assert victim.read_text() == PRECIOUS
    assert not victim.with_name("other").exists()


def test_a_head_that_was_made_a_link_is_not_written_through(victim: Path, shared: Path) -> None:
    path = shared / "run.db"
    with closing(SqliteStore(path)) as store:
        claim(store, "one")
    head = shared / "run.db-head"
    head.rename(victim.with_name("aside"))
    head.symlink_to(victim)

    with pytest.raises(StoreUnusable, match="-head cannot be written"):
        SqliteStore(path)

    assert victim.read_text() == PRECIOUS


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_lies_in_the_place_of_a_latch_is_on_and_is_replaced_when_it_is_put_on(
    victim: Path, shared: Path, kind: str
) -> None:
    latch = Latch(shared / "run.db")
    latch.folder.mkdir()
    place = latch.folder / "@all"
    if kind == "link":
        place.symlink_to(victim.with_name("nothing"))
    else:
        os.mkfifo(place)

    with pytest.raises(Latched):
        latch.check("one")
    latch.put_on(reason="stop")

    assert latch.which()["@all"]["reason"] == "stop"
    assert not place.is_symlink()
    assert latch.take_off()


def test_a_head_that_somebody_else_locks_holds_nobody_up(tmp_path: Path) -> None:
    head = Head(tmp_path / "run.db")
    head.write(Noted(1, 1, "a"))
    with open(head.path) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        head.write(Noted(2, 2, "b"))
        assert head.read() == Noted(1, 1, "a")
    head.write(Noted(3, 3, "c"))

    assert head.read() == Noted(3, 3, "c")
    head.close()


def test_a_log_may_be_a_link_of_ones_own(victim: Path, shared: Path) -> None:
    (shared / "steps.jsonl").symlink_to(victim)

    with open(open_own(shared / "steps.jsonl", os.O_WRONLY | os.O_APPEND), "a") as log:
        log.write("!")

    assert victim.read_text() == f"{PRECIOUS}!"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link in another user's name")
def test_a_log_that_is_a_link_of_another_user_is_refused(victim: Path, shared: Path) -> None:
    link = shared / "steps.jsonl"
    link.symlink_to(victim)
    os.lchown(link, 12345, 12345)

    with closing(SqliteStore(shared / "run.db")) as store, pytest.raises(UsageError, match="link that another user has made"):
        LogFollower(store, link)
    with pytest.raises(PermissionError):
        open_own(link, os.O_WRONLY)
    own = shared / "own"
    own.symlink_to(link)
    with pytest.raises(PermissionError):
        open_own(own, os.O_WRONLY)
    assert victim.read_text() == PRECIOUS


def test_links_in_a_ring_are_refused(shared: Path) -> None:
    (shared / "one").symlink_to("two")
    (shared / "two").symlink_to("one")

    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        open_own(shared / "one", os.O_WRONLY)


def test_a_pipe_in_the_place_of_the_key_holds_nobody_up(shared: Path) -> None:
    os.mkfifo(shared / "run.db-key")
    with closing(SqliteStore(shared / "run.db")) as store, pytest.raises(StoreUnusable, match="plain file"):
        Secret(store).get()
