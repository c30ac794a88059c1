"""Values stored for a feature list: manifest, state, and the input and output of a step.

Invariant: the harness bases every decision on `FeatureState`. All values are frozen, so that reading costs nothing and a step
stores only what has changed.
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
        """Return a step that runs a program."""
        return cls(program=program, args=args)

    @classmethod
    def in_shell(cls, script: str, shell: Shell | str = Shell.SH) -> InitStep:
        """Return a step that runs a script in a shell."""
        return cls(shell=Shell(shell), script=script)


@frozen
class InitPlan:
    """Commands that inspect the environment before a run. An empty plan runs nothing; it is not the default plan."""

    steps: tuple[InitStep, ...] = field(default=(), converter=tuple[InitStep, ...])


DEFAULT_PLAN = InitPlan(
    (InitStep.command("git", "status", "--short", "--branch"), InitStep.command("git", "log", "--oneline", "-20"))
)


@frozen(kw_only=True)
class SessionManifest:
    """Description of the work, fixed when the list is initialised."""

    session_id: str
    """The durable name of the harness."""
    current_objective: str
    active_branch: str = DEFAULT_BRANCH
    """Branch that receives accepted work."""
    init_plan: InitPlan = DEFAULT_PLAN
    last_known_good_commit: str | None = None
    """The last commit at which every accepted feature was proven; None without a repository."""
    schema_version: int = SCHEMA_VERSION
    harness_version: str = HARNESS_VERSION
    locks: tuple[str, ...] = ()
    """Hashes of the features' specifications, in the order of the list."""
    metadata: tuple[tuple[str, str], ...] = ()


@frozen(kw_only=True)
class InitializerRequest:
    """A request to set up a feature list. An empty list is replaced by six starter features."""

    current_objective: str
    feature_list: tuple[object, ...] = field(default=(), converter=tuple[object, ...])
    active_branch: str = DEFAULT_BRANCH
    init_plan: InitPlan | None = None
    """None uses the default plan."""
    progress_summary: str = DEFAULT_SUMMARY
    metadata: tuple[tuple[str, str], ...] = ()


@frozen(kw_only=True)
class InitializerResult:
    """The result of an initialisation."""

    session_id: str
    created: bool
    """False if the list existed already; then nothing was changed."""
    schema_version: int
    harness_version: str
    feature_count: int


MAX_PROGRESS = 20
"""Maximum progress entries and run outcomes kept in the state, the latest ones; the steps contain all of them."""
MAX_TEXT = 4_000
"""Maximum characters kept of a message or of evidence; the last ones, because the end of a traceback has the error."""
MAX_TOUCHED = 100
"""Maximum paths of an accepted work kept in the state."""
MAX_PATH = 1_000
"""Maximum characters of a path or of a conversation id; longer ones are dropped."""


class RunStatus(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """It was stopped, cancelled or killed; the next run continues with its counts and limits."""


@frozen(kw_only=True)
class ProgressEntry:
    """One line of progress, for people and for the next prompt."""

    run: int
    summary: str
    created_at: datetime


@frozen(kw_only=True)
class RunCounts:
    """Counts of a run, compared with the policy's limits."""

    number: int
    """From 1."""
    started_at: datetime
    turns: int = 0
    retries: int = 0
    features: tuple[str, ...] = ()
    """Ids of the features worked in this run, in order, each once."""
    validated: tuple[str, ...] = ()
    """Ids of the features that passed in this run and still pass."""
    rechecked: int = 0
    """Number of passing features rechecked since the run's last turn."""


@frozen(kw_only=True)
class RunOutcome:
    """The result of a run. Counts and ids include those of the interrupted runs that it continues."""

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
    """Whether no pending feature was left."""


@frozen(kw_only=True)
class Proposal:
    """What was pushed to a remote last, as a pull request."""

    commit: str
    branch: str
    remote: str
    url: str | None = None
    """Address of the pull request, if a command has told it."""


@frozen(kw_only=True)
class FeatureState:
    """The complete state of a feature harness."""

    manifest: SessionManifest | None = None
    """None until the list is initialised."""
    features: tuple[Feature, ...] = ()
    standings: tuple[Standing, ...] = ()
    """Progress of each feature, in the order of the list."""
    version: int = 0
    """Number of accepted works."""
    run: RunCounts | None = None
    """The current run; None between runs."""
    runs: tuple[RunOutcome, ...] = ()
    """Outcomes of the last `MAX_PROGRESS` runs, oldest first."""
    progress: tuple[ProgressEntry, ...] = ()
    """The last `MAX_PROGRESS` entries, oldest first."""
    proposal: Proposal | None = None
    """The pull request, once accepted work was pushed."""


class IterationKind(StrEnum):
    """The kind of a step."""

    INITIALIZE = "initialize"
    AMEND = "amend"
    """The list was changed by its owner: features were added or changed."""
    RECOVER = "recover"
    """A run left open by a program that ended was handed off."""
    ORDERS = "orders"
    """Messages from people were processed."""
    BEARINGS = "bearings"
    """Only the health check was run, and it failed."""
    TURN = "turn"
    """One try at one feature."""
    RECHECK = "recheck"
    """A passing feature was rechecked. Quick rechecks that still pass are reported with the next step of another kind."""
    CLOSE = "close"
    """Only the hand-off was left."""
    PROPOSE = "propose"
    """Accepted work was pushed, and proposed as a pull request."""


class IterationStatus(StrEnum):
    """The result of a step."""

    DONE = "done"
    PASSED = "passed"
    NOT_VALIDATED = "not_validated"
    """The validator rejected the work."""
    CHAT_FAILED = "chat_failed"
    """The agent raised an error."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    """The health check, the validator or the merge raised an error."""
    SET_BACK = "set_back"
    """A passing feature no longer passes."""


@frozen(kw_only=True)
class Iteration:
    """The input of a step."""

    kind: IterationKind
    run: int
    feature_id: str | None = None
    turn: int = 0
    """Number of the try at this feature, from 1; 0 if the step is not a try."""
    last_failure: str | None = None
    """The failure of the previous try, as shown to the agent."""
    streamed: bool = False


@frozen(kw_only=True)
class IterationResult:
    """The output of a step."""

    status: IterationStatus
    note: str
    result: TurnResult | None = None
    verdict: Verdict | None = None
    health: Verdict | None = None
    """Result of the health check, in the first step of a run."""
    ended: RunOutcome | None = None
    """The outcome of the run, if it ended with this step."""
    rechecked: tuple[str, ...] = ()
    """Ids of features that were rechecked since the previous step and still pass."""
    duration_s: float = 0.0


@frozen(kw_only=True)
class Assignment:
    """The task for one turn of an agent."""

    feature: Feature
    turn: int
    """Number of the try, from 1."""
    prompt: str
    """The complete prompt: objective, progress, feature, and the failure of the last try."""
    objective: str
    last_failure: str | None = None
    session: str | None = None
    """The conversation of the last try, to be resumed; after a failed try, the `session` of its error."""
    progress: tuple[ProgressEntry, ...] = ()
    health: str = ""
    """Output of the health check."""
    directory: str | None = None
    """Working directory: the absolute path of a worktree, if there is one."""
    writable: tuple[str, ...] = ()
    """Additional writable paths, chosen by the creator of the directory, such as the repository of the worktree."""
    readable: tuple[str, ...] = ()
    """Paths that are read-only for the agent although its sandbox would hide them or make them writable."""
    branch: str | None = None
    base: str | None = None
    """The commit checked out in the directory."""
