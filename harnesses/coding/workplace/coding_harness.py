"""`CodingHarness`: works on the features of a git repository, each try in its own worktree, until each one is proven.

    last good commit ──► worktree, branch ──agent──► commit ──validator, in new worktrees──► merge ──► last good commit

`FeatureHarness` is the loop; its tries happen in `RepositoryWorkplace`.

Invariants, in addition to those of `FeatureHarness`:

    * the user's checkout, index, settings and hooks are never touched; a branch of the user is moved only from the expected
      commit to a proven one, or not at all
    * a commit is validated, and exactly that commit is merged
    * everything stored outside of the user's repository and the store can be created again
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, Unpack, cast

from harnesses.coding.candidate import Candidate
from harnesses.coding.git import Identity
from harnesses.coding.merge_limits import MergeLimits
from harnesses.coding.pull_request import PullRequest, pull_request_of
from harnesses.coding.pull_request_text import DEFAULT_OBJECTIVE
from harnesses.coding.sources import FailingTests, FeatureFile
from harnesses.coding.sources.feature_files import FeatureSource
from harnesses.coding.workplace.repository_workplace import RepositoryOptions, RepositoryWorkplace
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.feature_validators import OutcomeValidator
from harnesses.features.loop.feature_harness import FeatureHarness, FeatureOptions
from harnesses.features.run_policy import FailFast, RunMode, RunPolicy
from harnesses.features.streaming import FeatureAgent

DEFAULT_POLICY = RunPolicy(
    mode=RunMode.UNLIMITED_BATCH,
    max_turns_per_feature=3,
    max_retries_per_feature=2,
    fail_fast=FailFast(on_validation_failure=False),
)
Features: TypeAlias = Sequence[Feature] | FeatureSource | Path | str | None


class CodingHarness(FeatureHarness):
    """Has an agent work on the features of a repository, and merges work that a validator has proven.

    A failed try stays on its branch, `harness/<name>/<feature>/<try>`, and the next one starts clean. If somebody else moves
    the branch that receives accepted work, the harness waits for a person, who may move it back or accept its new commit with
    the message `{"accept_base": "<commit>"}`.

    Args:
        repository: path of a worktree or of a bare repository.
        agent: works in `Assignment.directory`; the files it leaves there, except ignored ones, are its work.
        features: a list, the path of a file with one, or a source; default `FailingTests()`.
        validator: validates a commit; required unless the source has one.
        into: the branch that receives accepted work, which must not be checked out. Default: the branch that HEAD names if
            that is not checked out, else `harness/<name>/<that branch>`. `"pr"`, or a `PullRequest`: one of its own, which is
            pushed to a remote when a run has ended, with title and body of a pull request.
        objective: the goal of the features; default that of their file.
        workspace: a directory for the harness's own repositories and worktrees; default one in the user's state directory. It
            must not be inside a repository.
        confirmations: consecutive passes, each in a new worktree, required for an acceptance.
        check_first: whether the validator is asked before the agent; by default only for `FailingTests`.
        limits: the size of what one try may add or change; a larger one is refused.
        identity: name and address of the committer.
        options: the other options of `FeatureHarness`; the default of `handoff` is the workspace.
    """

    def __init__(
        self,
        repository: Path | str,
        agent: FeatureAgent,
        features: Features = None,
        validator: OutcomeValidator[Candidate] | None = None,
        *,
        into: PullRequest | str | None = None,
        workspace: Path | str | None = None,
        objective: str | None = None,
        policy: RunPolicy = DEFAULT_POLICY,
        confirmations: int = 3,
        check_first: bool | None = None,
        limits: MergeLimits | None = None,
        identity: Identity | None = None,
        **options: Unpack[FeatureOptions],
    ) -> None:
        source, given = _source_of(features)
        chosen = validator if validator is not None or source is None else source.validator()
        if chosen is None:
            raise InvalidRequest(
                "no validator was given: expected one as `validator`, because these features have none, was None; "
                "for experiments use accept_all()"
            )
        if confirmations < 1:
            raise InvalidRequest(f"confirmations: expected 1 or more, was {confirmations!r}")
        asked = pull_request_of(into)
        place = RepositoryOptions(
            path=Path(repository).expanduser().absolute(),
            into=asked.branch if asked is not None else cast("str | None", into),
            pull_request=asked,
            workspace=None if workspace is None else Path(workspace).expanduser().absolute(),
            confirmations=confirmations,
            check_first=isinstance(source, FailingTests) if check_first is None else check_first,
            limits=limits or MergeLimits(),
            identity=identity,
            has_objective=objective is not None,
        )
        super().__init__(
            agent,
            chosen,
            objective=DEFAULT_OBJECTIVE if objective is None else objective,
            features=given,
            policy=policy,
            workplace=RepositoryWorkplace(chosen, place, source),
            **options,
        )


def _source_of(features: Features) -> tuple[FeatureSource | None, tuple[Feature, ...]]:
    if features is None:
        return FailingTests(), ()
    if isinstance(features, str):
        return FeatureFile(features), ()
    if isinstance(features, Path):
        return FeatureFile(features), ()
    if isinstance(features, Sequence):
        given = tuple(cast(Sequence[Feature], features))  # pyright: ignore[reportUnnecessaryCast]
        if not given:
            raise InvalidRequest("features: expected one or more, was an empty list; add a feature")
        return None, given
    return features, ()
