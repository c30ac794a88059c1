"""`CodingHarness`: works the features of a git repository, each try in a worktree of its own, until every one is proven.

    last good commit ──► worktree, branch ──agent──► commit ──validator, in fresh worktrees──► merge ──► last good commit

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

from attrs import evolve

from harnesses.coding.candidate import Candidate
from harnesses.coding.git import Identity
from harnesses.coding.site import open_site
from harnesses.coding.sources import FailingTests, FeatureFile, NothingToDo
from harnesses.coding.sources.protocol import FeatureSource
from harnesses.coding.tries import CodingTries
from harnesses.features.bearings import agreed
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature
from harnesses.features.harness import FeatureOptions
from harnesses.features.manifest import InitializerRequest
from harnesses.features.policy import FailFast, RunMode, RunPolicy
from harnesses.features.protocols import OutcomeValidator
from harnesses.features.streaming import FeatureAgent

DEFAULT_POLICY = RunPolicy(
    mode=RunMode.UNLIMITED_BATCH,
    max_turns_per_feature=3,
    max_retries_per_feature=2,
    fail_fast=FailFast(on_validation_failure=False),
)
DEFAULT_OBJECTIVE = "Bring about every feature of the list, one after the other, and break nothing that works."
Features: TypeAlias = Sequence[Feature] | FeatureSource | Path | str | None
_MOST_NOTES = 10


class CodingHarness(CodingTries):
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
        super().__init__(
            agent,
            chosen,
            objective=DEFAULT_OBJECTIVE if objective is None else objective,
            features=given,
            policy=policy,
            **options,
        )
        self._repository = Path(repository).expanduser().absolute()
        self._source = source
        self._says_what_for = objective is not None
        self._into = into
        self._root = None if workspace is None else Path(workspace).expanduser().absolute()
        self._confirmations = confirmations
        self._check_first = isinstance(source, FailingTests) if check_first is None else check_first
        self._identity = identity
        self._opened_site = None
        self._looking = None
        self._seen_to_fail = {}

    # the place and the list

    async def _open(self) -> None:
        manifest = self.state.manifest
        self._opened_site = await open_site(
            self._repository,
            self.name,
            into=self._into,
            agreed=None if manifest is None else manifest.active_branch,
            root=self._root,
            identity=self._identity,
        )
        self._handoff = self._handoff or self._site.workspace.root
        if manifest is not None:
            await self._site.go_on(self._good)

    async def _close(self) -> None:
        site, self._opened_site = self._opened_site, None
        if site is not None:
            await site.close()

    async def _first_commit(self) -> str | None:
        return await self._site.begin()

    async def _requested(self) -> InitializerRequest:
        request = evolve(await super()._requested(), active_branch=self._site.into)
        objective: str | None = getattr(self._source, "objective", None)
        if objective and not self._says_what_for:
            request = evolve(request, current_objective=objective)
        notes: Sequence[str] = getattr(self._source, "notes", ())
        if not notes:
            return request
        self._at.remark = f"! {'; '.join(_shortened(notes))}"
        return evolve(request, progress_summary="\n".join([request.progress_summary, *_shortened(notes)]))

    def _knows_list(self) -> bool:
        return self._source is None

    async def _load_features(self) -> Sequence[Feature]:
        if self._source is None:
            return await super()._load_features()
        begun = self.state.manifest is not None
        commit = await self._where_listed() if begun else await self._site.begin()
        try:
            async with self._site.judge.at(commit) as checkout:
                found = await self._source.load(checkout)
        except NothingToDo:
            if not begun:
                raise
            # All that was listed is done: nothing is new.
            return self._known
        if not isinstance(self._source, FailingTests):
            return found
        # How a test failed at the beginning is part of its feature; that it fails otherwise by now makes no other one of it.
        known = {feature.id: feature for feature in self._known}
        return [known.get(feature.id, feature) for feature in found]

    @property
    def _known(self) -> Sequence[Feature]:
        return [evolve(feature, passes=False) for feature in self.state.features]

    async def _where_listed(self) -> str:
        """Return the commit whose list counts once the work has begun: where the branch is, whoever has moved it.

        Work goes on there only when a person accepts that.
        """
        tip = await self._site.origin.tip(self._site.into)
        return tip if tip is not None and await self._site.has(tip) else self._good

    # orders

    async def _obey(self, order: object) -> str | None:
        match order:
            case {"accept_base": str(wanted)}:
                return await self._accept_base(wanted)
            case _:
                return None

    async def _accept_base(self, wanted: str) -> str:
        site = self._site
        tip = await site.origin.tip(site.into)
        if tip is None or len(wanted) < 7 or not tip.startswith(wanted):
            return f"order to accept {wanted:.80} was not followed: branch {site.into!r} is at {tip}"
        if tip == self._good:
            return f"{tip} is the last good commit already"
        await site.judge.take(site.origin.git.directory, tip)
        manifest = evolve(agreed(self.state), last_known_good_commit=tip)
        # What passed at another commit has to be seen to pass at this one.
        self.update_state(lambda state: evolve(state, manifest=manifest, version=state.version + 1))
        return f"work goes on at {tip}, which {site.into!r} was moved to by somebody else"


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


def _shortened(notes: Sequence[str]) -> list[str]:
    more = len(notes) - _MOST_NOTES
    return [*notes[:_MOST_NOTES], *([f"and {more} more"] if more > 0 else [])]
