"""An agent that runs a command-line program for each turn.

Invariants: when a turn ends, in whatever way, none of its processes is left; a turn that ends abnormally raises an error and
never returns a result; the program's output is untrusted and may not even be text.

    assignment ──prompt──►  command in assignment.directory  ──lines──►  log
                                    └──────────────────────  ──reply──►  TurnResult, with the session for the next turn
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import trio
from attrs import evolve

from harnesses.agent import Agent, AgentRun
from harnesses.agents.argument_checks import (
    FLAG,
    NAME,
    SECONDS,
    SECONDS_FROM_0,
    VARIABLES,
    WORDS,
    Rule,
    check,
    instance_of,
    optional,
)
from harnesses.agents.command.agent_dialects import Dialect, PromptBy, known_keeps
from harnesses.agents.command.agent_output import SHOWN, ReadEvent, Reading, Reply
from harnesses.agents.command.command_transcript import CommandTranscript
from harnesses.agents.command.provider_wait import ProviderWait, gate_of
from harnesses.agents.command.stream_counts import MeteredReading
from harnesses.agents.errors import AgentFailed, AgentMissing, AgentTimedOut, AgentUnavailable
from harnesses.agents.model.errors import RequestRejected
from harnesses.agents.model.messages import Message, Role
from harnesses.agents.model.model_client import harness_at_work
from harnesses.agents.model.retry_policy import RetryPolicy
from harnesses.agents.sandbox import Level, Sandbox, as_sandbox, run_sandboxed, sandboxed
from harnesses.budgets.usage import Usage
from harnesses.diagnostics.control_characters import inert
from harnesses.diagnostics.program_log import get_logger
from harnesses.errors import HarnessMisuse
from harnesses.features.agent_text import storable
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import MAX_PATH, Assignment, FeatureState
from harnesses.processes.bounded_command import Ran
from harnesses.turn_events import TurnEvent, TurnEventKind

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM")
"""Environment variables passed to a command that does not inherit the environment."""
_LONGEST_ARGUMENT = 131_071
"""Bytes. Source: execve(2), MAX_ARG_STRLEN, less the end of the string."""
_CACHES = {"UV_CACHE_DIR": "/tmp/uv", "PIP_CACHE_DIR": "/tmp/pip", "GOCACHE": "/tmp/go-build", "npm_config_cache": "/tmp/npm"}
"""Where package managers keep what they download in the default sandbox, in which they could not write to the home."""
_PLACE = re.compile(r"\{(prompt|session|directory)\}")


AUTO: Literal["auto"] = "auto"
"""The default of `CommandAgent(sandbox=…)`."""


class CommandAgent(Agent[FeatureState, Assignment, TurnResult]):
    """An agent that runs a program: the program gets the prompt, works in the assignment's directory, and exits.

        CommandAgent(dialect=claude_code())
        CommandAgent(["my-agent", "--task", "{prompt}"], prompt="argument", limit_s=600)

    The output is logged line by line. On cancellation or past its limit, the program is killed with all processes it started.
    Its work is what it leaves in the directory, whatever it reports. When it fails, `AgentFailed` carries the conversation id,
    so that the next turn can resume it.

    Args:
        command: the program and its arguments; None uses the dialect's. `{prompt}`, `{session}` and `{directory}` are
            replaced.
            A prompt passed as an argument or a file is appended if the command has no `{prompt}`.
        dialect: the command line the program expects and how to parse its output; None reads plain text.
        resume: the command that resumes a conversation; None uses the dialect's. If it fails before it has done anything, the
            conversation is considered lost and a new one is started.
        prompt: how the command receives the prompt; None uses the dialect's way, by default "stdin".
        limit_s: maximum seconds that the program runs in a turn.
        max_wait_s: maximum seconds that a turn waits for an outage or a rate limit of the provider to end; it then blocks the
            harness. A used-up limit that names its end is waited for. No try is spent on either.
        retry: delays between the probes of an outage.
        env: variables added to the environment.
        inherit_env: whether the command inherits this program's environment, without git's variables. If not, it gets only a
            few basic variables such as PATH and HOME.
        sandbox: sandbox around the command; "bwrap" is `Sandbox()`. In a sandbox, inherited secrets are removed, except the
            dialect's credentials: pass anything else it needs as `env`. A command without a dialect has no network there,
            unless you pass `Sandbox(network=True)`. "auto" is bubblewrap where it works and the agent has a worktree of its
            own, as in a `CodingHarness`, with the network and the whole environment; a warning says so where it does not
            work. False, or None, is no sandbox.
        may_gain_privileges: whether programs such as `sudo` work in it; see `run_bounded`.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        dialect: Dialect | None = None,
        resume: Sequence[str] | None = None,
        prompt: PromptBy | Literal["stdin", "argument", "file"] | None = None,
        limit_s: float = 1_800.0,
        max_wait_s: float = 21_600.0,
        retry: RetryPolicy | None = None,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = True,
        sandbox: Sandbox | Literal["bwrap", "auto"] | bool | None = AUTO,
        may_gain_privileges: bool = False,
        name: str | None = None,
    ) -> None:
        if dialect is not None and not isinstance(cast(object, dialect), Dialect):
            raise HarnessMisuse(f"CommandAgent: dialect: expected one such as claude_code(), was {dialect!r:.100}")
        for argument, value, rule in (
            ("command", command, optional(WORDS)),
            ("resume", resume, optional(WORDS)),
            ("prompt", prompt, optional(Rule(f"one of {', '.join(PromptBy)}", lambda value: value in tuple(PromptBy)))),
            ("limit_s", limit_s, SECONDS),
            ("max_wait_s", max_wait_s, SECONDS_FROM_0),
            ("retry", retry, optional(instance_of(RetryPolicy, "write retry=RetryPolicy(probe_cap_s=…)"))),
            ("env", env, optional(VARIABLES)),
            ("inherit_env", inherit_env, FLAG),
            ("name", name, optional(NAME)),
        ):
            check("CommandAgent", argument, value, rule)
        self._dialect = _settled(command, dialect, resume, prompt)
        super().__init__(self._turn, name=name or self._dialect.name, reports=self._dialect.reports)
        self._limit_s = limit_s
        self._max_wait_s = max_wait_s
        self._retry = retry or RetryPolicy()
        self._env = dict(env or {})
        self._inherit_env = inherit_env
        self._decides = sandbox == AUTO
        """Whether each turn decides about its sandbox."""
        given = None if self._decides or sandbox is False else sandbox
        self._sandbox = as_sandbox(cast("Sandbox | Literal['bwrap'] | None", given), "CommandAgent")
        self._keeps_all = False
        """Whether the whole environment is kept in the sandbox."""
        self._may_gain_privileges = may_gain_privileges
        self._warned = set[str]()
        if self._sandbox is not None and self._sandbox.in_force() is not Level.NONE:
            self._dialect = _within(self._dialect)

    @property
    def dialect(self) -> Dialect:
        """The command line the program expects, and how to parse its output."""
        return self._dialect

    def speaking(self, dialect: Dialect) -> CommandAgent:
        """Return a copy of this agent with another dialect."""
        twin = copy(self)
        twin._dialect, twin.reports = dialect, dialect.reports
        twin._run = twin._turn
        return twin

    async def _turn(self, run: AgentRun[FeatureState, Assignment]) -> TurnResult:
        assignment = run.input
        if assignment.directory is None:
            raise HarnessMisuse(f"{self._where(assignment)} has no working directory: expected an assignment with a directory")
        confined = await self._confined(assignment) if self._decides else self
        return await confined._work(run, assignment.directory)

    async def _work(self, run: AgentRun[FeatureState, Assignment], directory: str) -> TurnResult:
        assignment = run.input
        litter = self._litter(directory)
        transcript = CommandTranscript(self.name, [Message(role=Role.USER, text=storable(assignment.prompt))])
        try:
            session = _usable(assignment.session)
            run = run.watched_by(transcript.take)
            ran, reply, refused = await self._converse(run, session)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_remove, self._litter(directory) - litter)
        failure = refused or self._failure(assignment, ran, reply)
        if not isinstance(failure, AgentMissing):
            transcript.attach_to(run, reply, error="" if failure is None else str(failure))
        if failure is not None:
            raise failure
        result = TurnResult(
            message=reply.message,
            session=reply.session,
            tokens=reply.tokens,
            usage=reply.usage,
            stop_reason=reply.stop_reason,
            sandbox="" if self._sandbox is None else self._sandbox.describe(network=self._dialect.network),
            confined=self._sandbox is not None and self._sandbox.in_force() is not Level.NONE and not self._sandbox.writable,
        )
        run.tell(TurnEvent[TurnResult].complete(result))
        return result

    async def _confined(self, assignment: Assignment) -> CommandAgent:
        """Return this agent in the sandbox that its turn decides on, or say once why it works without one."""
        twin, sandbox, dialect = copy(self), Sandbox(network=True), self._dialect
        why = await trio.to_thread.run_sync(_why_no_sandbox, sandbox, dialect, self._may_gain_privileges, assignment)
        if not why:
            twin._sandbox, twin._keeps_all = sandbox, True
            known = known_keeps(dialect.command[0]) if not dialect.keeps else dialect.keeps
            twin._dialect = evolve(_within(dialect), keeps=known)
        elif why not in self._warned and (dialect.network or assignment.base is not None):
            self._warned.add(why)
            get_logger(__name__).warning(
                "agent %r works without a sandbox: it can change every file of yours, such as .git/hooks; %s", self.name, why
            )
        return twin

    async def _converse(
        self, run: AgentRun[FeatureState, Assignment], session: str | None
    ) -> tuple[Ran, Reply, AgentUnavailable | None]:
        """Run the command; again after an outage, and in a new conversation if this one is lost.

        Returns:
            How it exited, the reply, and why its provider refuses to serve it, if it does.

        Raises:
            AgentUnavailable: an outage lasts for too long.
        """
        left_s, where, first = self._limit_s, self._where(run.input), session
        resumes = session is not None and self._dialect.resume is not None
        provider = self._provider_wait(run)

        async def speak(answered: Callable[[], None]) -> tuple[Ran, Reply]:
            nonlocal left_s, session
            ran, reply = await self._speak(run, session, left_s, answered)
            left_s = max(left_s - ran.duration_s, 0.001)
            session = reply.session if reply.worked else session
            return ran, reply

        try:
            while True:
                ran, reply = await provider.run(speak)
                failed = provider.failed
                lost = not reply.worked and failed is None and ran.code and ran.code not in (126, 127)
                if not (resumes and (lost or isinstance(failed, RequestRejected))):
                    break
                run.log(f"[conversation {session} could not be resumed; starting a new one]")
                session, resumes = None, False
        except AgentUnavailable as error:
            raise AgentUnavailable(f"{where} cannot go on: {error}", session=session) from error.__cause__
        return ran, reply, provider.refusal(where, first or session)

    def _provider_wait(self, run: AgentRun[FeatureState, Assignment]) -> ProviderWait:
        dialect = self._dialect
        if not dialect.network:
            return ProviderWait(None, dialect.name, "", self._max_wait_s, run.log)
        gate = gate_of(dialect.name, dialect.secrets, {**self._inherited(), **dialect.env, **self._env}, self._retry)
        return ProviderWait(gate, dialect.name, harness_at_work() or run.scope, self._max_wait_s, run.log)

    async def _speak(
        self, run: AgentRun[FeatureState, Assignment], session: str | None, limit_s: float, answered: Callable[[], None]
    ) -> tuple[Ran, Reply]:
        """Run the command once; return how it exited and the reply.

        Args:
            answered: called when its provider has begun to answer.
        """
        assignment, dialect = run.input, self._dialect
        directory = Path(assignment.directory or ".")
        resumes = session is not None and dialect.resume is not None
        template = dialect.resume if resumes and dialect.resume is not None else dialect.command
        session = session if resumes else (dialect.begin() if dialect.begin is not None else None)

        reading = _metered(dialect.reading(), run, answered)

        def log(line: str) -> None:
            for part in line.splitlines():
                if shown := inert(part[:SHOWN]).rstrip():
                    run.log(shown)

        environment = {**self._inherited(), **dialect.env, **self._env}
        keeps = [place for path in dialect.keeps if (place := _place(path, environment))]
        if self._sandbox is not None:
            await trio.to_thread.run_sync(_create_missing, keeps)
        with tempfile.TemporaryDirectory(prefix="prompt-") as folder:
            filled, input = self._filled(template, assignment, session, Path(folder))
            prepare = partial(
                sandboxed,
                filled,
                directory,
                self._sandbox,
                environment=self._inherited(),
                added={**(_CACHES if self._keeps_all else {}), "PWD": str(directory), **dialect.env, **self._env},
                keep=("",) if self._keeps_all else dialect.secrets,
                writable=(*keeps, *assignment.writable),
                readable=(folder, *assignment.readable, *(_shown(template, environment) if self._keeps_all else ())),
                network=dialect.network,
                may_gain_privileges=self._may_gain_privileges,
                log=run.log,
            )
            ran, _ = await run_sandboxed(
                prepare,
                limit_s=limit_s,
                cwd=directory,
                input=input,
                on_line=lambda text: log(reading.line(text)),
                on_error_line=log,
            )
        reply = reading.reply()
        return ran, evolve(reply, session=_usable(reply.session) or session)

    def _filled(
        self, template: Sequence[str], assignment: Assignment, session: str | None, folder: Path
    ) -> tuple[list[str], bytes | None]:
        """Return the command with its placeholders filled in, and the bytes for its standard input."""
        prompt = storable(assignment.prompt).replace("\0", "")
        by = self._dialect.prompt
        said = prompt
        if by is PromptBy.FILE:
            file = folder / "prompt.md"
            file.write_text(prompt, encoding="utf-8")
            said = str(file)
        elif by is PromptBy.ARGUMENT and len(prompt.encode()) > _LONGEST_ARGUMENT:
            raise AgentFailed(
                f"{self._where(assignment)} cannot be given its prompt: expected at most {_LONGEST_ARGUMENT} bytes for an "
                f'argument, was {len(prompt)} characters; use prompt="stdin" or prompt="file"'
            )
        values = {"prompt": said, "session": session or "", "directory": assignment.directory or ""}
        filled = [_PLACE.sub(lambda place: values[place.group(1)], word) for word in template]
        if by is not PromptBy.STDIN and not any("{prompt}" in word for word in template):
            filled.append(said)
        return filled, prompt.encode() if by is PromptBy.STDIN else None

    def _inherited(self) -> dict[str, str]:
        # GIT_DIR and similar variables would make every git in it work on another repository.
        return {
            key: value
            for key, value in os.environ.items()
            if (not key.startswith("GIT_") if self._inherit_env else key in _KEPT) and key != "OLDPWD"
        }

    def _litter(self, directory: str) -> set[Path]:
        return {path for name in self._dialect.litter for path in Path(directory).glob(name)}

    def _failure(self, assignment: Assignment, ran: Ran, reply: Reply) -> AgentFailed | None:
        """Return why the turn ended abnormally; None if it did not."""
        where = self._where(assignment)
        said = f"; its last output:\n{inert(ran.tail.strip())}" if ran.tail.strip() else "; it wrote no output"
        session = reply.session
        if ran.code is None:
            why = f"{where} was killed: expected it to end within {self._limit_s:g} s{said}"
            return AgentTimedOut(why, session=session)
        if ran.code in (126, 127) and not reply.worked:
            is_path = self._sandbox is not None and os.path.isabs(self._dialect.command[0])
            hidden = " that the sandbox shows: a file below /tmp or /run is hidden in it" if is_path else ""
            return AgentMissing(f"{where} cannot be run: expected an installed program{hidden}, ended with {ran.code}{said}")
        if reply.error is not None and (reply.worked or ran.code == 0):
            return AgentFailed(f"{where} failed: {inert(reply.error)} (exit code {ran.code}){said}", session=session)
        if ran.code != 0:
            return AgentFailed(f"{where} failed: expected exit code 0, was {ran.code}{said}", session=session)
        return None

    def _where(self, assignment: Assignment) -> str:
        return f"agent {self.name!r}, feature {assignment.feature.id!r}, try {assignment.turn},"


def _settled(
    command: Sequence[str] | None,
    dialect: Dialect | None,
    resume: Sequence[str] | None,
    prompt: PromptBy | str | None,
) -> Dialect:
    if dialect is None:
        if not command:
            raise HarnessMisuse("CommandAgent: expected a command or a dialect, got neither")
        dialect = Dialect(name=Path(command[0]).name, command=tuple(command))
    if command is not None:
        # The dialect's resume command starts another program.
        dialect = _changed(dialect, command=tuple(command), resume=None)
    if resume is not None:
        dialect = _changed(dialect, resume=tuple(resume))
    return dialect if prompt is None else _changed(dialect, prompt=PromptBy(prompt))


def _within(dialect: Dialect) -> Dialect:
    """Return a dialect as it is in a sandbox; what was changed about it otherwise, such as its reading, stays."""
    within = dialect.in_sandbox
    return dialect if within is None else evolve(dialect, command=within.command, resume=within.resume, env=within.env)


def _metered(reading: Reading, run: AgentRun[FeatureState, Assignment], answered: Callable[[], None]) -> MeteredReading:
    """Return a parser that charges what it reads to a turn, and calls `answered` when the agent itself says something."""

    def charge(usage: Usage, *, thread: str = "") -> None:
        if usage.output_tokens and not thread:
            answered()
        run.charge(usage, thread=thread)

    def tell(event: ReadEvent) -> None:
        if event.kind is TurnEventKind.TOOL_STARTED:
            answered()
        run.tell(event)

    return MeteredReading(reading, charge, tell)


def _why_no_sandbox(sandbox: Sandbox, dialect: Dialect, may_gain_privileges: bool, assignment: Assignment) -> str:
    """Return why a turn works without a sandbox where nobody has said whether it should; empty if it works in one."""
    if assignment.base is None:
        return 'use sandbox="bwrap"' if sandbox.works() else "install bubblewrap, and use sandbox='bwrap'"
    if may_gain_privileges:
        return "may_gain_privileges needs it; write sandbox=False to say so"
    if dialect.in_own_sandbox:
        return "it has one of its own, which cannot start in ours; write sandbox=False to say so"
    if not sandbox.works():
        return "install bubblewrap, or write sandbox=False to say that it may (`orchestrator doctor` tells what is missing)"
    return ""


def _shown(words: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Return what must be readable wherever it is: the home, and words of a command that are absolute paths of files."""
    home = environment.get("HOME", "")
    return [*([home] if os.path.isabs(home) else []), *(one for one in words if os.path.isabs(one) and os.path.isfile(one))]


def _changed(dialect: Dialect, **changes: Any) -> Dialect:
    """Return a dialect with other values, within a sandbox too."""
    within = dialect.in_sandbox
    return evolve(dialect, **changes, in_sandbox=None if within is None else evolve(within, **changes))


def _usable(session: str | None) -> str | None:
    """Return the conversation id if it is safe as an argument, else None: it comes from the program's output."""
    fits = session and len(session) <= MAX_PATH and session.isprintable() and not session.startswith("-")
    return session if fits else None


def _place(path: str, environment: Mapping[str, str]) -> str:
    """Return a path with its `~` replaced by the program's home; of `$NAME`, what that variable names, if anything."""
    if path.startswith("$"):
        return environment.get(path[1:], "")
    return os.path.expanduser(f"{environment.get('HOME', '~')}{path[1:]}" if path.startswith("~/") else path)


def _create_missing(paths: Iterable[str]) -> None:
    """Create directories, since a sandbox makes only existing paths writable. Files are left to the program."""
    for path in paths:
        if not Path(path).suffix:
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
