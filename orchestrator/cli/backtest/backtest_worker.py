"""A worker of a backtest: it makes and runs its trials, a few at a time, on recordings that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import trio
from attrs import define, evolve, field, frozen

from harnesses.errors import HarnessError
from harnesses.run_file_harnesses.trading_table import read_paper_broker, read_recording, read_strategy
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.paper.paper_broker import PaperBroker
from harnesses.trading.warm_up import warm_up
from orchestrator.cli.backtest.backtest_plan import Plan, Trial, digests, read_plan, stamp, table_of, trading_table
from orchestrator.cli.backtest.venue_replay import restore
from orchestrator.cli.run.code_loading import find_modules_in
from orchestrator.cli.run.harness_factory import Made, make
from orchestrator.cli.run.run_file import RunFile, Table, parse_run_file
from orchestrator.errors import UsageError
from orchestrator.orchestrator import Orchestrator
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_capabilities import place_beside

_AT_ONCE = 4
"""Trials at a time in a process: while some wait for the disk, others compute, and one commit serves all of them."""
_PERIOD_S = 0.0
"""The recording is there at once."""


@frozen
class MadeTrial:
    """The harness of a trial with its terms, and what it trades on."""

    made: Made
    broker: PaperBroker
    feed: ReplayFeed

    async def run(self, orchestrator: Orchestrator, store: Path) -> None:
        """Run it to its end, from where it was."""
        name = self.made.config.name
        with closing(SqliteReader(store)) as reader:
            if reader.harnesses([name]):
                await restore(self.broker, self.feed, reader, name)
        await self.made.start(orchestrator).wait()


@define(eq=False)
class Maker:
    """Makes the harnesses of trials.

    Args:
        file: the run file.
        store: where the trials are recorded.
    """

    file: RunFile
    store: Path
    _recordings: dict[str, ReplayFeed] = field(factory=dict[str, ReplayFeed])
    """By the name of the harness."""
    _digests: dict[str, Mapping[str, str]] = field(factory=dict[str, Mapping[str, str]])
    """Of the files that a harness is made from, by its name; made after they were read."""

    @classmethod
    def of(cls, plan: Plan, store: Path) -> Maker:
        """Return one for a plan, which can import what is beside its run file."""
        path = Path(plan.file)
        find_modules_in(path.parent, Path.cwd())
        return cls(parse_run_file(plan.text, path), store)

    def recording(self, table: Table) -> ReplayFeed:
        """Return the whole recording of a harness, read once.

        Raises:
            UsageError: it has none, or one that cannot be read.
        """
        name = table.config.name
        if name not in self._recordings:
            try:
                self._recordings[name] = read_recording(table.config.arguments.get("feed", {}), table.beside)
            except (HarnessError, OSError) as error:
                raise UsageError(f"{table.where}: {error}") from error
        return self._recordings[name]

    def make(self, trial: Trial) -> MadeTrial:
        """Return what runs a trial.

        Raises:
            UsageError: it cannot be made.
        """
        table = trading_table(self.file, trial.harness)
        own = table_of(trial, table)
        arguments: dict[str, Any] = {**own.config.arguments, "period_s": _PERIOD_S}
        try:
            strategy = read_strategy(arguments["strategy"])
            broker = read_paper_broker(arguments["broker"], table.beside)
        except (HarnessError, OSError) as error:
            raise UsageError(f"{table.where}: {trial.name}: {error}") from error
        feed = self.recording(table).between(trial.begin, trial.end)
        arguments["strategy"] = strategy if trial.since is None else warm_up(strategy, trial.since)
        arguments["feed"], arguments["broker"] = feed, broker
        return MadeTrial(make(evolve(own, config=evolve(own.config, arguments=arguments)), self.store), broker, feed)

    def make_planned(self, trial: Trial) -> MadeTrial:
        """Return what runs a trial of a plan.

        Raises:
            UsageError: it cannot be made, or would depend on other data or code than when the backtest began.
        """
        made, table = self.make(trial), trading_table(self.file, trial.harness)
        if trial.harness not in self._digests:
            self._digests[trial.harness] = digests(table)
        if stamp(trial, table, self._digests[trial.harness]).digest != trial.digest:
            raise UsageError(
                f"{table.where}: {trial.name} cannot go on: expected data and code as they were when the backtest began, "
                "a file has changed; restore it and give the same command again, or give another --store"
            )
        return made


async def start(orchestrator: Orchestrator, names: Sequence[str]) -> None:
    """Run trials to their end; called in each worker."""
    store = place_beside(orchestrator.store)
    plan = None if store is None else read_plan(store)
    if store is None or plan is None:
        raise UsageError("backtest: expected a plan beside the store, was none; start it with `orchestrator backtest`")
    maker, left = Maker.of(plan, store), iter(names)

    async def work() -> None:
        for name in left:
            if orchestrator.signalled:
                return
            await maker.make_planned(plan.trials[name]).run(orchestrator, store)

    async with trio.open_nursery() as nursery:
        for _ in range(min(_AT_ONCE, len(names))):
            nursery.start_soon(work)
