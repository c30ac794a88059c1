"""`orchestrator run`, its workers, its control socket and its page work on a store on a server as on a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import trio

from orchestrator import Orchestrator, OutcomeKind, run_workers
from orchestrator.cli import main
from orchestrator.cli.run.notify_verb import _site as find_site  # pyright: ignore[reportPrivateUsage]
from orchestrator.store import PostgresStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.places.store_location import place_of
from orchestrator.web.store_folder import StoreFolder
from tests import ROOT
from tests.docs.clock import until
from tests.orchestrator.commanded import Ticking
from tests.orchestrator.store.postgres.test_postgres_faults import wait_until
from tests.orchestrator.workers.worker_harnesses import LIMIT

FILE = """
{store}
[[harness]]
name = "one"
harness = "tests.orchestrator.commanded:{kind}"
initial_state = 0

[[harness]]
name = "two"
harness = "tests.orchestrator.commanded:{kind}"
initial_state = 0
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command; what has not ended at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "orchestrator", *words]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)


@pytest.mark.parametrize("words", [[], ["--workers", "2"], ["--json"]], ids=["alone", "workers", "json"])
def test_a_run_file_names_a_store_on_a_server(database: str, tmp_path: Path, start: Start, words: list[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text(FILE.format(store=f'store = "{database}"', kind="Three"))

    said, errors = start("run", str(file), *words).communicate(timeout=60)

    with closing(PostgresStore(database)) as store:
        assert [one.current_step for one in store.harnesses()] == [3, 3], errors
        assert len({record.run for record in store.records() if record.run}) == (2 if "--workers" in words else 1)
        if "--json" in words:
            assert len(said.splitlines()) == store.last_seq()
        else:
            assert database in errors
            assert "completed" in errors


def test_a_run_on_a_server_takes_orders_from_a_second_terminal(
    database: str, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(FILE.format(store="", kind="Ticking"))
    program = start("run", str(file), "--store", database, "--quiet", "--listen", "127.0.0.1:0")
    with closing(PostgresStore(database)) as store:
        wait_until(lambda: store.last_seq() > 20)
    page = program.stderr
    assert page is not None
    address = page.readline().strip()

    for verb in ("pause", "resume", "stop"):
        assert main([verb, "one", "--store", database, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["done"]
    assert main(["metrics", "--store", database]) == 0
    assert "orchestrator_info{run" in capsys.readouterr().out
    place, token = address.split("?token=")
    fleet = Request(f"{place}api/fleet", headers={"Authorization": f"Bearer {token}"})
    wait_until(lambda: b'"stopped"' in urlopen(fleet, timeout=20).read())
    assert main(["kill-switch", "on", "--store", database]) == 0
    assert main(["stop", "two", "--store", database]) == 0
    assert program.wait(timeout=30) == 3


async def test_a_program_is_seen_while_it_runs(database: str) -> None:
    """Its control socket, its status and its leases; and the page sees what is committed since it was opened."""
    async with Orchestrator(database, control=True) as orchestrator:
        handle = orchestrator.start(Ticking(0), name="one")
        await until(lambda: handle.durable_step > 2)
        site = (await trio.to_thread.run_sync(StoreFolder, Path(database))).site("")
        assert await trio.to_thread.run_sync(lambda: site.is_live)
        assert [one.owned for one in site.reader.harnesses()] == [True]
        handle.stop()
        assert (await handle.wait()).kind is OutcomeKind.STOPPED
    site.close()


async def test_who_tells_people_sees_what_is_committed_on_a_server(database: str) -> None:
    path = place_of(database)
    with closing(PostgresStore(database)) as store:
        site = await find_site(path, lambda: False)
        assert site is not None
        claimed = claim(store, "one")
        store.commit([step_row(claimed, 1)])
        await until(lambda: site.reader.last_seq() == 1)
        assert [one.owned for one in site.reader.harnesses()] == [True]
    await until(lambda: not site.reader.harnesses()[0].owned)
    site.close()


async def test_run_workers_takes_an_address(database: str) -> None:
    names = ("asking", "other", "first", "second")
    outcomes = await run_workers(
        "tests.orchestrator.workers.worker_harnesses:start", names, store=database, workers=2, control=False
    )
    assert outcomes["asking"].kind is OutcomeKind.FINISHED
    with closing(PostgresStore(database)) as store:
        assert sum(len(store.steps(name)) for name in ("first", "second")) == LIMIT
