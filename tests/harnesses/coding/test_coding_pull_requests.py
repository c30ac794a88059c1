"""Accepted work is pushed to one branch of the remote that the user has named, once, and over nobody's work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from harnesses.agent import Agent, AgentRun
from harnesses.coding import CodingHarness, PullRequest
from harnesses.coding.pull_request import filled
from harnesses.coding.pull_request_text import pull_request_text
from harnesses.coding.remotes import is_outage, is_refusal, pause_s
from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, FeatureStatus, Standing, TurnResult, Verdict
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.features.health_checks import NoHealthCheck
from orchestrator.errors import StoreError, StoreLost
from orchestrator.store.in_memory.memory_store import MemoryStore
from orchestrator.testing import FaultyStore, run_to_end
from tests.harnesses.coding.coding_parts import Deed, ShellCheck, agent, features, writes_right
from tests.harnesses.coding.git_repositories import commit_files, fingerprint, git, make_repository

BRANCH = "harness/fix/main"
URL = "https://forge.example/pull/1"


def repositories(folder: Path) -> tuple[Path, Path]:
    """Make a user's repository with `origin`, a bare one."""
    user = make_repository(folder / "user")
    git(user, "clone", "--quiet", "--bare", user, folder / "origin.git")
    git(user, "remote", "add", "origin", folder / "origin.git")
    return user, folder / "origin.git"


def made(folder: Path, deed: Deed = writes_right, into: Any = "pr", check: Any = None, **more: Any) -> CodingHarness:
    check, space = check or ShellCheck(), folder / "space"
    wanted = more.pop("wanted", features("one", "two"))
    more = {"check_first": True, "health_check": NoHealthCheck(), **more}
    return CodingHarness(folder / "user", agent(deed), wanted, check, into=into, workspace=space, **more)


def host(folder: Path) -> PullRequest:
    """Return a pull request whose commands keep how they were called."""
    (folder / "host.sh").write_text(
        f'here={folder}\n[ "$1" = create ] && printf "%s\\n" "$@" END >> $here/calls\n[ -s $here/calls ] && echo {URL}\n'
    )
    script = ("sh", str(folder / "host.sh"))
    named = ("--head", "{branch}", "--base={base}", "--title", "{title}", "--body-file", "{body}")
    return PullRequest(command=(*script, "create", *named), find=(*script, "view", "{branch}"))


async def test_work_is_pushed_to_a_branch_of_its_own_with_title_and_body(tmp_path: Path) -> None:
    user, origin = repositories(tmp_path)
    (user / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\nexit 1\n")
    (user / ".git" / "hooks" / "pre-push").chmod(0o755)
    before, main = fingerprint(user), git(origin, "rev-parse", "main")
    store = MemoryStore()

    end = await run_to_end(harness := made(tmp_path, into=host(tmp_path)), name="fix", store=store)

    assert str(end.outcome) == f"completed: pushed {BRANCH} at {git(user, 'rev-parse', BRANCH)[:12]} to origin: {URL}"
    assert git(origin, "for-each-ref", "--format=%(refname:short)").split() == [BRANCH, "main"]
    assert (git(origin, "rev-parse", "main"), git(origin, "show", f"{BRANCH}:two.txt")) == (main, "right")
    assert git(origin, "rev-parse", BRANCH) == git(user, "rev-parse", BRANCH)
    assert fingerprint(user) == before
    assert harness.state.proposal is not None
    assert (harness.state.proposal.branch, harness.state.proposal.url) == (BRANCH, URL)
    title = "fix: 2 of 2 features pass"
    body = tmp_path / "space" / "PULL_REQUEST.md"
    asked = ["create", "--head", BRANCH, "--base=main", "--title", title, "--body-file", str(body), "END"]
    assert (tmp_path / "calls").read_text().splitlines() == asked
    assert (tmp_path / "space" / "PULL_REQUEST.title").read_text() == f"{title}\n"
    said = body.read_text()
    for part in ("**passed**, 1 try", "before: `grep ended with 2`", "after: `passed 3 times", "`git diff "):
        assert part in said
    told = (tmp_path / "space" / "HANDOFF.md").read_text()
    assert "pushed to origin: https" in told
    assert "before: grep ended with 2; after: passed 3 times" in told

    again = await run_to_end(made(tmp_path, into=host(tmp_path)), name="fix", store=store)
    assert str(again.outcome) == str(end.outcome)
    assert (len(again.steps), (tmp_path / "calls").read_text().count("END")) == (len(end.steps), 1)


@pytest.mark.parametrize(("commit", "after"), [(10, True), (11, False), (12, True), (13, False), (14, False)])
async def test_killed_before_or_after_each_act_it_pushes_and_proposes_once(tmp_path: Path, commit: int, after: bool) -> None:
    """After an intent is stored, or before an outcome or the step is. Earlier commits are those of every harness."""
    _, origin = repositories(tmp_path)
    pushes = origin / "hooks" / "post-receive"
    pushes.write_text(f"#!/bin/sh\necho pushed >> {tmp_path}/pushes\n")
    pushes.chmod(0o755)
    store, died = MemoryStore(), False
    one: dict[str, Any] = {"wanted": features("one"), "confirmations": 1, "check_first": False}
    deadly = FaultyStore(store, StoreError("dies here"), at=commit, after=after)
    try:
        await run_to_end(made(tmp_path, into=host(tmp_path), **one), name="fix", store=deadly)
    except* StoreLost:
        store.close()
        died = True
    end = await run_to_end(made(tmp_path, into=host(tmp_path), **one), name="fix", store=store)

    assert died
    assert end.outcome.kind == "completed"
    assert (tmp_path / "pushes").read_text() == "pushed\n"
    assert (tmp_path / "calls").read_text().count("END") == 1
    assert git(origin, "show", f"{BRANCH}:one.txt") == "right"


async def test_nothing_that_others_have_pushed_is_overwritten(tmp_path: Path) -> None:
    user, origin = repositories(tmp_path)
    theirs = commit_files(user, {"theirs.txt": "theirs\n"})
    git(user, "push", "--quiet", "origin", f"{theirs}:refs/heads/{BRANCH}")
    git(user, "reset", "--quiet", "--hard", "HEAD~")
    store = MemoryStore()

    end = await run_to_end(made(tmp_path), name="fix", store=store)

    assert str(end.outcome).startswith("blocked")
    assert "somebody else has pushed there" in str(end.outcome)
    assert git(origin, "rev-parse", BRANCH) == theirs

    git(origin, "branch", "-D", BRANCH)
    end = await run_to_end(made(tmp_path), name="fix", store=store)
    assert end.outcome.kind == "completed"
    assert git(origin, "show", f"{BRANCH}:two.txt") == "right"


async def test_later_work_is_pushed_on_top_and_a_push_that_others_have_built_on_counts(tmp_path: Path) -> None:
    user, origin = repositories(tmp_path)
    store = MemoryStore()
    await run_to_end(made(tmp_path, into=host(tmp_path)), name="fix", store=store)
    first = git(origin, "rev-parse", BRANCH)

    more: dict[str, Any] = {"wanted": features("one", "two", "three"), "amend": True}
    end = await run_to_end(made(tmp_path, into=host(tmp_path), **more), name="fix", store=store)

    assert end.outcome.kind == "completed"
    assert git(origin, "rev-list", "--first-parent", f"{first}..{BRANCH}").count("\n") == 0
    assert git(origin, "show", f"{BRANCH}:three.txt") == "right"
    assert (tmp_path / "calls").read_text().count("END") == 1

    git(user, "switch", "--quiet", "--detach", BRANCH)
    commit_files(user, {"review.txt": "theirs\n"})
    git(user, "push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}")
    theirs = git(user, "rev-parse", "HEAD")
    more["wanted"] = features("one", "two", "three", "four")
    end = await run_to_end(made(tmp_path, into=host(tmp_path), **more), name="fix", store=store)
    assert "somebody else has pushed there" in str(end.outcome)
    assert git(origin, "rev-parse", BRANCH) == theirs


async def test_work_after_a_pull_request_was_merged_gets_another_one(tmp_path: Path) -> None:
    _, origin = repositories(tmp_path)
    store, into = MemoryStore(), host(tmp_path)
    await run_to_end(made(tmp_path, into=into), name="fix", store=store)
    git(origin, "update-ref", "refs/heads/main", git(origin, "rev-parse", BRANCH))
    git(origin, "branch", "-D", BRANCH)
    (tmp_path / "calls").rename(tmp_path / "merged")

    more: dict[str, Any] = {"wanted": features("one", "two", "three"), "amend": True}
    end = await run_to_end(made(tmp_path, into=into, **more), name="fix", store=store)

    assert end.outcome.kind == "completed"
    assert (tmp_path / "calls").read_text().count("END") == 1


@pytest.mark.parametrize("signed_in", ["user:p@ss@", "user:pa/ss@", "my-token-77@"])
async def test_what_a_remote_is_signed_in_with_is_not_shown(tmp_path: Path, signed_in: str) -> None:
    user, _ = repositories(tmp_path)
    git(user, "remote", "set-url", "origin", f"http://{signed_in}127.0.0.1:9/x.git")

    end = await run_to_end(made(tmp_path, into=PullRequest(limit_s=0.001, max_wait_s=0.0)), name="fix", restart="temporary")

    assert "remote 'origin'" in str(end.outcome)
    for secret in ("p@ss", "pa/ss", "my-token-77"):
        assert secret not in str(end.outcome)


async def test_an_address_that_has_changed_since_the_work_began_gets_nothing_until_a_person_accepts_it(tmp_path: Path) -> None:
    user, origin = repositories(tmp_path)
    elsewhere = make_repository(tmp_path / "elsewhere.git", bare=True)
    settings, store = user / ".git" / "config", MemoryStore()
    changed = settings.read_text().replace(str(origin), str(elsewhere))
    try:
        await run_to_end(made(tmp_path), name="fix", store=FaultyStore(store, StoreError("dies here"), at=12))
    except* StoreLost:
        store.close()
    settings.write_text(changed)

    end = await run_to_end(made(tmp_path), name="fix", store=store, messages=[{"accept_remote": "other"}])

    assert str(end.outcome).startswith("blocked")
    assert "has another address than when the work began" in str(end.outcome)
    assert git(elsewhere, "for-each-ref", "--format=%(refname:short)") == "main"
    assert git(origin, "for-each-ref", "--format=%(refname:short)") == "main"

    end = await run_to_end(made(tmp_path), name="fix", store=store, messages=[{"accept_remote": "origin"}])
    assert end.outcome.kind == "completed"
    assert git(elsewhere, "show", f"{BRANCH}:two.txt") == "right"


async def test_an_agent_that_changes_the_address_during_its_turn_moves_nothing_there(tmp_path: Path) -> None:
    user, origin = repositories(tmp_path)
    elsewhere = make_repository(tmp_path / "elsewhere.git", bare=True)

    def redirect(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        git(user, "config", "remote.origin.url", str(elsewhere))
        git(user, "config", "url.x.insteadOf", str(origin))

    end = await run_to_end(made(tmp_path, redirect), name="fix")

    assert end.outcome.kind == "completed"
    assert git(elsewhere, "for-each-ref", "--format=%(refname:short)") == "main"
    assert BRANCH in git(origin, "for-each-ref", "--format=%(refname:short)")


async def test_a_remote_that_refuses_blocks_with_its_words_and_so_does_one_that_is_away_for_too_long(tmp_path: Path) -> None:
    _, origin = repositories(tmp_path)
    hook = origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no pushes on sundays' >&2\nexit 1\n")
    hook.chmod(0o755)
    store = MemoryStore()

    end = await run_to_end(made(tmp_path), name="fix", store=store)
    assert str(end.outcome).startswith("blocked")
    assert "no pushes on sundays" in str(end.outcome)

    origin.rename(tmp_path / "gone.git")
    end = await run_to_end(made(tmp_path, into=PullRequest(max_wait_s=0.0)), name="fix", store=store)
    assert str(end.outcome).startswith("blocked")
    assert f"remote 'origin' ({origin}) cannot be asked for branch" in str(end.outcome)


async def test_a_remote_that_refuses_to_be_asked_blocks_before_a_push_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, origin = repositories(tmp_path)
    monkeypatch.setattr("harnesses.coding.remotes.is_refusal", lambda said: True)

    def deed(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        if origin.exists():
            origin.rename(tmp_path / "gone.git")

    end = await run_to_end(made(tmp_path, deed), name="fix", store=MemoryStore())

    assert str(end.outcome).startswith("blocked")
    assert "see that git can sign in without asking" in str(end.outcome)


async def test_a_remote_that_is_away_for_a_while_is_waited_for_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, origin = repositories(tmp_path)
    pauses: list[int] = []

    def pause_s(failed: int) -> float:
        pauses.append(failed)
        if failed == 3:
            (tmp_path / "away.git").rename(origin)
        return 0.01

    def deed(asked: Assignment, tree: Path) -> None:
        writes_right(asked, tree)
        if origin.exists():
            origin.rename(tmp_path / "away.git")

    monkeypatch.setattr("harnesses.coding.workplace.delivery.pause_s", pause_s)
    store = MemoryStore()

    end = await run_to_end(made(tmp_path, deed), name="fix", store=store)

    assert (str(end.outcome.kind), end.outcome.attempt, pauses) == ("completed", 1, [1, 2, 3])
    assert git(origin, "show", f"{BRANCH}:two.txt") == "right"
    assert len([one for one in store.effects("fix") if one.key.startswith("push")]) == 1
    (said,) = [one.getMessage() for one in caplog.records if "waits for its remote" in one.getMessage()]
    assert str(origin) in said


@pytest.mark.parametrize("lost", ["question", "answer"])
async def test_a_host_that_is_away_when_the_pull_request_is_opened_is_waited_for_and_gets_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Nothing reaches the host, or its answer is lost after it has opened the pull request."""
    repositories(tmp_path)
    into, away, pauses = host(tmp_path), tmp_path / "away", list[int]()
    away.touch()
    script = tmp_path / "host.sh"
    says = f"[ -e {away} ] && echo 'error connecting to forge.example' && exit 1\n"
    opens = f'[ "$1" = create ] && [ -e {away} ] && printf "%s\\n" "$@" END >> {tmp_path}/calls\n' if lost == "answer" else ""
    script.write_text(f"{opens}{says}{script.read_text()}")

    def pause_s(failed: int) -> float:
        pauses.append(failed)
        if failed == 3:
            away.unlink()
        return 0.01

    monkeypatch.setattr("harnesses.coding.workplace.delivery.pause_s", pause_s)
    if lost == "answer":
        into = evolve(into, find=("sh", "-c", f"[ -s {tmp_path}/calls ] && echo {URL}"))

    end = await run_to_end(made(tmp_path, into=into), name="fix")

    assert (str(end.outcome.kind), end.outcome.attempt) == ("completed", 1)
    assert pauses == ([1, 2, 3] if lost == "question" else [])
    assert URL in str(end.outcome)
    assert (tmp_path / "calls").read_text().count("END") == 1


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (True, "fatal: unable to access 'https://h/x/': Could not resolve host: h"),
        (True, "fatal: unable to access 'https://h/x/': The requested URL returned error: 503"),
        (True, "ssh: connect to host h port 22: Connection timed out\nfatal: Could not read from remote repository."),
        (False, "remote: Invalid username or token.\nfatal: Authentication failed for 'https://h/x/'"),
        (False, "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository."),
        (False, "remote: Repository not found.\nfatal: repository 'https://h/x/' not found"),
        (False, "fatal: could not read Username for 'https://h': terminal prompts disabled"),
    ],
)
def test_whether_waiting_can_help_is_told_from_what_git_wrote(failed: bool, said: str) -> None:
    assert (not is_refusal(said)) is failed


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (True, "error connecting to api.github.com\ncheck your internet connection or https://githubstatus.com"),
        (True, 'Post "https://h/api": dial tcp: lookup h: no such host'),
        (True, "HTTP 503: Service Unavailable (https://api.github.com/graphql)"),
        (False, "pull request create failed: GraphQL: No commits between main and harness/fix/main"),
        (False, "HTTP 401: Bad credentials (https://api.github.com/graphql)"),
    ],
)
def test_whether_a_host_is_away_is_told_from_what_its_command_wrote(away: bool, said: str) -> None:
    assert is_outage(said) is away


def test_the_pause_grows_to_a_minute() -> None:
    assert [pause_s(failed) for failed in (1, 2, 3, 7, 1_000)] == [1.0, 2.0, 4.0, 60.0, 60.0]


@pytest.mark.parametrize(
    ("settings", "into", "said"),
    [
        ({}, PullRequest(remote="fork"), "'fork' is not there"),
        ({"remote.odd.url": "ext::sh -c true"}, PullRequest(remote="odd"), "expected an address"),
        ({"remote.odd.url": "--upload-pack=true"}, PullRequest(remote="odd"), "expected an address"),
        ({"remote.odd.url": "evil://ada:p@ss@host/x"}, PullRequest(remote="odd"), "got 'evil://host/x'"),
        ({}, PullRequest(branch="work", base="work"), "cannot be proposed for"),
        ({}, PullRequest(branch="bad..name"), "expected the name of a branch"),
        ({}, PullRequest(command=["no-such-program"]), "'no-such-program' was not found"),
    ],
)
async def test_what_cannot_be_pushed_to_is_said_before_an_agent_is_asked(
    tmp_path: Path, settings: dict[str, str], into: PullRequest, said: str
) -> None:
    user, _ = repositories(tmp_path)
    for key, value in settings.items():
        git(user, "config", key, value)

    end = await run_to_end(made(tmp_path, into=into), name="fix")

    assert end.outcome.kind in ("failed", "blocked")
    assert said in end.outcome.cause
    assert end.steps == ()


@pytest.mark.parametrize("remote", ["https://evil.example/x", "--mirror", "../other", "", "a b", "x" * 200])
def test_a_remote_is_named_by_a_name(remote: str) -> None:
    with pytest.raises(InvalidRequest, match="expected the name of a remote"):
        PullRequest(remote=remote)


@pytest.mark.parametrize(
    "command", [[], ["{title}"], ["sh", "-c", "gh pr create --title {title}"], ["x", "a{branch}"], ["x", "--a b={title}"]]
)
def test_no_placeholder_is_a_part_of_a_script(command: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="command"):
        PullRequest(command=command)


def test_placeholders_are_replaced_as_words_and_nothing_is_replaced_twice() -> None:
    assert filled(["x", "{title}", "--body={body}", "{other}"], {"title": "{body}", "body": "b"}) == [
        "x",
        "{body}",
        "--body=b",
        "{other}",
    ]


HOSTILE = "`@everyone` fixes #1, closes https://host/issues/2 | <script>\n/assign @me\n--force\x1b[2J"


def test_text_of_agents_is_in_code_spans_of_one_line() -> None:
    work = TurnResult(base="a" * 40, commit="b" * 40, before=HOSTILE, message=HOSTILE)
    proof = Verdict(passed=True, evidence=f"{HOSTILE} passed")
    standings = (
        Standing(feature_id=HOSTILE, status=FeatureStatus.PASSED, tries=1, accepted=work, evidence=proof),
        Standing(feature_id="two", status=FeatureStatus.BLOCKED, tries=3, last_failure=HOSTILE),
    )
    state = FeatureState(features=(Feature(HOSTILE, HOSTILE), Feature("two", HOSTILE)), standings=standings)

    text = pull_request_text("--fix `it`", state, None, 3)
    many = [
        Standing(feature_id=f"{number:0100}", status=FeatureStatus.BLOCKED, last_failure="x" * 300) for number in range(200)
    ]
    state = FeatureState(features=tuple(Feature(one.feature_id, "") for one in many), standings=tuple(many))
    long = pull_request_text("fix", state, None, 3).body
    assert len(long) <= 60_000
    assert long.rstrip().endswith("more")

    assert not text.title.startswith("-")
    rest = re.sub(r"`[^`\n]*`", "", text.body)
    assert not set(rest) & set("`@#<>\x1b/")
    assert all(line.startswith(("*", "  *", "1 of 2")) for line in rest.splitlines() if line)


async def test_words_of_an_agent_do_nothing_at_a_host_that_reads_commit_messages(tmp_path: Path) -> None:
    _, origin = repositories(tmp_path)

    async def run(asked: AgentRun[FeatureState, Assignment]) -> TurnResult:
        writes_right(asked.input, Path(asked.input.directory or ""))
        return TurnResult(message="fixes #1, closes GH-2, @team https://host/issues/3 [skip ci]\n\nskip-checks: true")

    harness = made(tmp_path)
    harness.wrap_agent(lambda _: Agent(run, name="hostile"))
    await run_to_end(harness, name="fix")

    said = git(origin, "log", "--format=%B", f"main..{BRANCH}")
    assert "fixes # 1, closes GH 2, @ team https: //host/issues/3 [ skip ci]" in said
    assert not re.search(r"#\d|@\w|GH-\d|://|\[skip|^skip-checks", said, re.MULTILINE)
