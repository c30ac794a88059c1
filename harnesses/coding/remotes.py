"""A remote of the user's repository: one branch there is looked at, and moved forward.

Invariants: a push moves a branch only from the commit that was seen there, and only forward, in one act; its address
is the one that was agreed when the work began. The user's own settings of git are used to sign in, the repository's are not,
since an agent without a sandbox can write to them; no hook runs.
"""

from __future__ import annotations

import re
from hashlib import sha256

from attrs import evolve, frozen

from harnesses.coding.branches import HEADS
from harnesses.coding.git import Git, GitError
from harnesses.coding.user_repository import UserRepository
from harnesses.errors import Waiting
from harnesses.features.agent_text import kept_part
from harnesses.features.errors import InvalidRequest, MemoryFailed

_SIGNED_IN = re.compile(r"(?<=://)\S*@")
_ADDRESS = re.compile(r"(https?|ssh|file)://|[^/:\s-][^/:\s]*:(?!:|//)|[./]|[^:-][^:]*$")
"""A URL, `host:path` as for ssh, or a path; not `ext::…`, which is a command."""
_REFUSED = re.compile(
    r"authentication failed|permission denied|access denied|could not read (?:username|password)|terminal prompts disabled"
    r"|returned error: 40[0134]|repository .{0,300}not found|host key verification failed|not authorized",
    re.IGNORECASE,
)
_AWAY = re.compile(
    r"could not resolve|no such host|name resolution|network is (?:unreachable|down)|error connecting to|tls handshake timeout"
    r"|connection (?:refused|reset|timed out)|i/o timeout|bad gateway|service unavailable|gateway time-?out|\bHTTP 50[234]\b",
    re.IGNORECASE,
)
_LONGEST_PAUSE_S = 60.0
_OPTIONS = ("protocol.https.allow=always", "protocol.http.allow=always", "protocol.ssh.allow=always", "push.followTags=false")


class RemoteUnreachable(MemoryFailed):
    """The remote does not answer: the network or the host is down. Nothing is known to be wrong with the request."""


def is_refusal(said: str) -> bool:
    """Return whether git wrote that signing in failed or the repository is not there: waiting does not help then."""
    return _REFUSED.search(said) is not None


def is_outage(said: str) -> bool:
    """Return whether a host's command wrote that the network or the host is down: waiting may help then."""
    return _AWAY.search(said) is not None


def pause_s(failed: int) -> float:
    """Return the seconds before a remote is tried again, after so many failures in a row."""
    return min(_LONGEST_PAUSE_S, 2.0 ** min(failed - 1, 10))


@frozen
class Remote:
    """A remote with its address."""

    name: str
    address: str
    git: Git
    """The judge's repository, which has the commits, with the user's settings."""
    limit_s: float

    @property
    def fingerprint(self) -> str:
        """A hash of the address, which may hold a password."""
        return f"{self.name} {sha256(self.address.encode(errors='surrogateescape')).hexdigest()[:32]}"

    async def tip(self, branch: str) -> str | None:
        """Return the commit of a branch there; None if there is no such branch.

        Raises:
            RemoteUnreachable: the remote does not answer.
            Waiting: it refuses to be asked.
        """
        code, out, tail = await self._ask("ls-remote", "--heads", "--end-of-options", self.address, f"{HEADS}{branch}")
        if code != 0:
            raise self._failure(f"cannot be asked for branch {branch!r}", code, tail)
        found = (line.split("\t", 1) for line in out.decode(errors="surrogateescape").splitlines() if "\t" in line)
        return next((commit for commit, ref in found if ref == f"{HEADS}{branch}"), None)

    async def push(self, commit: str, branch: str, last: str | None) -> str:
        """Have a branch there at a commit, and return the commit. Calling it again is harmless.

        Args:
            last: the commit that was pushed there before; None if the branch is not there yet.

        Raises:
            Waiting: somebody else has moved or made the branch, or the remote refuses it.
            RemoteUnreachable: the remote does not answer.
        """
        tip = await self.tip(branch)
        if tip == commit:
            return commit
        if tip is not None and (last is None or not await self._has(tip, commit)):
            if await self._holds(branch, tip, commit):
                return commit
            expected = "no such branch" if last is None else f"it at {last}"
            raise Waiting(
                f"{self}: branch {branch!r} is at {tip}: expected {expected}; somebody else has pushed there, and nothing is "
                f"overwritten: take over what is there, or remove it, and start again"
            )
        lease = f"--force-with-lease={HEADS}{branch}:{tip or ''}"
        command = ("push", "--porcelain", "--no-verify", "--no-recurse-submodules", "--no-signed", lease)
        code, out, tail = await self._ask(*command, "--end-of-options", self.address, f"{commit}:{HEADS}{branch}")
        if code == 0:
            return commit
        said = out.decode(errors="replace")
        refused = [line for line in said.splitlines() if line.startswith("!")]
        why = self._shown("\n".join([*refused, tail]))
        if refused:
            raise Waiting(f"{self} refuses branch {branch!r} at {commit}: expected it to be accepted; git wrote: {why}")
        raise self._failure(f"was not given branch {branch!r}", code, why)

    def _failure(self, what: str, code: int, said: str) -> Waiting | RemoteUnreachable:
        """Return the error for a git command that failed: whether waiting can help is told from its words."""
        why = f"{self} {what}: git ended with {code}: {self._shown(said)}"
        if is_refusal(said):
            return Waiting(f"{why}; see that git can sign in without asking, and start again")
        return RemoteUnreachable(why)

    async def _has(self, old: str, new: str) -> bool:
        """Return whether a commit is in the history of another one."""
        code, _, _ = await self.git.ask("merge-base", "--is-ancestor", old, new)
        return code == 0

    async def _holds(self, branch: str, tip: str, commit: str) -> bool:
        """Return whether what others have pushed there contains a commit: then it was pushed before."""
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        code, _, _ = await self._ask("fetch", *options, "--end-of-options", self.address, f"{HEADS}{branch}")
        return code == 0 and await self._has(commit, tip)

    async def _ask(self, *arguments: str) -> tuple[int, bytes, str]:
        options = [word for setting in _OPTIONS for word in ("-c", setting)]
        try:
            return await self.git.ask(*options, *arguments, limit_s=self.limit_s)
        except GitError as error:
            raise RemoteUnreachable(f"{self} did not answer: {self._shown(str(error))}") from None

    def _shown(self, text: str) -> str:
        return _SIGNED_IN.sub("", kept_part(text.replace(self.address, self.name), 1_000)).strip() or "nothing"

    def __str__(self) -> str:
        return f"remote {self.name!r} ({_SIGNED_IN.sub('', self.address)})"


async def find_remote(user: UserRepository, judge: Git, name: str, limit_s: float) -> Remote:
    """Return a remote of the user's repository.

    Raises:
        InvalidRequest: it has none of that name, several addresses, or one that is no address of a repository.
    """
    where = f"repository {user.path}: remote {name!r}"
    found: list[str] = []
    for key in (f"remote.{name}.pushurl", f"remote.{name}.url"):
        said = await user.git.says("config", "--local", "--get-all", key)
        found = found or [line for line in (said or "").splitlines() if line]
    if not found:
        raise InvalidRequest(f"{where} is not there: expected one of `git remote`; add it, or name another as `remote`")
    if len(found) > 1:
        raise InvalidRequest(f"{where} has {len(found)} addresses: expected one; name another as `remote`")
    address = found[0]
    if not _ADDRESS.match(address):
        shown = _SIGNED_IN.sub("", address)
        raise InvalidRequest(f"{where}: expected an address with https, ssh or a path, got {shown!r:.200}; correct it")
    if not re.match(r"[^/]+:", address):
        address = str((user.path / address).absolute())
    return Remote(name, address, evolve(judge, as_user=True, held=()), limit_s)
