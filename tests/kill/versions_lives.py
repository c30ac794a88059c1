"""Lives whose state class changes: each is killed at random, some go on with the next version of the class.

At the end: the state is what the migrations make of the counts on record; one `migrated` record for each version step that was
gone; every state before a migration has the shape it was stored with; the store is sealed and sound.
"""

from __future__ import annotations

import random
import subprocess
import time
from contextlib import closing
from pathlib import Path

from attrs import frozen

from orchestrator.codec import decode
from orchestrator.store import SqliteReader
from orchestrator.store.rules.state_rules import version_at

from .lives import assert_sound, start
from .versions_child import VERSIONS

_LONGEST_S = 60.0


@frozen
class End:
    """What was gone through."""

    kills: int
    migrations: int


def _live(store: Path, version: int, until: int, after_s: float | None) -> bool:
    """Let the program live once; return whether it was killed, `after_s` seconds after its first step."""
    words = ["-m", "tests.kill.versions_child", str(store), f"--version={version}", f"--until={until}"]
    with start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        if after_s is not None:
            assert process.stdout is not None
            if after_s > 0:
                process.stdout.read(1)
            time.sleep(abs(after_s))  # below 0: wherever it is by then, in the midst of its start
            process.kill()
        _, said = process.communicate(timeout=_LONGEST_S)
    assert process.returncode in (0, -9), said.decode()[-2000:]
    return process.returncode == -9


def kill_between_versions(folder: Path, *, kills: int, seed: int) -> End:
    """Kill so often, then let it come to its end with the last version, and check what is on record."""
    chance, store, done, version = random.Random(seed), folder / "run.db", 0, 1
    folder.mkdir(exist_ok=True)
    lives = 0
    while done < kills and lives < 4 * kills + 10:
        lives += 1
        done += _live(store, version, 1_000_000, chance.choice([0.002, 0.02, 0.1, -0.1, -0.2]) * chance.random())
        version = min(version + (chance.random() < 0.4), len(VERSIONS))
    with closing(SqliteReader(store)) as reader:
        until = reader.harnesses()[0].current_step + 5
    assert not _live(store, len(VERSIONS), until, None)
    _check(store, until)
    with closing(SqliteReader(store)) as reader:
        migrations = sum(bool(row.seq) for row in reader.state_versions("counting"))
    return End(done, migrations)


def _check(store: Path, until: int) -> None:
    with closing(SqliteReader(store)) as reader:
        steps = [step.step_number for step in reader.steps("counting", limit=until + 10)]
        assert steps == list(range(1, until + 1)), "a step is missing or repeated"
        versions = reader.state_versions("counting")
        migrated = [record for record in reader.records(limit=1_000_000) if record.kind == "migrated"]
        # Each goes on from where the one before it has ended.
        path = [(decode(one.body)["from_version"], decode(one.body)["to_version"]) for one in migrated]
        assert [pair[0] for pair in path[1:]] == [pair[1] for pair in path[:-1]], path
        assert path[-1][1] == len(VERSIONS)
        first = path[0][0]  # the program may have died before it had claimed anything with an earlier one
        assert [(one.step, decode(one.body)["to_version"]) for one in migrated] == [
            (row.step, row.version) for row in versions if row.seq
        ]
        trace: list[list[int]] = []
        gone = dict.fromkeys(range(1, len(VERSIONS) + 1), 0)
        for one in migrated:
            for version in range(decode(one.body)["from_version"] + 1, decode(one.body)["to_version"] + 1):
                trace.append([version, one.step])
                gone[version] += 1
        assert all(count == 1 for version, count in gone.items() if version > first), gone
        for step in range(until + 1):
            version = version_at(versions, step)
            seen = [pair for pair in trace if pair[0] <= version]
            assert decode(reader.state_at("counting", step)) == {f"n{version}": step, "trace": seen}
    assert_sound(store)
