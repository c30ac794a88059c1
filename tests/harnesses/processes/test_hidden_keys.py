"""The key of approvals is empty for what a harness starts, also without a sandbox. Real processes."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesses.files import private_files
from harnesses.files.private_files import conceal_key
from harnesses.files.safe_files import key_in, make_key
from harnesses.processes.bounded_command import run_bounded
from harnesses.processes.process_tree import HAS_REAPER, can_hide_files

pytestmark = pytest.mark.skipif(
    not (HAS_REAPER and can_hide_files()), reason="the kernel lets no process have its own view of the files"
)

_ATTACK = """
import ctypes, json, os, subprocess, sys
key, parent = sys.argv[1], os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
libc.umount2(key.encode(), 2)
libc.setns(os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)
ways = [key, "/proc/self/root" + key, "/proc/self/cwd/" + os.path.basename(key), os.path.basename(key)]
ways += [f"/proc/{pid}/root{key}" for pid in os.listdir("/proc") if pid.isdigit()]
told = {}
for way in ways:
    try:
        told[way] = open(way).read()
    except OSError as error:
        told[way] = ""
nested = ["unshare", "-Urm", "sh", "-c", f"umount {key}; cat {key}"]
told["nested"] = subprocess.run(nested, capture_output=True, text=True).stdout
told["cwd"] = os.getcwd()
print(json.dumps({way: text for way, text in told.items() if text}))
"""


@pytest.fixture
def key(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run.db-key"
    make_key(path)
    concealed = conceal_key(path)
    yield path
    concealed.reveal()


def content(path: Path) -> bytes:
    return key_in(path.read_text())


async def test_a_command_finds_the_key_empty_whatever_way_it_takes(key: Path) -> None:
    ran = await run_bounded([sys.executable, "-c", _ATTACK, str(key)], limit_s=30, cwd=key.parent, tail_bytes=100_000)

    assert json.loads(ran.tail.strip().splitlines()[-1]) == {"cwd": str(key.parent)}
    assert content(key)


async def test_a_key_that_is_not_made_yet_is_made_and_hidden(tmp_path: Path) -> None:
    path = tmp_path / "later-key"
    concealed = conceal_key(path)
    try:
        ran = await run_bounded(["cat", path], limit_s=10)
    finally:
        concealed.reveal()

    assert (ran.code, ran.tail) == (0, "")
    assert content(path)


async def test_all_else_is_as_without(key: Path, tmp_path: Path) -> None:
    ran = await run_bounded(
        ["sh", "-c", "id -u; umask; echo x > new; chown $(id -u):$(id -g) new; cat new; kill -TERM $$"],
        limit_s=10,
        cwd=tmp_path,
    )

    assert ran.tail.split()[::2] == [str(os.geteuid()), "x"]
    assert ran.code == -15


async def test_without_a_key_to_hide_no_view_of_its_own_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "_keys", Counter())
    ran = await run_bounded(["readlink", "/proc/self/ns/mnt"], limit_s=10)

    assert ran.tail.strip() == os.readlink("/proc/self/ns/mnt")
