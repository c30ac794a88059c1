"""The stores of a folder, each with its own `Site`; or one store alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import define, field

from harnesses.errors import one_of
from orchestrator.errors import StoreError, UsageError
from orchestrator.store.file.run_lock import is_alive
from orchestrator.store.places.store_location import local_path
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.text.json_text import stamp_us
from orchestrator.web.site import Site

_DEPTH = 4
"""Folders below the folder that are looked into."""
_MOST = 500
"""Stores that are listed."""
_OPEN = 16
"""Stores that are open at the same time."""
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_RUNS = """
SELECT c.run, count(DISTINCT c.harness), min(r.time_us), max(r.time_us) FROM claims c
JOIN records r ON r.harness = c.harness AND r.epoch = c.epoch AND r.kind IN ('started', 'completed', 'finished', 'stopped',
    'failed', 'gave_up', 'blocked', 'budget_spent')
GROUP BY c.run ORDER BY 3 DESC LIMIT 100
"""


@define(eq=False)
class StoreFolder:
    """Stores by name: their paths within a folder.

    Args:
        place: a folder, or the file of a store.

    Raises:
        UsageError: there is no such store or folder.
    """

    place: Path
    is_one: bool = field(init=False)
    """Whether it is one store alone."""
    _sites: dict[str, Site] = field(factory=dict[str, Site])
    _lock: threading.Lock = field(factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        self.place = local_path(self.place)
        self.is_one = not self.place.is_dir()
        if self.is_one:
            self._sites[""] = Site(self.place)

    def close(self) -> None:
        while self._sites:
            self._sites.popitem()[1].close()

    def read_ahead(self) -> None:
        """Read the fleet of the one store, so that the first who asks waits less.

        Raises:
            StoreError: it cannot be read.
        """
        if self.is_one:
            self.site("").fleet.rows()

    def names(self) -> list[str]:
        """Return the names of the stores, in order."""
        return [] if self.is_one else sorted(self._walk())[:_MOST]

    def site(self, name: str) -> Site:
        """Return what is told of a store.

        Raises:
            UsageError: there is none of that name.
            StoreError: it cannot be read.
        """
        with self._lock:
            site = self._sites.pop(name, None)
            if site is not None and site.is_there:
                # The ones that were not asked for longest are closed first.
                self._sites[name] = site
                return site
            if site is not None:
                site.close()
            names = [""] if self.is_one else self.names()
            if name not in names:
                raise UsageError(f"no store {name!r:.200} in {self.place}: {one_of(names[:20], 'there is none')}")
            site = self._sites[name] = Site(self.place if self.is_one else self.place / name)
            while len(self._sites) > _OPEN:
                self._sites.pop(next(iter(self._sites))).close()
            return site

    def stores(self) -> list[dict[str, Any]]:
        """Return each store with the runs of programs on it, the store that was written to last first."""
        found = (
            [self._store("", self.place)] if self.is_one else [self._store(name, self.place / name) for name in self.names()]
        )
        return sorted(found, key=lambda one: one.get("last") or "", reverse=True)

    def _store(self, name: str, path: Path) -> dict[str, Any]:
        shown = {"store": name, "path": str(path), "bytes": path.stat().st_size if path.exists() else 0}
        try:
            with closing(open_reader(path)) as db, translated(str(path)):
                statuses = dict(db.execute("SELECT status, count(*) FROM harnesses GROUP BY status"))
                last = db.execute("SELECT time_us FROM records ORDER BY seq DESC LIMIT 1").fetchone()
                runs = db.execute(_RUNS).fetchall()
        except StoreError as error:
            return {**shown, "problem": str(error)}
        return {
            **shown,
            "harnesses": sum(statuses.values()),
            "statuses": statuses,
            "last": None if last is None else stamp_us(last[0]),
            "runs": [
                {
                    "run": run,
                    "harnesses": count,
                    "began": stamp_us(first),
                    "last": stamp_us(until),
                    "is_live": is_alive(path, run),
                }
                for run, count, first, until in runs
            ],
        }

    def _walk(self) -> Iterator[str]:
        depth = len(self.place.parts)
        for folder, folders, files in os.walk(self.place):
            here = Path(folder)
            folders[:] = [one for one in folders if not one.startswith(".") and len(here.parts) - depth < _DEPTH]
            for file in files:
                if file.endswith(_SUFFIXES) and not (here / file).is_symlink():
                    yield str((here / file).relative_to(self.place))
