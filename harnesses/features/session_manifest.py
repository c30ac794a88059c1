"""What a feature list is worked for, and under which rules: the session manifest and the init plan. Nouns."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import field, frozen

SCHEMA_VERSION = 1
HARNESS_VERSION = "v0"
DEFAULT_BRANCH = "feature/initializer"
DEFAULT_SUMMARY = "Initializer scaffold created"


class Shell(StrEnum):
    """Shells that an init step may be written for."""

    BASH = "bash"
    SH = "sh"
    PWSH = "pwsh"
    CMD = "cmd"


@frozen(kw_only=True)
class InitStep:
    """One command of an init plan: a program with its arguments, or a script for a shell."""

    program: str = ""
    args: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    shell: Shell | None = None
    script: str = ""

    @classmethod
    def command(cls, program: str, *args: str) -> InitStep:
        """Make a step that runs a program."""
        return cls(program=program, args=args)

    @classmethod
    def in_shell(cls, script: str, shell: Shell | str = Shell.SH) -> InitStep:
        """Make a step that runs a script in a shell."""
        return cls(shell=Shell(shell), script=script)


def _steps(steps: Iterable[InitStep]) -> tuple[InitStep, ...]:
    return tuple(steps)


@frozen
class InitPlan:
    """What is run to get bearings. An empty plan runs nothing; it is not the default plan."""

    steps: tuple[InitStep, ...] = field(default=(), converter=_steps)


DEFAULT_PLAN = InitPlan(
    (InitStep.command("git", "status", "--short", "--branch"), InitStep.command("git", "log", "--oneline", "-20"))
)


@frozen(kw_only=True)
class SessionManifest:
    """What the work is, as it was agreed at its beginning."""

    session_id: str
    """The durable name of the harness."""
    current_objective: str
    active_branch: str = DEFAULT_BRANCH
    """Where accepted work goes."""
    init_plan: InitPlan = DEFAULT_PLAN
    last_known_good_commit: str | None = None
    """The last commit at which every accepted feature was proven; None where there is no repository."""
    schema_version: int = SCHEMA_VERSION
    harness_version: str = HARNESS_VERSION
    locks: tuple[str, ...] = ()
    """The hash of each feature's specification, in the order of the list."""
    metadata: tuple[tuple[str, str], ...] = ()


@frozen(kw_only=True)
class InitializerRequest:
    """What a feature harness is asked to set up. An empty feature list stands for the starter skeleton of six."""

    current_objective: str
    feature_list: tuple[object, ...] = field(default=(), converter=tuple[object, ...])
    active_branch: str = DEFAULT_BRANCH
    init_plan: InitPlan | None = None
    """None stands for the default plan."""
    progress_summary: str = DEFAULT_SUMMARY
    metadata: tuple[tuple[str, str], ...] = ()


@frozen(kw_only=True)
class InitializerResult:
    """What there is after an initialisation."""

    session_id: str
    created: bool
    """False if it was there already; then nothing was changed."""
    schema_version: int
    harness_version: str
    feature_count: int
