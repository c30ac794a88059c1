"""The `run` verb: a run file or a supervisor script, from the first import to the exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TypeAlias, cast

import trio
from attrs import define, field, frozen
from cyclopts import Parameter

from harnesses.diagnostics.error_groups import leaves
from harnesses.diagnostics.extras import install_command
from harnesses.diagnostics.uncaught_errors import VARIABLE, wants_tracebacks
from orchestrator.cli.exit_codes import EndedBySignal, ExitCode, of_error
from orchestrator.cli.run.code_loading import find_modules_in, is_program, read_script, run_program
from orchestrator.cli.run.companion import start_companion
from orchestrator.cli.run.live_display import LiveTable, View, choose_view, follow
from orchestrator.cli.run.run_file import parse_run_file, read_run_file
from orchestrator.cli.run.run_file_reload import RunningFile
from orchestrator.cli.run.run_file_workers import Workers
from orchestrator.cli.run.run_report import Result, report, say_error, ways_on
from orchestrator.cli.run.service_manager import stay_alive, tell_manager
from orchestrator.cli.run.watchdog import OUTSIDE_S, Watchdog
from orchestrator.cli.std_streams import keep_talking, say
from orchestrator.cli.verb_options import DEFAULT_STORE, USUAL, Common, Count, FilePath, Seconds, WordsOrDash
from orchestrator.control import control_server as serving
from orchestrator.control.run_services import address_of, control_asked_for
from orchestrator.errors import OrchestratorError, SystemTaskFailed, UsageError
from orchestrator.log_file import is_stream, open_target
from orchestrator.operating.kill_switch_orders import in_words
from orchestrator.orchestrator import Orchestrator
from orchestrator.outcome import Outcome, OutcomeKind
from orchestrator.runtime.system_faults import system_fault
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.places.store_location import open_store, place_of
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.store.sqlite.sqlite_store import SqliteStore
from orchestrator.store.store_capabilities import kill_switch_of
from orchestrator.telemetry.otlp_export import is_asked_for
from orchestrator.text.command_hints import command
from orchestrator.workers.placement import place
from orchestrator.workers.run_workers import workers_of
from orchestrator.workers.worker_channel import Begun, Report, WorkerChannel
from orchestrator.workers.worker_program import ended

_DRAIN_S = 10.0
_MARGIN_S = 5.0 - OUTSIDE_S
"""After the drain bound, until the program is ended by force: for the last commits, the log and the store."""
_GIVE_TERMINAL_BACK = "\x1b[?25h\n"
"""Shows the cursor, and leaves the table's last line."""


def run(
    file: FilePath,
    /,
    *arguments: Annotated[str, Parameter(metavar="-- ARG")],
    log: Annotated[WordsOrDash | None, Parameter(metavar="PATH")] = None,
    drain: Seconds | None = None,
    metrics: Annotated[str | None, Parameter(metavar="HOST:PORT")] = None,
    traces: Annotated[str | None, Parameter(metavar="URL")] = None,
    listen: Annotated[str | None, Parameter(metavar="HOST:PORT")] = None,
    open: bool = False,
    workers: Annotated[str, Parameter(metavar="N")] = "1",
    quiet: bool = False,
    traceback: bool = False,
    worker: Annotated[Count | None, Parameter(show=False)] = None,
    common: Common = USUAL,
) -> int:
    """Run a run file (.toml), a supervisor script or a program (.py).

    A supervisor script has `async def supervise(orchestrator)`; a program makes an Orchestrator itself. What follows `--` is
    passed to the program as arguments: `orchestrator run program.py -- --limit 40`. A program chooses its own exit code, store
    and log. It takes orders from a second terminal unless it sets Orchestrator(control=False), or the environment has
    ORCHESTRATOR_CONTROL=0.

    With --json, every record is written to standard output when it is committed.

    Exit codes: 0 ok, 1 a harness failed, 2 usage, 3 stopped and can be resumed, 4 waiting for a person, 5 the store
    contradicts itself, 6 effects of unknown outcome, 75 owned by another process, 130 and 143 ended by SIGINT and SIGTERM.

    Args:
        file: a .toml or a .py file
        arguments: arguments of a program
        log: append a JSON line for each record to this file; - is standard output
        drain: seconds that harnesses have to end after a first Ctrl-C or SIGTERM (default: 10); a second one cancels at once;
            5 s later the program ends in any case
        metrics: serve the metrics of the run to Prometheus; a port without a host is reachable from this machine only
        traces: send a span for each attempt, step and effect to a collector (default: what OTEL_* variables say, or none)
        listen: show the page of `orchestrator serve` there for as long as the run lasts
        open: the same, at any free port of this machine, and open it in a browser
        workers: run the harnesses of a run file in so many processes, on one store; auto is one for each core
        quiet: report only failures
        traceback: show the traceback of every error, also of one whose message says what to do
    """
    options = RunOptions(
        file=file,
        store=common.store or os.environ.get("ORCHESTRATOR_STORE") or None,
        log=log,
        as_json=common.json,
        drain_s=drain,
        quiet=quiet,
        metrics=metrics,
        traces=traces,
        page=("--listen", listen or "127.0.0.1:0", *(["--open"] if open else [])) if open or listen else (),
        is_store_given=bool(common.store),
        arguments=arguments,
        traceback=traceback,
        workers=workers_of(workers),
        channel=None if worker is None else WorkerChannel.open(worker),
    )
    return run_file(options)


@frozen(kw_only=True)
class RunOptions:
    """What the command line says."""

    file: Path
    store: str | None = None
    """From the command line or the environment; it goes before what the run file says."""
    is_store_given: bool = False
    """Whether it is from the command line."""
    log: str | None = None
    as_json: bool = False
    drain_s: float | None = None
    quiet: bool = False
    metrics: str | None = None
    traces: str | None = None
    page: tuple[str, ...] = ()
    """Options of the page beside the run; empty for none."""
    arguments: tuple[str, ...] = ()
    """Of a program: what follows `--`."""
    traceback: bool = False
    """Whether to show the traceback of an error that is explained, too."""
    workers: int = 1
    channel: WorkerChannel | None = None
    """Of a worker: to the program that has started it."""


Recorded: TypeAlias = SqliteStore | PostgresStore


@frozen(kw_only=True)
class Program:
    """What is run: a run file or a script, loaded."""

    supervise: Callable[[Orchestrator], Awaitable[None]]
    store: Path | None = None
    log: Path | None = None
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    running: RunningFile | None = None
    """The run file; None for a script."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Names of harnesses that stay in one process."""
    is_script: bool = False


@define
class _Phase:
    """Who heeds signals now."""

    in_trio: bool = False
    early: int | None = None
    """A signal that came between Trio's start and the orchestrator's."""


def run_file(options: RunOptions) -> int:
    """Run a file to its end and return the exit code.

    Raises:
        OrchestratorError: it could not begin.
        SystemExit: a program or a script's `supervise()` raised it, or a signal came while nothing ran yet.
    """
    if options.file.suffix == ".py" and is_program(options.file):
        _check_plain(options)
        return _run_program(options)
    if options.arguments:
        raise UsageError(
            f"{options.file}: expected no arguments after it, got {options.arguments[0]!r}: only a program has its own; "
            "remove them"
        )
    keep_talking()
    channel = options.channel
    with _heed_signals() as phase:
        program = read_program(options.file, options)
        log = Path("/dev/stdout" if options.log == "-" else options.log) if options.log else program.log
        path = place_of(options.store or program.store or DEFAULT_STORE)
        if log is not None and channel is None:
            _check_log(log, path)
        store = open_store(path)
        if channel is None:
            _announce(program, store, path, options)
            if (code := _lead(program, store, path, log, options, phase)) is not None:
                return code
        orchestrator, result = Orchestrator(store, log=None if channel else log, **_keywords(program, options)), Result()
        _prepare(orchestrator, program, channel)
        try:
            phase.in_trio = True
            trio.run(_run, program, orchestrator, store, path.resolve(), options, phase, result)
        except trio.TrioInternalError as error:
            _note_fault(result, error, orchestrator)
        finally:
            phase.in_trio = False
            store.close()
        result.outcomes |= {handle.name: handle.outcome for handle in orchestrator.handles if handle.outcome is not None}
        tracebacks = options.traceback or wants_tracebacks()
        code = report(
            result,
            quiet=options.quiet,
            file=options.file,
            store=path,
            tracebacks=tracebacks,
            is_worker=channel is not None,
        )
        if channel is not None:
            said = tuple(ways_on(result.outcomes, options.file, path))
            channel.tell(Report(ended=ended(orchestrator), code=code, said=said))
        if result.script_exit is not None:
            raise result.script_exit
        return code


def _announce(program: Program, store: Recorded, path: Path, options: RunOptions) -> None:
    """Say where the run is recorded, and start the processes beside it."""
    if not options.quiet:
        say(f"recording in {shown_place(path.resolve())}")
        if latched := in_words(kill_switch_of(store)):
            say(latched)
    if program.running is not None:
        program.running.tell_people(path.resolve())
    if options.page:
        start_companion("serve", "--store", str(path.resolve()), *options.page)


def _prepare(orchestrator: Orchestrator, program: Program, channel: WorkerChannel | None) -> None:
    """Say what the orchestrator leaves to others: to the report, and in a worker to the program above it."""
    orchestrator.tells_blocked = False  # the report does
    if channel is not None:
        orchestrator.tells_signals = False
        orchestrator.elsewhere = frozenset(channel.share.options["all"])
    elif program.running is not None:
        orchestrator.on_hangup = partial(program.running.reload, orchestrator)


def _lead(program: Program, store: Recorded, path: Path, log: Path | None, options: RunOptions, phase: _Phase) -> int | None:
    """Run the harnesses in several workers, and return the exit code; None if there is work for one process only."""
    shares = place(program.groups, options.workers)
    if len(shares) < 2:
        if options.workers > 1 and not options.quiet:
            say("one process: there is one harness only, or a supervisor or the strategy keeps all of them together")
        return None
    keywords = _keywords(program, options)
    Orchestrator(store, **keywords)  # refuses wrong options once, before each worker does
    metrics = keywords.get("metrics")
    names = {name for share in shares for name in share}
    view = _open_view(store, lambda: names, lambda _: "", options)
    workers = Workers(
        file=options.file,
        text=options.file.read_text(encoding="utf-8"),
        store=store,
        place=path.resolve(),
        shares=shares,
        log=log,
        words=_worker_words(options),
        metrics=None if metrics is None else address_of(metrics),
        view=view,
        quiet=options.quiet,
    )
    phase.in_trio = True
    try:
        return workers.run(lambda: phase.early)
    finally:
        phase.in_trio = False
        store.close()


def _worker_words(options: RunOptions) -> list[str]:
    """Return the options of a worker, besides its share."""
    drain = [] if options.drain_s is None else ["--drain", repr(options.drain_s)]
    traces = [] if options.traces is None else ["--traces", options.traces]
    return [*drain, *traces, *(["--quiet"] if options.quiet else []), *(["--traceback"] if options.traceback else [])]


def _run_program(options: RunOptions) -> int:
    if options.traceback:
        os.environ[VARIABLE] = "1"
    try:
        run_program(options.file, options.arguments)
    except OrchestratorError as error:
        say_error(error, with_traceback=wants_tracebacks())
        return of_error(error)
    return ExitCode.OK


def _check_plain(options: RunOptions) -> None:
    """Refuse options that a program would not heed."""
    ours = {
        "--log": options.log,
        "--json": options.as_json,
        "--drain": options.drain_s,
        "--metrics": options.metrics,
        "--traces": options.traces,
        "--open" if "--open" in options.page else "--listen": options.page,
        "--quiet": options.quiet,
        "--store": options.is_store_given,
        "--workers": options.workers > 1,
    }
    for name, given in ours.items():
        if given:
            raise UsageError(
                f"{options.file} is a program: {name} is for run files and supervisor scripts; what the program takes itself "
                f"goes after `--`, as in `orchestrator run {options.file} -- --help`"
            )


def read_program(file: Path, options: RunOptions) -> Program:
    """Load a run file or a supervisor script.

    Raises:
        UsageError: something about it is not as expected.
    """
    if file.suffix not in (".py", ".toml"):
        raise UsageError(f"{file}: expected a run file (.toml) or a supervisor script (.py); give one of those")
    if not file.is_file():
        raise UsageError(f"{file} is not there: expected a run file (.toml) or a supervisor script (.py); check the path")
    if file.suffix == ".py":
        if options.workers > 1:
            raise UsageError(
                f"{file}: --workers is for run files (.toml): expected one, or a program that calls `orchestrator.run_workers`"
            )
        return Program(supervise=read_script(file), is_script=True)
    if options.channel is None:
        read = read_run_file(file)
    else:
        share = options.channel.share
        read = parse_run_file(share.options["text"], file).only(share.names)
    find_modules_in(file.parent, Path.cwd())
    store = place_of(options.store or read.store or DEFAULT_STORE)
    running = RunningFile.of(read, store)
    return Program(
        supervise=running.supervise,
        store=read.store,
        log=read.log,
        options=read.options,
        running=running,
        groups=read.together(),
    )


def _keywords(program: Program, options: RunOptions) -> dict[str, Any]:
    """Return the orchestrator's options: what the program says, and before it what the command line says."""
    asked = control_asked_for()
    wanted = serving.is_there() if asked is None else asked
    keywords: dict[str, Any] = {"drain_s": _DRAIN_S, "control": wanted, **program.options}
    if options.channel is not None:
        keywords.pop("metrics", None)  # the program above serves those of all workers
    is_quiet = options.quiet or options.channel is not None
    if not serving.is_there() and asked is None and "control" not in program.options and not is_quiet:
        say(f"orchestrator: to pause and stop harnesses from outside, run `{install_command('control')}`")
    if options.drain_s is not None:
        keywords["drain_s"] = options.drain_s
    if options.metrics is not None:
        keywords["metrics"] = options.metrics
    if options.traces is not None or (is_asked_for() and "traces" not in keywords):
        keywords["traces"] = options.traces or True
    return keywords


async def _run(
    program: Program,
    orchestrator: Orchestrator,
    store: Recorded,
    path: Path,
    options: RunOptions,
    phase: _Phase,
    result: Result,
) -> None:
    def saying(name: str) -> str:
        return next((handle.saying() for handle in orchestrator.handles if handle.name == name), "")

    view = _open_view(store, lambda: {handle.name for handle in orchestrator.handles}, saying, options)
    watchdog = Watchdog(
        bound_s=orchestrator.drain_s + _MARGIN_S,
        again_s=_MARGIN_S,
        unfinished=lambda: [f"harness {handle.name!r}" for handle in orchestrator.handles if handle.outcome is None],
        farewell=_GIVE_TERMINAL_BACK if isinstance(view, LiveTable) else "",
        way_on=command(path, "run", str(options.file)),
    )
    watchdog.open()
    try:
        async with trio.open_nursery() as views:
            if view is not None:
                views.start_soon(follow, view)
            views.start_soon(stay_alive)
            await _supervise(program, orchestrator, phase, result, options.channel)
            views.cancel_scope.cancel()
    finally:
        tell_manager("STOPPING=1")
        if view is not None:
            with suppress(Exception):
                view.close()
        watchdog.close()
        result.signalled = orchestrator.signalled or watchdog.first


async def _supervise(
    program: Program, orchestrator: Orchestrator, phase: _Phase, result: Result, channel: WorkerChannel | None
) -> None:
    """Run the program's `supervise` in its orchestrator, and note what failed."""
    failure: BaseException | None = None
    try:
        async with orchestrator:
            if phase.early is not None:
                signal.raise_signal(phase.early)
            if channel is not None:
                channel.stop_with_program()
            tell_manager("READY=1")
            try:
                await program.supervise(orchestrator)
                if channel is not None:
                    channel.tell(Begun())
            except Exception as error:
                failure = error
                raise
            except SystemExit as exit:
                # The script's way to say that it is over; what it started is stopped, not cut off.
                result.script_exit = exit
                orchestrator.stop()
    except Exception as error:
        if failure is not None and program.is_script:
            result.script_error = failure
        else:
            result.errors = list(leaves(error))


def _note_fault(result: Result, error: trio.TrioInternalError, orchestrator: Orchestrator) -> None:
    """Note who has ended Trio, and how, and of each harness that Trio has cut off that it was."""
    fault = system_fault([error], orchestrator.harnesses)
    if fault is None:
        result.errors.append(error)
        return
    cause = cast(BaseException, fault.__cause__)
    result.errors = [other for other in result.errors if not isinstance(other, SystemTaskFailed)]
    result.errors += [fault, cause] if cause is not error else [fault]
    for handle in orchestrator.handles:
        result.outcomes[handle.name] = Outcome(OutcomeKind.STOPPED, fault.told, handle.current_step, handle.attempt)


def _open_view(
    store: Recorded, names: Callable[[], Collection[str]], saying: Callable[[str], str], options: RunOptions
) -> View | None:
    if options.channel is not None or (options.quiet and not options.as_json):
        return None
    view = choose_view(store, names, as_json=options.as_json, saying=saying)
    view.open()
    return view


def _check_log(path: Path, store: Path) -> None:
    if os.path.realpath(path) == os.path.realpath(store):
        raise UsageError(f"log {path} is the store: expected another file; choose one")
    if not is_stream(path):  # a pipe would be at its end for its reader
        open_target(path).close()


@contextmanager
def _heed_signals() -> Generator[_Phase, None, None]:
    """Have SIGINT and SIGTERM end the program cleanly where the orchestrator does not heed them: before it, and after it.

    Within Trio but outside of the orchestrator they are only noted, for an exception there would cut through Trio itself.
    Code that has one of them ignored meanwhile gets a handler that does nothing, so that the watchdog still hears of it.
    """
    phase = _Phase()

    def heed(number: int, frame: FrameType | None) -> None:
        if not phase.in_trio:
            raise EndedBySignal(number)
        phase.early = number

    install = signal.signal
    before = {number: install(number, heed) for number in (signal.SIGINT, signal.SIGTERM)}

    def install_heard(number: int, handler: Any) -> Any:
        # What is ignored by the kernel is heard by nobody, the watchdog included.
        ignored = number in before and handler == signal.SIG_IGN
        return install(number, _ignore if ignored else handler)

    signal.signal = cast(Any, install_heard)
    try:
        yield phase
    finally:
        signal.signal = install
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: a signal that has a handler wakes the watchdog."""
