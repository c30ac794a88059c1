"""What is on record of a feature list that is being worked: manifest, state, and the input and output of a step. Nouns.

The law: everything that the harness decides, it decides from `FeatureState`. Everything in it is frozen, so that looking at
it costs nothing and a step stores only what has changed.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import field, frozen

from harnesses.features.feature import Feature, Standing, TurnResult, Verdict

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


@frozen
class InitPlan:
    """What is run to get bearings. An empty plan runs nothing; it is not the default plan."""

    steps: tuple[InitStep, ...] = field(default=(), converter=tuple[InitStep, ...])


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


MAX_PROGRESS = 20
"""Progress entries and run outcomes held in the state, the latest ones; all of them are in the steps."""
MAX_TEXT = 4_000
"""Characters of a message or of evidence that are kept, the last ones: a traceback ends with what went wrong."""
MAX_TOUCHED = 100
"""Paths of an accepted piece of work that are kept in the state."""
MAX_PATH = 1_000
"""Characters of a path, or of what a conversation is known by; longer ones are not kept."""


class RunStatus(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """It was stopped, cancelled or killed; the next one goes on with its limits."""


@frozen(kw_only=True)
class ProgressEntry:
    """A sentence about what happened, for people and for the next turn."""

    run: int
    summary: str
    created_at: datetime


@frozen(kw_only=True)
class RunCounts:
    """What a run has done so far, held against the policy's limits."""

    number: int
    """From 1."""
    started_at: datetime
    turns: int = 0
    retries: int = 0
    features: tuple[str, ...] = ()
    """Ids of the features that were worked, in order, each once."""
    validated: tuple[str, ...] = ()
    """Those that passed, and pass still."""
    rechecked: int = 0
    """Passing features that were judged anew since its last turn."""


@frozen(kw_only=True)
class RunOutcome:
    """The hand-off of a run: what came of it. Counts and ids include those of the interrupted runs that it goes on with."""

    run: int
    status: RunStatus
    note: str
    started_at: datetime
    completed_at: datetime
    turns: int = 0
    retries: int = 0
    processed_feature_ids: tuple[str, ...] = ()
    validated_feature_ids: tuple[str, ...] = ()
    no_pending_features: bool = False
    """Whether nothing was left to work."""


@frozen(kw_only=True)
class FeatureState:
    """Everything a feature harness needs to go on."""

    manifest: SessionManifest | None = None
    """None until it is initialised."""
    features: tuple[Feature, ...] = ()
    standings: tuple[Standing, ...] = ()
    """One for each feature, in the same order."""
    version: int = 0
    """Counts the pieces of work that were accepted."""
    run: RunCounts | None = None
    """The run that has begun and has not been handed off."""
    runs: tuple[RunOutcome, ...] = ()
    """The last `MAX_PROGRESS`, oldest first."""
    progress: tuple[ProgressEntry, ...] = ()
    """The last `MAX_PROGRESS`, oldest first."""


class IterationKind(StrEnum):
    """What a step is about."""

    INITIALIZE = "initialize"
    AMEND = "amend"
    """The list was changed by its owner: new features, or changed ones."""
    RECOVER = "recover"
    """What a program that ended in the middle has left is handed off."""
    ORDERS = "orders"
    """A person's words were followed."""
    BEARINGS = "bearings"
    """Nothing but the health check, which failed."""
    TURN = "turn"
    """One try at one feature."""
    RECHECK = "recheck"
    """A passing feature was judged anew. What was quick, and passes still, is told with the next step of another kind."""
    CLOSE = "close"
    """Nothing was left to do but to hand off."""


class IterationStatus(StrEnum):
    """What came of a step."""

    DONE = "done"
    PASSED = "passed"
    NOT_VALIDATED = "not_validated"
    """The validator said no."""
    CHAT_FAILED = "chat_failed"
    """The agent raised."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """The health check, the validator or the merge raised."""
    SET_BACK = "set_back"
    """It passed, and does not any more."""


@frozen(kw_only=True)
class Iteration:
    """The input of a step."""

    kind: IterationKind
    run: int
    feature_id: str | None = None
    turn: int = 0
    """Which try at this feature, from 1; 0 if it is not one."""
    last_failure: str | None = None
    """What the agent was told of the try before."""
    streamed: bool = False


@frozen(kw_only=True)
class IterationResult:
    """The output of a step."""

    status: IterationStatus
    note: str
    result: TurnResult | None = None
    verdict: Verdict | None = None
    health: Verdict | None = None
    """What the health check saw, with the first step of a run."""
    ended: RunOutcome | None = None
    """The hand-off of the run, if it ended with this step."""
    rechecked: tuple[str, ...] = ()
    """Features that were judged anew since the step before, and pass still."""
    duration_s: float = 0.0


@frozen(kw_only=True)
class Assignment:
    """What an agent is asked."""

    feature: Feature
    turn: int
    """Which try, from 1."""
    prompt: str
    """All of it in words: the objective, where the work stands, the feature, and why the last try failed."""
    objective: str
    last_failure: str | None = None
    session: str | None = None
    """The conversation of the last try, to be resumed; of one that failed too, where its error has named it as `session`."""
    progress: tuple[ProgressEntry, ...] = ()
    health: str = ""
    """What the health check saw."""
    directory: str | None = None
    """Where to work: the absolute path of a worktree, where there is one."""
    writable: tuple[str, ...] = ()
    """Where the agent may write besides: what whoever made the directory says, such as the repository of the worktree."""
    readable: tuple[str, ...] = ()
    """Where it may read, and not write, although it could not in its sandbox, or could write."""
    branch: str | None = None
    base: str | None = None
    """The commit that the directory is at."""
