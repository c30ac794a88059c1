"""Lives of the program that works a small pipeline: started, killed at a commit, and gone on with until all passes.

At the end of all lives: every task passes by the same artifacts; the deed was done once; no attempt was begun twice, and none
that was begun is missing from the count; the run folder is what the store gives; the store is sealed and sound.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define, frozen

from harnesses.effects.effect import EffectOutcome
from orchestrator import StoreUnusable
from orchestrator.codec import decode
from orchestrator.presets.run_folder import export_run_folder
from orchestrator.store import SqliteReader
from tests.zygote import run_python

from .lives import ROOT, assert_sound

_LONGEST_S = 60.0
_MOST_LIVES = 60
NAME = "pipeline"


@frozen
class World:
    """What is left when all is done."""

    statuses: tuple[tuple[str, str], ...]
    artifacts: tuple[tuple[str, str], ...]
    deeds: int
    manifest: tuple[str, str]


@define
class Case:
    """One folder, over all lives of the program that works in it."""

    folder: Path
    lives: int = 0

    def live(self, *arguments: str) -> bool:
        """Let the program live once; return whether it was killed."""
        self.folder.mkdir(exist_ok=True)
        self.lives += 1
        assert self.lives < _MOST_LIVES, "it does not come to its end"
        with (self.folder / "errors").open("wb") as errors:
            command = ["-m", "tests.kill.pipeline_child", str(self.folder), *arguments]
            code = run_python(*command, cwd=ROOT, stdout=errors, stderr=errors, timeout=_LONGEST_S).returncode
        said = (self.folder / "errors").read_text()
        waits = "a person must decide" in said or "unknown outcome" in said
        assert code in (0, -signal.SIGKILL) or waits, f"the program ended with code {code}:\n{said[-4000:]}"
        return code == -signal.SIGKILL

    def finish(self) -> None:
        """Let it live until all passes; what a person has to decide is decided as one would who looks."""
        while not self._is_complete():
            self.settle()
            state = self.state() or {"tasks": []}
            blocked = [task["id"]["text"] for task in state["tasks"] if task["status"] == "BLOCKED"]
            assert not self.live(*(["--unblock", *blocked] if blocked else []))

    def _is_complete(self) -> bool:
        """Return whether the program has said, in the store, that all is done."""
        try:
            with closing(SqliteReader(self.folder / "run.db")) as reader:
                return [str(harness.status) for harness in reader.harnesses()] == ["completed"]
        except StoreUnusable:
            return False

    def state(self) -> dict[str, Any] | None:
        """Return the state as it is recorded."""
        try:
            with closing(SqliteReader(self.folder / "run.db")) as reader:
                known = reader.harnesses()
                if not known or not known[0].current_step:
                    return None
                found: dict[str, Any] = decode(reader.state_at(NAME, known[0].current_step))
                return found
        except StoreUnusable:
            return None

    def settle(self) -> None:
        """Say what has become of the deed, if nobody knows: whether it was done can be seen."""
        try:
            with closing(SqliteReader(self.folder / "run.db")) as reader:
                unknown = [one for one in reader.effects(NAME, current=True) if one.outcome in _OPEN] if self.state() else []
        except StoreUnusable:
            return
        for effect in unknown:
            seen = ["done", "--result", '{"code":0,"tail":""}'] if self.deeds() else ["not-done"]
            command = ["-m", "orchestrator", "effects", "settle", NAME, effect.key, "--as", *seen]
            command += ["--reason", "looked at the file", "--store", str(self.folder / "run.db")]
            done = run_python(*command, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def deeds(self) -> int:
        """Return how often the deed was done."""
        place = self.folder / "work" / "deeds"
        return len(place.read_text().splitlines()) if place.exists() else 0

    def world(self) -> World:
        """Return what is left, having looked that it hangs together."""
        state = self.state()
        assert state is not None
        store = self.folder / "run.db"
        assert_sound(store)
        self._assert_attempts(state)
        self._assert_folder(store)
        verified = run_python("-m", "orchestrator", "verify", "--store", store, cwd=ROOT, capture_output=True)
        assert verified.returncode == 0, verified.stderr
        stages = self.folder / "work" / "run" / "artifacts" / "stages"
        manifest = json.loads((self.folder / "work" / "run" / "manifest.json").read_text())
        return World(
            statuses=tuple((task["id"]["text"], task["status"]) for task in state["tasks"]),
            artifacts=tuple((path.name, path.read_text()) for path in sorted(stages.rglob("*.json"))),
            deeds=self.deeds(),
            manifest=(manifest["status"], manifest["goal"]),
        )

    def _assert_attempts(self, state: dict[str, Any]) -> None:
        """Assert that no attempt was begun twice, and that every one that was begun is counted."""
        begun = (self.folder / "work" / "attempts").read_text().splitlines()
        assert max(Counter(begun).values()) == 1, f"an attempt was begun twice: {begun}"
        counted = {task["id"]["text"]: task["attempts"] for task in state["tasks"]}
        for line in begun:
            task, attempt = line.split()
            assert int(attempt) <= counted[task], f"{line}: more than the {counted[task]} that are counted"

    def _assert_folder(self, store: Path) -> None:
        """Assert that the live run folder is what the store gives."""
        with TemporaryDirectory() as name, closing(SqliteReader(store)) as reader:
            export_run_folder(reader, NAME, Path(name) / "out")
            assert _files(Path(name) / "out") == _files(self.folder / "work" / "run")


_OPEN = (EffectOutcome.BEGUN, EffectOutcome.UNKNOWN)


def _files(root: Path) -> dict[str, bytes]:
    return {os.path.relpath(path, root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def uninterrupted(folder: Path) -> tuple[World, int]:
    """Return what a program leaves that is not killed, and how many commits it makes."""
    case = Case(folder)
    assert not case.live("--fault=before:1000000")
    return case.world(), int((folder / "commits").read_text())


def killed_once(folder: Path, *arguments: str) -> World:
    """Return what a program leaves that is killed at one moment, and goes on."""
    case = Case(folder)
    assert case.live(*arguments), "it was not killed"
    case.finish()
    return case.world()


def killed_each_life(folder: Path, every: int, moment: str) -> tuple[World, int]:
    """Return what a program leaves that is killed so many commits after each start, and how often it was killed."""
    case, kills = Case(folder), 0
    while case.live(f"--fault={moment}:{every}"):
        kills += 1
        case.settle()
        if kills > _MOST_LIVES // 2:
            break
    case.finish()
    return case.world(), kills
