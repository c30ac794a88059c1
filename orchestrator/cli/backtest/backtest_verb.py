"""The verb `backtest`: options of a strategy, tried on a recording, by one or by many processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from attrs import define, field, frozen
from cyclopts import Parameter

from orchestrator.cli.exit_codes import ExitCode, of_run
from orchestrator.cli.std_streams import say
from orchestrator.cli.verb_options import USUAL, Common, Count, FilePath, print_all
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line

if TYPE_CHECKING:
    from orchestrator.analysis.answers.answer import Answer
    from orchestrator.cli.backtest.backtest_plan import Trial
    from orchestrator.cli.backtest.backtest_results import Measure, Result
    from orchestrator.cli.backtest.backtest_worker import Maker
    from orchestrator.cli.backtest.parameter_grid import Options
    from orchestrator.cli.run.run_file import Table
    from orchestrator.outcome import Outcome

_IN_SAMPLE = 3
_ROWS = 20
_NEWS_S = 5.0


def backtest(
    file: FilePath,
    /,
    *,
    grid: Annotated[tuple[str, ...], Parameter(metavar="NAME=VALUE,…")] = (),
    walk_forward: Annotated[Count | None, Parameter(metavar="FOLDS")] = None,
    in_sample: Annotated[Count | None, Parameter(metavar="PARTS")] = None,
    by: Literal["sharpe", "sortino", "calmar", "gain"] = "sharpe",
    harness: Annotated[str | None, Parameter(metavar="NAME")] = None,
    html: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    most: Annotated[Count, Parameter(metavar="N")] = 1000,
    workers: Annotated[str, Parameter(metavar="N")] = "auto",
    common: Common = USUAL,
) -> int:
    """Run a trading harness of a run file over its recording, with one or many sets of options.

    The same harness trades on paper or live when it has another feed and broker. Options are those of its strategy, by name;
    combinations that the strategy refuses are left out. Started again after it was stopped or killed, it goes on where it was:
    what is finished is not run again. The store is FILE-backtest.db beside the run file, unless --store names another.

    With --json, each row is an object.

    Exit codes: 0 ok, 1 a trial failed, 2 usage, 3 stopped and can be resumed.

    Examples:
        orchestrator backtest run.toml                                            the options of the file
        orchestrator backtest run.toml --grid fast=10,20,30 --grid slow=50,100    six combinations, the best first
        orchestrator backtest run.toml --grid fast=10,20 --walk-forward 4         chosen on the past, tried on what came after
        orchestrator analyze before.db compare after.db                           two backtests, by the names of their trials

    Args:
        file: a run file (.toml) with a trading harness whose feed is a recording
        grid: values of an option of the strategy; may be given several times
        walk_forward: choose on one part of the recording, try on the next, so many times
        in_sample: how many times longer than a test the part is that a choice depends on; 3 unless given
        by: what the best one has most of; sharpe unless given
        harness: which one, if the file has several that trade
        html: write a page that needs no network, with the best one in full; pictures need the extra report
        most: refuse a grid of more combinations; 1000 unless given
        workers: run in so many processes; auto is one for each core
    """
    from orchestrator.workers.run_workers import workers_of

    store = Path(common.store) if common.store else file.with_name(f"{file.stem}-backtest.db")
    if "://" in (common.store or ""):
        raise UsageError(f"--store {common.store}: expected a file for a backtest; name one")
    if html is not None and not html.absolute().parent.is_dir():
        raise UsageError(f"--html {html}: its folder is not there: expected one that is; make it, or name another file")
    past = _in_sample(walk_forward, in_sample)
    asked = Asked(file, store, grid, harness, walk_forward, past, by, most)
    return _Backtest.begin(asked, workers_of(workers)).run(html, as_json=common.json)


def _in_sample(folds: int | None, parts: int | None) -> int:
    if folds is None and parts is not None:
        raise UsageError(f"--in-sample {parts}: expected --walk-forward with it; give both, or neither")
    for name, value in (("--walk-forward", folds), ("--in-sample", parts)):
        if value == 0:
            raise UsageError(f"{name} 0: expected 1 or more; leave it out, or correct it")
    return _IN_SAMPLE if parts is None else parts


@frozen
class Asked:
    """What the command line says."""

    file: Path
    store: Path
    grid: tuple[str, ...]
    harness: str | None
    folds: int | None
    in_sample: int
    by: Measure
    most: int


@define(eq=False)
class _Backtest:
    """A backtest under way."""

    asked: Asked
    workers: int
    text: str
    """Of the run file. It is read once: a change while the trials run is in none of them."""
    table: Table
    maker: Maker
    options: Sequence[Options]
    data: Mapping[str, str]
    """Digests of files that results depend on."""
    failed: dict[str, Outcome] = field(factory=dict[str, "Outcome"])
    shown: list[Result] = field(factory=list["Result"])
    """The results that a map of the grid shows."""

    @classmethod
    def begin(cls, asked: Asked, workers: int) -> _Backtest:
        """Read the run file, and check everything before anything runs.

        Raises:
            UsageError: something is not as expected.
        """
        from orchestrator.cli.backtest.backtest_plan import Plan, digests, trading_table
        from orchestrator.cli.backtest.backtest_worker import Maker
        from orchestrator.cli.backtest.parameter_grid import combine, fit, parse_axes
        from orchestrator.cli.run.run_file import parse_run_file, read_text

        axes = parse_axes(asked.grid)
        combinations = combine(axes, asked.most)
        text = read_text(asked.file)
        table = trading_table(parse_run_file(text, asked.file), asked.harness)
        path = asked.file.absolute()
        maker = Maker.of(Plan(str(path), text), asked.store)
        fitting = fit(table.config.arguments.get("strategy", "rsi"), axes, combinations, table.where)
        for why in fitting.refused[:1]:
            say(f"{len(fitting.refused)} of {len(combinations)} combinations are left out; {one_line(why, CAUSE_WIDTH)}")
        return cls(asked, workers, text, table, maker, fitting.options, digests(table))

    def run(self, html: Path | None, *, as_json: bool) -> int:
        """Run what is not finished, show what came of it, and return the exit code."""
        from orchestrator.cli.backtest.backtest_plan import max_jump_of
        from orchestrator.cli.backtest.backtest_results import withheld

        try:
            shown, best = self._forward(self.asked.folds) if self.asked.folds else self._compare()
        except _Stopped:
            say("to go on where it was: give the same command again")
            return self._code(ExitCode.STOPPED)
        for line in withheld(self.maker.recording(self.table), max_jump_of(self.table)):
            say(line)
        print_all(_lines(shown, as_json=as_json))
        if html is not None:
            self._write_page(html, shown, best)
        return self._code()

    def _code(self, *besides: ExitCode) -> int:
        causes: dict[str, list[str]] = {}
        for name, outcome in self.failed.items():
            causes.setdefault(str(outcome).replace(name, "…"), []).append(name)
        for cause, names in causes.items():
            say(f"orchestrator: {', '.join(names)} {one_line(cause, 500)}")
        return of_run(self.failed.values(), besides)

    def _compare(self) -> tuple[list[Answer], list[Trial]]:
        from orchestrator.cli.backtest.backtest_plan import trial_of
        from orchestrator.cli.backtest.backtest_results import grid_answer, known_measure, rank

        results = self.shown = self._results([trial_of(self.table, options) for options in self.options])
        best = rank(results, known_measure(results, self.asked.by))[:1]
        return [grid_answer(results, self.asked.by, len(self.options))], [one.trial for one in best]

    def _forward(self, folds: int) -> tuple[list[Answer], list[Trial]]:
        from orchestrator.cli.backtest.backtest_plan import trial_of
        from orchestrator.cli.backtest.backtest_results import choose, forward_answer, held_gain
        from orchestrator.cli.backtest.walk_forward import fold

        made = fold(self.maker.recording(self.table).times, folds, self.asked.in_sample)
        past = "to choose from" if len(self.options) > 1 else "to run on the past"
        results = self._results([trial_of(self.table, options, one) for one in made for options in self.options], past)
        chosen: dict[int, Result] = {}
        for one in made:
            own = [each for each in results if each.trial.fold == one.number]
            best = choose(own, self.asked.by)
            chosen[one.number] = next(each for each in own if each.trial is best)
        trials = [trial_of(self.table, chosen[one.number].trial.options, one, is_test=True) for one in made]
        tests = {each.trial.fold or 0: each for each in self._results(trials, "to test on what came after")}
        lost = [trial.name for trial in trials if trial.fold not in tests]
        if lost:
            raise UsageError(
                f"{lost[0]} has no result: expected one of each test; see why: orchestrator analyze why {lost[0]}"
            )
        held = held_gain(self.maker.recording(self.table).between(made[0].test, made[-1].end))
        return [forward_answer(made, chosen, tests, self.asked.by, held)], [tests[one.number].trial for one in made]

    def _results(self, trials: Iterable[Trial], what: str = "to run") -> list[Result]:
        """Run the trials that are not finished, and return the results of those that are now.

        Args:
            what: what is done with those that are left, for the line that says so.

        Raises:
            _Stopped: it was told to stop.
        """
        import trio

        from orchestrator.cli.backtest.backtest_plan import Plan, merge, read_plan, stamp, write_plan
        from orchestrator.cli.backtest.backtest_results import read_result
        from orchestrator.store.places.store_location import open_store
        from orchestrator.store.sqlite.sqlite_reader import SqliteReader

        stamped = [stamp(trial, self.table, self.data) for trial in trials]
        store = self.asked.store
        now = Plan(str(self.maker.file.path), self.text, {one.name: one for one in stamped})
        write_plan(store, merge(read_plan(store), now, store))
        with closing(open_store(store)):
            pass  # one that was killed while it was made is made whole, which a reader cannot do
        left = _left(store, [one.name for one in stamped])
        if left:
            self.maker.make_planned(next(one for one in stamped if one.name == left[0]))  # a mistake is told once, here
            say(f"{len(left)} of {len(stamped)} {what}, recorded in {store}")
            trio.run(self._run, left)
        unfinished = _left(store, [one.name for one in stamped])
        if any(name not in self.failed for name in unfinished):
            raise _Stopped
        with closing(SqliteReader(store)) as reader:
            return [read_result(reader, one) for one in stamped if one.name not in unfinished]

    async def _run(self, names: Sequence[str]) -> None:
        import trio

        from orchestrator.control import control_server as serving
        from orchestrator.outcome import OutcomeKind
        from orchestrator.workers.run_workers import run_workers

        outcomes: dict[str, Outcome] = {}
        lost: OrchestratorError | None = None
        async with trio.open_nursery() as beside:
            beside.start_soon(_tell_progress, self.asked.store, names)
            start = "orchestrator.cli.backtest.backtest_worker:start"
            try:
                outcomes = await run_workers(
                    start, names, store=self.asked.store, workers=self.workers, control=serving.is_there()
                )
            except OrchestratorError as error:
                lost = error  # raised outside of the nursery, which would make a group of it
            beside.cancel_scope.cancel()
        if lost is not None:
            raise lost
        bad = (OutcomeKind.FAILED, OutcomeKind.GAVE_UP, OutcomeKind.BLOCKED, OutcomeKind.BUDGET_SPENT)
        self.failed |= {name: outcome for name, outcome in outcomes.items() if outcome.kind in bad}

    def _write_page(self, path: Path, shown: Sequence[Answer], best: Sequence[Trial]) -> None:
        from orchestrator.cli.backtest.backtest_page import grid_picture, write_page
        from orchestrator.cli.backtest.backtest_results import known_measure

        grid = grid_picture(self.shown, known_measure(self.shown, self.asked.by))
        write_page(path, shown, best, self.asked.store, title=f"Backtest of {self.table.config.name}", grid=grid)


class _Stopped(Exception):
    """It was told to stop before everything was finished."""


def _left(store: Path, names: Sequence[str]) -> list[str]:
    """Return the names of the trials that are not finished."""
    from orchestrator.lifecycle import Status
    from orchestrator.store.sqlite.sqlite_reader import SqliteReader

    with closing(SqliteReader(store)) as reader:
        over = {one.name for one in reader.harnesses() if one.status in (Status.COMPLETED, Status.FINISHED)}
    return [name for name in names if name not in over]


async def _tell_progress(store: Path, names: Sequence[str]) -> None:
    import trio

    told = 0
    while True:
        await trio.sleep(_NEWS_S)
        done = len(names) - len(await trio.to_thread.run_sync(_left, store, names))
        if done > told:
            say(f"{done} of {len(names)} are finished")
            told = done


def _lines(answers: Iterable[Answer], *, as_json: bool) -> Iterable[str]:
    import shutil

    from orchestrator.cli.query import answer_tables as tables

    for answer in answers:
        if as_json:
            yield from tables.json_lines(answer, limit=None)
        else:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            yield from tables.text_lines(answer, width=width, limit=_ROWS)
