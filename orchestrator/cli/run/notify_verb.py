"""The verb `notify`: sends alerts. `run` starts it as a process of its own for a file with alerts."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

import trio
from attrs import evolve

from harnesses.data.environment_variables import from_environment
from harnesses.diagnostics.extras import install_command
from orchestrator.alerts.alert_book import Alert, Book, book_path, the_only_one
from orchestrator.alerts.alert_delivery import NotDelivered, Target, message
from orchestrator.alerts.alert_facts import Facts, query_rows
from orchestrator.alerts.alert_rules import Alerts, check_ping
from orchestrator.alerts.notifier import LOOK_S, Notifier
from orchestrator.alerts.query_check import query_problems
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.run.companion import Until, end_of, start_companion
from orchestrator.cli.run.run_file import read_alert_file
from orchestrator.cli.std_streams import say
from orchestrator.cli.verb_options import DEFAULT_STORE, USUAL, Common, FilePath
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.store.places.store_location import keep_fresh, place_of, refresh
from orchestrator.web.site import Site

_NICE = 5
"""The harnesses come first."""


def notify(file: FilePath, /, *, test: bool = False, until: Until = None, common: Common = USUAL) -> int:
    """Send alerts, as the [[alert]] tables of a file configure them.

    FILE is a run file, or a TOML file with only `store`, `[[alert]]` and `[ping]`. `orchestrator run` does the same for as
    long as it runs; as a service of its own, this verb also reports that the program is gone. Alerts are kept beside the store
    (`orchestrator alerts`), delivered at least once, and retried until a target accepts them. One process sends; others wait
    for it to end. Ctrl-C ends it; the run continues.

    Args:
        file: a .toml file
        test: check the queries, send one message to each address, report whether it was accepted, and exit
        until: the process whose end is the end of the run
    """
    read = read_alert_file(file)
    alerts, targets = _with_ping(read.alerts, file), targets_of(read.alerts)
    store = place_of(common.store or os.environ.get("ORCHESTRATOR_STORE") or read.store or DEFAULT_STORE).absolute()
    problems = [*query_problems(read.alerts)]
    for problem in problems:
        say(f"notify: {file}: {problem}; correct the query: until then this rule sends no alert")
    if test:
        return _send_tests(targets, store) or (ExitCode.FAILED if problems else ExitCode.OK)
    with suppress(OSError):
        os.nice(_NICE)
    trio.run(_notify, alerts, targets, store, end_of(until))
    return ExitCode.OK


def _with_ping(alerts: Alerts, file: Path) -> Alerts:
    """Return the rules with the address of the ping as it is once variables are replaced.

    Raises:
        UsageError: a variable is not set, or its value makes no address.
    """
    if alerts.ping is None:
        return alerts
    ping = evolve(alerts.ping, url=from_environment(alerts.ping.url))
    check_ping(ping, f"{file}: [ping]")
    return Alerts(alerts.rules, ping)


def targets_of(alerts: Alerts) -> Mapping[str, Target]:
    """Return the targets of some rules, by their address as written.

    Raises:
        UsageError: an address is none, or a variable is not set.
        NotReady: `apprise` is not installed.
    """
    return {written: Target(written) for written in alerts.targets}


def start_notifier(alerts: Alerts, file: Path, store: Path) -> subprocess.Popen[bytes] | None:
    """Start the verb as a process of its own, about this program; None if there is nothing to tell.

    Raises:
        UsageError: `apprise` is not installed.
    """
    if not alerts:
        return None
    if alerts.rules and find_spec("apprise") is None:
        raise UsageError(f"{file}: [[alert]] needs apprise, which is not installed: run `{install_command('alerts')}`")
    return start_companion("notify", str(file), "--store", str(store))


def _send_tests(targets: Mapping[str, Target], store: Path) -> int:
    code = ExitCode.OK
    example = Alert(id=0, condition="", kind="test", harness="", what="this is a test of alerts", cause="", since_us=0)
    for target in targets.values():
        try:
            target.send(*message([example], store))
        except NotDelivered as error:
            code = ExitCode.FAILED
            say(f"{target.shown}: not accepted: {error}")
        else:
            say(f"{target.shown}: accepted")
    return code


async def _notify(alerts: Alerts, targets: Mapping[str, Target], store: Path, has_ended: Callable[[], bool]) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def work() -> None:
                await _work(alerts, targets, store, has_ended)
                nursery.cancel_scope.cancel()

            nursery.start_soon(work)
            await anext(aiter(signals))
            nursery.cancel_scope.cancel()


async def _work(alerts: Alerts, targets: Mapping[str, Target], store: Path, has_ended: Callable[[], bool]) -> None:
    while not has_ended():
        with the_only_one(store) as is_mine:
            if is_mine and (site := await _site(store, has_ended)) is not None:
                with closing(site), closing(Book(book_path(store))) as book:
                    facts = Facts(site, lambda sql: query_rows(str(store), sql), say)
                    await Notifier(
                        site=site,
                        facts=facts,
                        book=book,
                        alerts=alerts,
                        targets=targets,
                        store=store,
                        tell=say,
                        has_ended=has_ended,
                    ).run()
                return
        await trio.sleep(LOOK_S)


async def _site(store: Path, has_ended: Callable[[], bool]) -> Site | None:
    """Return what is told of the store once it is there; None if the program ends before."""
    while True:
        try:
            await trio.to_thread.run_sync(refresh, store)
            keep_fresh(store)
            return Site(store)
        except OrchestratorError as error:
            if has_ended():
                say(f"notify: {error}")
                return None
        await trio.sleep(0.2)
