"""Proposes accepted work as a pull request: pushes the branch, writes title and body, and has a command tell the host.

    run has ended ──► push (an effect) ──► PULL_REQUEST.md ──► command (an effect) ──► Proposal in the state

Invariants: a push is settled by looking at the remote, so it is not done twice; a command of unknown outcome is settled by
`find`, or by a person.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import trio
from attrs import evolve, field, frozen

from harnesses.coding.pull_request import PullRequest, filled
from harnesses.coding.pull_request_text import pull_request_text
from harnesses.coding.remotes import Remote, RemoteUnreachable, find_remote, is_outage, pause_s
from harnesses.coding.repositories import Repositories
from harnesses.diagnostics.program_log import get_logger
from harnesses.effects.effect import Confirmed, NotDone
from harnesses.errors import Waiting
from harnesses.features.agent_text import kept_part, one_line
from harnesses.features.errors import InvalidRequest, MemoryFailed, NotReady
from harnesses.features.feature_record import FeatureState, Proposal
from harnesses.features.loop.feature_shutdown import write_all
from harnesses.features.loop.feature_workplace import Once, Pause, Settle
from harnesses.features.loop.startup_checks import check_agreed
from harnesses.processes.bounded_command import Ran, run_bounded

AnswerT = TypeVar("AnswerT")
REMOTE = "pull_request_remote"
"""Key in the manifest's metadata: the fingerprint of the remote when the work began."""
BODY, TITLE = "PULL_REQUEST.md", "PULL_REQUEST.title"
_ADDRESS = re.compile(r"https?://[^\s\"'<>`]{1,500}")


def undelivered(state: FeatureState) -> str | None:
    """Return the commit with accepted work that was not proposed yet; None if there is none."""
    good = None if state.manifest is None else state.manifest.last_known_good_commit
    has_work = any(one.accepted is not None and one.accepted.base != one.accepted.commit for one in state.standings)
    if not has_work or (state.proposal is not None and state.proposal.commit == good):
        return None
    return good


@frozen
class Delivery:
    """Proposes the work of one harness."""

    asked: PullRequest
    repositories: Repositories
    confirmations: int
    remote: Remote = field(repr=False)

    @property
    def base(self) -> str:
        return self.asked.base or self.repositories.user.head or "main"

    def agreed(self, state: FeatureState) -> bool:
        """Return whether the remote is the one of when the work began."""
        return dict(check_agreed(state).metadata).get(REMOTE) == self.remote.fingerprint

    def agree(self, state: FeatureState, name: str) -> tuple[FeatureState, str]:
        """Process a message that accepts the remote's present address."""
        if name != self.remote.name:
            return state, f"message to accept remote {name:.80} was not followed: work goes to {self.remote.name!r}"
        manifest = check_agreed(state)
        metadata = tuple(sorted({**dict(manifest.metadata), REMOTE: self.remote.fingerprint}.items()))
        return evolve(state, manifest=evolve(manifest, metadata=metadata)), f"the present address of {self.remote} is used"

    async def deliver(self, once: Once, settle: Settle, pause: Pause, state: FeatureState, commit: str) -> Proposal:
        """Push a commit and propose it; calling it again continues where it was.

        Raises:
            Waiting: a person must decide about the remote, or it has not answered for too long.
            MemoryFailed: the command failed.
        """
        if not self.agreed(state):
            raise Waiting(
                f"repository {self.repositories.user.path}: {self.remote} has another address than when the work began: "
                f'nothing is pushed there; set it back, or accept it with the message {{"accept_remote": '
                f'"{self.remote.name}"}}, and start again'
            )
        before, branch, remote = state.proposal, self.repositories.into, self.remote.name
        last = None if before is None else before.commit
        await self._when_reached(pause, partial(self._push_once, once, settle, (commit, branch, remote, last)))
        text = pull_request_text(self.repositories.name, state, self.asked.title, self.confirmations)
        folder = self.repositories.workspace.root
        await trio.to_thread.run_sync(write_all, folder, {BODY: text.body, TITLE: f"{text.title}\n"})
        url = None if before is None else before.url
        if self.asked.command is not None and self.asked.find is not None:
            # The one before may have been merged or closed since.
            words = (text.title, branch, remote, commit)
            propose = partial(once, f"propose {branch} at {commit}", self._propose, *words, reconcile=self._reconcile)
            url = await self._when_reached(pause, propose)
        elif self.asked.command is not None and before is None:
            url = await once(f"propose {branch}", self._propose, text.title, branch, remote, commit)
        return Proposal(commit=commit, branch=branch, remote=remote, url=url or None)

    async def _when_reached(self, pause: Pause, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Ask the remote's host, and wait while it does not answer.

        Raises:
            NotReady: it has not answered for `max_wait_s`.
        """
        failed, since = 0, trio.current_time()
        while True:
            try:
                return await ask()
            except RemoteUnreachable as error:
                failed += 1
                if trio.current_time() - since > self.asked.max_wait_s:
                    raise NotReady(
                        f"{error}; expected an answer within {self.asked.max_wait_s:g} s; the work is kept: start again when "
                        "the remote is back"
                    ) from error
                if failed == 1:
                    get_logger(__name__).warning("accepted work waits for its remote, which is tried again: %s", error)
                await pause(pause_s(failed))

    async def _push_once(self, once: Once, settle: Settle, arguments: tuple[str, str, str, str | None]) -> None:
        """Push. The remote is asked before, so that a wait is not on record as a push.

        Raises:
            Waiting: it refuses.
            RemoteUnreachable: it does not answer.
        """
        commit, branch, *_ = arguments
        await self.remote.tip(branch)
        try:
            await once(f"push {commit}", self._push, *arguments, idempotent=True)
        except Waiting:
            # It has certainly not happened; a person's message may be heard before it is tried again.
            await settle(f"push {commit}", _not_done)
            raise

    async def _push(self, commit: str, branch: str, remote: str, last: str | None) -> str:
        # The judge's repository can have been made anew since.
        await self.repositories.go_on(commit)
        return await self.remote.push(commit, branch, last)

    async def _propose(self, title: str, branch: str, remote: str, commit: str) -> str:
        """Run the command, unless the pull request is open, and return its address; "" if it does not say it."""
        if self.asked.find is not None and (url := await self._find(title, branch, remote, commit)):
            return url
        ran = await self._run(self.asked.command or (), title, branch, remote, commit)
        if self.asked.find is not None:
            self._check_reached(self.asked.command, ran)
        if ran.code != 0:
            how = "was ended" if ran.code is None else f"ended with code {ran.code}"
            raise MemoryFailed(
                f"pull request of branch {branch!r}: `{(self.asked.command or ('',))[0]}` {how}: expected 0; it wrote: "
                f"{kept_part(ran.tail, 500).strip() or 'nothing'}"
            )
        return _address_in(ran)

    async def _reconcile(self, _: str, title: str, branch: str, remote: str, commit: str) -> Confirmed | NotDone:
        url = await self._find(title, branch, remote, commit)
        return Confirmed(url) if url else NotDone()

    async def _find(self, title: str, branch: str, remote: str, commit: str) -> str:
        ran = await self._run(self.asked.find or (), title, branch, remote, commit)
        self._check_reached(self.asked.find, ran)
        return (_address_in(ran) or one_line(ran.tail)) if ran.code == 0 else ""

    def _check_reached(self, command: tuple[str, ...] | None, ran: Ran) -> None:
        """Raise `RemoteUnreachable` if a command wrote that the network or the host is down."""
        if ran.code != 0 and is_outage(ran.tail):
            said = kept_part(ran.tail, 500).strip()
            raise RemoteUnreachable(f"host of {self.remote}: `{(command or ('',))[0]}` did not reach it; it wrote: {said}")

    async def _run(self, command: tuple[str, ...], title: str, branch: str, remote: str, commit: str) -> Ran:
        body = str(self.repositories.workspace.root / BODY)
        values: Mapping[str, str] = {
            "title": title, "body": body, "branch": branch, "base": self.base, "commit": commit, "remote": remote
        }  # fmt: skip
        return await run_bounded(filled(command, values), limit_s=self.asked.limit_s, cwd=self.repositories.user.path)


def _not_done(*_: object) -> NotDone:
    return NotDone()


def _address_in(ran: Ran) -> str:
    found = _ADDRESS.findall(ran.tail)
    return one_line(found[-1], 500) if found else ""


async def open_delivery(asked: PullRequest, repositories: Repositories, confirmations: int) -> Delivery:
    """Return what proposes the work of a harness, after checking what can be checked.

    Raises:
        InvalidRequest: the remote cannot be used, or the branch is the one that the work is proposed for.
        NotReady: a command is not installed.
    """
    remote = await find_remote(repositories.user, repositories.judge.git, asked.remote, asked.limit_s)
    delivery = Delivery(asked, repositories, confirmations, remote)
    into = repositories.into
    if into == delivery.base or (asked.branch is None and not into.startswith("harness/")):
        raise InvalidRequest(
            f"repository {repositories.user.path}: branch {into!r} cannot be proposed for {delivery.base!r}: expected one of "
            f"its own; start under another name, or name another `branch`"
        )
    for command in (asked.command, asked.find):
        if command is not None and shutil.which(command[0], path=None) is None:
            raise NotReady(f"{command[0]!r} was not found: expected the program that opens pull requests; install it")
    return delivery
