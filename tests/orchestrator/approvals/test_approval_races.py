"""G12: whatever is raced, replayed, changed or slipped in, nothing passes without a genuine approval of that very action."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from attrs import asdict, evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harnesses.effects.approval import Action, Answer, Case, Request, Use, Word, request_of, signed, stand
from orchestrator import MemoryStore, SqliteStore, UsageError
from orchestrator.errors import StoreBusy
from orchestrator.records import ApprovalRecord
from orchestrator.store.conformance.conformance_tools import claim
from orchestrator.store.store_operations import APPROVAL_KINDS, Ask, Respond, TakeUp
from orchestrator.store.store_protocol import Claimed, Store

SECRET, OTHER = b"k" * 32, b"o" * 32
NOW_US = 1_000_000_000
HOUR_US = 3_600_000_000


def request(id: str = "a1", harness: str = "one", step: int = 1, key: str = "push", to: str = "main") -> Request:
    return request_of(id, harness, step, key, Action("publish", "push", {"to": to}, expires_s=3600), now_us=NOW_US)


def answer(to: Request, verdict: str = "approved", at_us: int = NOW_US + 1) -> Answer:
    return Answer(id=to.id, digest=to.digest, verdict=verdict, by="ann", reason="", answered_us=at_us)


def case(*answers: str, of: Request | None = None, uses: tuple[str, ...] = ()) -> Case:
    made = of or request()
    return Case(made.harness, made.step, signed(made, SECRET), answers, uses)


STRANGERS = [
    request(id="b2"),
    request(harness="two"),
    request(step=2),
    request(key="pull"),
    request(to="prod"),
]
"""Requests that differ in one thing from the one that is asked."""


@pytest.mark.parametrize("stranger", STRANGERS, ids=["id", "harness", "step", "key", "arguments"])
@pytest.mark.parametrize("secret", [SECRET, OTHER], ids=["ours", "theirs"])
@pytest.mark.parametrize("verdict", ["approved", "denied", "used"])
def test_what_was_said_of_another_action_is_no_answer_to_this_one(stranger, secret, verdict):
    said = signed(answer(stranger, "approved" if verdict == "used" else verdict), secret)
    uses = (signed(Use(id=stranger.id, digest=stranger.digest, used_us=NOW_US), secret),) if verdict == "used" else ()

    assert stand(case(said, uses=uses), SECRET, now_us=NOW_US + 2).word is Word.INVALID


def test_a_case_moved_to_another_step_or_harness_is_invalid():
    whole = case(signed(answer(request()), SECRET))

    moved = [evolve(whole, step=2), evolve(whole, harness="two")]

    assert {stand(one, SECRET, now_us=NOW_US + 2).word for one in moved} == {Word.INVALID}


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_body_that_was_changed_in_any_place_approves_nothing(data):
    """Characters are replaced, put in and taken out, in the request, its answer and its use."""
    made = request()
    bodies = [
        signed(made, SECRET),
        signed(answer(made), SECRET),
        signed(Use(id=made.id, digest=made.digest, used_us=NOW_US + 2), SECRET),
    ]
    which = data.draw(st.integers(0, 2))
    body = bodies[which]
    at = data.draw(st.integers(0, len(body) - 1))
    put = data.draw(st.text(max_size=3))
    changed = body[:at] + put + body[at + data.draw(st.integers(0, 3)) :]
    if changed == body:
        return
    bodies[which] = changed

    found = stand(Case("one", 1, bodies[0], (bodies[1],), (bodies[2],)), SECRET, now_us=NOW_US + 3)

    assert found.word is Word.INVALID


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([Request, Answer, Use]), st.data())
def test_a_field_that_was_changed_by_one_who_does_not_know_the_secret_approves_nothing(kind, data):
    made = request()
    records = {Request: made, Answer: answer(made), Use: Use(id=made.id, digest=made.digest, used_us=NOW_US + 2)}
    fields = asdict(records[kind])
    name = data.draw(st.sampled_from([name for name in fields if name != "mac"]))
    changed = msgspec.json.decode(signed(records[kind], SECRET))
    changed[name] = data.draw(st.one_of(st.integers(), st.text(max_size=8), st.none(), st.booleans()))
    if changed[name] == fields[name] and type(changed[name]) is type(fields[name]):
        return
    bodies = {of: signed(record, SECRET) for of, record in records.items()}
    bodies[kind] = msgspec.json.encode(changed).decode()

    found = stand(Case("one", 1, bodies[Request], (bodies[Answer],), (bodies[Use],)), SECRET, now_us=NOW_US + 3)

    assert found.word is Word.INVALID


@example(["approved"], HOUR_US, False)
@example(["approved"], HOUR_US - 1, False)
@given(
    st.lists(st.sampled_from(["approved", "denied"]), max_size=4),
    st.sampled_from([0, HOUR_US - 1, HOUR_US, 2 * HOUR_US]),
    st.booleans(),
)
def test_only_a_genuine_approval_in_time_and_without_a_denial_counts(verdicts, later_us, used):
    """The oracle: three conditions, said once more in other words."""
    made = request()
    answers = tuple(signed(answer(made, verdict, NOW_US + 1 + place), SECRET) for place, verdict in enumerate(verdicts))
    uses = (signed(Use(id=made.id, digest=made.digest, used_us=NOW_US + 9), SECRET),) if used else ()

    found = stand(case(*answers, uses=uses), SECRET, now_us=NOW_US + later_us)

    may = "approved" in verdicts and (used or ("denied" not in verdicts and later_us < HOUR_US))
    assert (found.word is Word.APPROVED) == may


# races, in a real file


def ask(store: Store, claimed: Claimed, wanted: Request) -> str:
    return store.commit((), [Ask(claimed.harness, claimed.epoch, 1, wanted, SECRET)]).results[0].id


def take_up(store: Store, claimed: Claimed, id: str, step: int = 1) -> Word:
    look = TakeUp(claimed.harness, claimed.epoch, 1, step, id, NOW_US + 10, SECRET)
    return store.commit((), [look]).results[0].standing.word


def said(id: str, verdict: str, by: str = "ann", secret: bytes = SECRET) -> Respond:
    return Respond(id, verdict, by, "", NOW_US + 5, secret)


def order_of(store: Store, id: str) -> list[str]:
    """Return what is on record of a request, in order."""
    words = []
    for record in store.records(limit=100_000):
        fields = msgspec.json.decode(record.body) if record.kind in APPROVAL_KINDS else {}
        if fields.get("id") == id:
            words.append(fields.get("verdict") or record.kind.removeprefix("approval_"))
    return words


def check(order: list[str]) -> None:
    """What was used was approved before, was not denied before, and was used once."""
    if "used" in order:
        before = order[: order.index("used")]
        assert "approved" in before
        assert "denied" not in before
        assert order.count("used") == 1


@pytest.mark.parametrize("seed", range(4))
def test_of_an_approval_and_a_denial_that_race_the_denial_wins_unless_it_comes_too_late(tmp_path: Path, seed: int) -> None:
    """Fifty races of three connections in three threads."""
    rng = random.Random(seed)
    with closing(SqliteStore(tmp_path / "run.db")) as ours, closing(SqliteStore(tmp_path / "run.db")) as theirs:
        claimed = claim(ours, "one")
        for number in range(50):
            id = ask(ours, claimed, request(id=f"r{number}", key=f"k{number}"))
            said_by_others = [said(id, "approved"), said(id, "denied", "bob")]
            rng.shuffle(said_by_others)
            barrier = threading.Barrier(3)

            def respond(words: Respond, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                theirs.commit((), [words])

            threads = [threading.Thread(target=respond, args=(words,)) for words in said_by_others]
            for thread in threads:
                thread.start()
            barrier.wait()
            words = [take_up(ours, claimed, id) for _ in range(rng.randint(1, 4))]
            for thread in threads:
                thread.join()
            words.append(take_up(ours, claimed, id))
            check(order_of(ours, id))
            assert words[-1] in (Word.APPROVED, Word.DENIED)
            assert (Word.APPROVED in words) == ("used" in order_of(ours, id))


@pytest.mark.parametrize("seed", range(100))
def test_answers_in_any_order_and_number_never_let_a_denied_action_pass(seed: int) -> None:
    rng = random.Random(seed)
    store = MemoryStore()
    claimed = claim(store, "one")
    id = ask(store, claimed, request(id=f"r{seed}"))

    for _ in range(12):
        if rng.random() < 0.4:
            take_up(store, claimed, id)
        else:
            store.commit((), [said(id, rng.choice(["approved", "denied"]), rng.choice("ab"))])

    check(order_of(store, id))


def slip_in(store: SqliteStore, record: ApprovalRecord, bodies: dict[str, tuple[str, ...]]) -> None:
    """Write records of one request beside those of another, past the program."""
    connection = store._db  # pyright: ignore[reportPrivateUsage]
    harness, step = connection.execute("SELECT harness, step FROM records WHERE seq = ?", (record.seq,)).fetchone()
    for kind, texts in bodies.items():
        for text in texts:
            connection.execute(
                "INSERT INTO records (harness, epoch, attempt, step, time_us, body, kind) VALUES (?, 0, 0, ?, 0, ?, ?)",
                (harness, step, text.replace('"id":"old"', f'"id":"{record.id}"'), kind),
            )


@pytest.mark.parametrize("stranger", STRANGERS, ids=["id", "harness", "step", "key", "arguments"])
@pytest.mark.parametrize("whole", [True, False], ids=["with its use", "the answer alone"])
def test_a_replay_of_what_was_said_before_approves_nothing(tmp_path: Path, stranger: Request, whole: bool) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        old = evolve(stranger, id="old")
        answers = (signed(answer(old), SECRET), signed(answer(request()), OTHER))
        uses = (signed(Use(id="old", digest=old.digest, used_us=NOW_US), SECRET),) if whole else ()
        id = ask(store, claimed, request())

        slip_in(store, store.approvals()[0], {APPROVAL_KINDS[1]: answers, APPROVAL_KINDS[2]: uses})

        assert take_up(store, claimed, id) is Word.INVALID


def test_an_approval_serves_no_other_step_than_its_own() -> None:
    store = MemoryStore()
    claimed = claim(store, "one")
    id = ask(store, claimed, request())
    store.commit((), [said(id, "approved")])

    assert (take_up(store, claimed, id, step=2), take_up(store, claimed, id)) == (Word.INVALID, Word.APPROVED)


def test_an_answer_signed_by_somebody_else_is_refused() -> None:
    store = MemoryStore()
    claimed = claim(store, "one")
    id = ask(store, claimed, request())

    (refused,) = store.commit((), [said(id, "approved", secret=OTHER)]).results

    assert isinstance(refused, UsageError)
    assert take_up(store, claimed, id) is Word.PENDING


def test_a_store_that_is_busy_answers_nothing(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "run.db")) as ours, closing(SqliteStore(tmp_path / "run.db", busy_s=0.01)) as theirs:
        claimed = claim(ours, "one")
        id = ask(ours, claimed, request())
        ours._db.execute("BEGIN IMMEDIATE")  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(StoreBusy):
            theirs.commit((), [said(id, "approved")])
        ours._db.execute("ROLLBACK")  # pyright: ignore[reportPrivateUsage]

        assert take_up(ours, claimed, id) is Word.PENDING
