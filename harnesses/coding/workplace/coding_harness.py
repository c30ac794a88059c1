"""`CodingHarness`: works the features of a git repository, each try in a worktree of its own, until every one is proven.

    last good commit ──► worktree, branch ──agent──► commit ──validator, in fresh worktrees──► merge ──► last good commit

`FeatureHarness` is the loop; `RepositoryWorkplace` is where its attempts happen.

The laws, beside those of `FeatureHarness`:

    the user's checkout, index, settings and hooks are never touched; a branch of theirs moves from the commit that was
    expected to one that was proven, or not at all
    what is judged is a commit, and what is merged is that commit
    all that is kept outside of the user's repository and the store can be made anew
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, Unpack, cast

from harnesses.coding.candidate import Candidate
from harnesses.coding.git import Identity
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
DEFAULT_OBJECTIVE = "Bring about every feature of the list, one after the other, and break nothing that works."
Features: TypeAlias = Sequence[Feature] | FeatureSource | Path | str | None


class CodingHarness(FeatureHarness):
    """Has an agent work the features of a repository, and merges what a validator has proven.

    A failed try is left on its branch, `harness/<name>/<feature>/<try>`, and the next one starts clean. If somebody else moves
    the branch that accepted work goes to, it waits for a person, who may move it back or accept what is there by the message
    `{"accept_base": "<commit>"}`.

    Args:
        repository: a path to a worktree or to a bare repository.
        agent: works in `Assignment.directory`; what it leaves there, ignored files excepted, is its work.
        features: a list, the path of a file that holds one, or a source; default `FailingTests()`.
        validator: judges a commit; it may be left out only if the source brings one.
        into: the branch that accepted work goes to, one that nobody has checked out. Default: the branch that HEAD names if
            nobody has that checked out, else `harness/<name>/<that branch>`.
        objective: what the features are for; default what their file says.
        workspace: a directory for repositories and worktrees of its own; default one in the user's state directory. It must
            not be within a repository.
        confirmations: passes in a row, each in a fresh worktree, that an acceptance needs.
        check_first: whether the validator is asked before the agent; default only for `FailingTests`.
        identity: who commits.
        options: the others of `FeatureHarness`; `handoff` is by default the workspace.
    """

    def __init__(
        self,
        repository: Path | str,
        agent: FeatureAgent,
        features: Features = None,
        validator: OutcomeValidator[Candidate] | None = None,
        *,
        into: str | None = None,
        workspace: Path | str | None = None,
        objective: str | None = None,
        policy: RunPolicy = DEFAULT_POLICY,
        confirmations: int = 3,
        check_first: bool | None = None,
        identity: Identity | None = None,
        **options: Unpack[FeatureOptions],
    ) -> None:
        source, given = _source_of(features)
        chosen = validator if validator is not None or source is None else source.validator()
        if chosen is None:
            raise InvalidRequest(
                "a validator must be chosen: expected one as `validator`, for these features bring none, was None; "
                "to try things out, accept_all()"
            )
        if confirmations < 1:
            raise InvalidRequest(f"confirmations: expected 1 or more, was {confirmations!r}")
        place = RepositoryOptions(
            path=Path(repository).expanduser().absolute(),
            into=into,
            workspace=None if workspace is None else Path(workspace).expanduser().absolute(),
            confirmations=confirmations,
            check_first=isinstance(source, FailingTests) if check_first is None else check_first,
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
            raise InvalidRequest("features: expected one or more, was an empty list; name what is to be brought about")
        return None, given
    return features, ()
