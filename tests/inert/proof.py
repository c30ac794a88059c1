"""Puts payloads through every surface and counts what is active."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from orchestrator import Orchestrator
from tests.inert import page, screen, surfaces
from tests.inert.checkers import CHECKERS
from tests.inert.hostile_store import Hostile, record
from tests.inert.surfaces import Shown
from tests.orchestrator.web.conftest import TOKEN, open_browser, serving

_MARK = re.compile(r"~(\d+)~")


@define
class Proof:
    """What was shown, and what was active."""

    active: dict[str, list[str]] = field(factory=lambda: defaultdict[str, list[str]](list))
    """By surface."""
    shown: dict[str, set[int]] = field(factory=lambda: defaultdict[str, set[int]](set))
    """By surface, the numbers of the texts that it showed."""
    outputs: Counter[str] = field(factory=Counter[str])

    def add(self, shown: Shown, found: Sequence[str]) -> None:
        """Note an output of one surface."""
        self.outputs[shown.surface] += 1
        self.active[shown.surface] += found
        self.shown[shown.surface] |= {int(number) for number in _MARK.findall(shown.text)}

    def join(self, other: Proof) -> None:
        """Note what another proof has noted."""
        self.outputs += other.outputs
        for surface, found in other.active.items():
            self.active[surface] += found
        for surface, numbers in other.shown.items():
            self.shown[surface] |= numbers

    @property
    def wrong(self) -> dict[str, list[str]]:
        return {surface: found for surface, found in self.active.items() if found}


def prove(texts: Sequence[str], folder: Path, browser: Any, proof: Proof, *, is_short: bool = False) -> None:
    """Put texts through every surface.

    Args:
        browser: the page is looked at in it.
        is_short: whether surfaces that are written by the same code are left out.
    """
    for shown, found in _all(texts, folder, browser, is_short):
        proof.add(shown, found)


def proof_of(texts: Sequence[str]) -> Proof:
    """Put texts through every surface, with a browser and a folder of its own."""
    proof = Proof()
    with open_browser() as browser, tempfile.TemporaryDirectory() as folder:
        prove(texts, Path(folder), browser, proof)
    return proof


def _all(texts: Sequence[str], folder: Path, browser: Any, is_short: bool) -> Iterator[tuple[Shown, list[str]]]:
    live, hostile = trio.run(_record, folder, texts)
    for shown in chain(live, surfaces.recorded(hostile, is_short), trio.run(_api, hostile)):
        yield shown, CHECKERS[shown.checker](shown.text)
    yield from screen.look(hostile)
    with serving(hostile.path, {**os.environ, "ORCHESTRATOR_TOKEN": TOKEN}) as url:
        yield from page.look(browser, url, hostile)
    found, text = page.report(browser, hostile.report)
    yield Shown("report in a browser", "", text), found


async def _record(folder: Path, texts: Sequence[str]) -> tuple[list[Shown], Hostile]:
    shown = list[Shown]()

    def watch(path: Path) -> Callable[[Orchestrator, Hostile], Awaitable[None]]:
        live = surfaces.Live(path)

        async def look(orchestrator: Orchestrator, hostile: Hostile) -> None:
            shown.extend(await live.look(orchestrator, hostile))

        return look

    with redirect_stderr(StringIO()) as err, redirect_stdout(StringIO()) as out:
        hostile = await record(folder / "run.db", texts, watch)
    shown.append(Shown("standard error of the program", "lines", err.getvalue()))
    shown.append(Shown("standard output of the program", "json lines", out.getvalue()))
    return shown, hostile


async def _api(hostile: Hostile) -> list[Shown]:
    return [shown async for shown in surfaces.api(hostile)]
