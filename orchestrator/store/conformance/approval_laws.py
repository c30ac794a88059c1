"""What is asked of people is asked once, answered by the word that counts, used once; what is attached comes with its step."""

from __future__ import annotations

from contextlib import closing

from harnesses.effects.approval import Action, Word, request_of
from orchestrator.errors import OwnershipLost, UsageError
from orchestrator.store.approval_operations import KINDS, Ask, Asked, Respond, Taken, TakeUp
from orchestrator.store.conformance.conformance_tools import TIME_US, Law, Open, attached_row, claim, do, step_row
from orchestrator.store.store_protocol import Claimed, Store

_SECRET = b"s" * 32


def ask(store: Store, claimed: Claimed, *, key: str = "push", step: int = 1, at_us: int = TIME_US, id: str = "") -> Asked:
    """Ask for an approval that holds for an hour."""
    action = Action("publish", f"{key} it", {"to": "main"}, expires_s=3600)
    wanted = request_of(id or f"{key}-{step}-{at_us}", "one", step, key, action, now_us=at_us)
    asked = do(store, Ask(claimed.harness, claimed.epoch, claimed.attempt + 1, wanted, _SECRET))
    assert isinstance(asked, Asked), f"expected the request to be taken, was {asked!r}"
    return asked


def respond(store: Store, id: str, verdict: str) -> object:
    """Answer, and return what the store makes of it."""
    return do(store, Respond(id, verdict, "ann", "", TIME_US + 5, _SECRET))


def take_up(store: Store, claimed: Claimed, id: str, *, step: int = 1, at_us: int = TIME_US + 9) -> Word:
    """Look where a request stands, and use it if it may be."""
    taken = do(store, TakeUp(claimed.harness, claimed.epoch, claimed.attempt + 1, step, id, at_us, _SECRET))
    assert isinstance(taken, Taken), f"expected to be told where it stands, was {taken!r}"
    return taken.standing.word


def an_action_of_a_step_is_asked_for_once(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")

        first, again = ask(store, claimed, id="a"), ask(store, claimed, id="b", at_us=TIME_US + 1)
        other = ask(store, claimed, key="pull", id="c")

        assert (again.id, other.id) == (first.id, "c")
        assert [(record.id, record.harness, record.step_number) for record in store.approvals()] == [
            ("a", "one", 1),
            ("c", "one", 1),
        ]


def what_has_expired_is_asked_for_anew(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        first = ask(store, claimed)

        again = ask(store, claimed, at_us=TIME_US + 3_600_000_000)

        assert again.id != first.id
        assert take_up(store, claimed, first.id, at_us=TIME_US + 3_600_000_000) is Word.EXPIRED


def an_approval_is_used_once_and_is_then_past_denying(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        id = ask(store, claimed).id
        before = take_up(store, claimed, id)

        seq, same = respond(store, id, "approved"), respond(store, id, "approved")
        words = [take_up(store, claimed, id) for _ in range(2)]
        late = respond(store, id, "denied")

        assert (before, words, same, isinstance(seq, int)) == (Word.PENDING, [Word.APPROVED] * 2, 0, True)
        assert isinstance(late, UsageError)
        assert [record.kind for record in store.records() if record.kind in KINDS] == list(KINDS)


def a_denial_stands(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        id = ask(store, claimed).id
        respond(store, id, "approved")

        respond(store, id, "denied")

        assert isinstance(respond(store, id, "approved"), UsageError)
        assert take_up(store, claimed, id) is Word.DENIED


def an_approval_is_for_its_step_and_its_owner(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")
        id = ask(store, claimed).id
        respond(store, id, "approved")

        assert take_up(store, claimed, id, step=2) is Word.INVALID
        assert isinstance(do(store, TakeUp(claimed.harness, claimed.epoch + 1, 1, 1, id, TIME_US, _SECRET)), OwnershipLost)
        assert isinstance(respond(store, "nothing", "approved"), UsageError)


def what_is_attached_comes_with_its_step_or_not_at_all(open_store: Open) -> None:
    with closing(open_store()) as store:
        claimed = claim(store, "one")

        store.commit([step_row(claimed, 1)], effects=[attached_row(claimed, 1, "evidence"), attached_row(claimed, 1, "task")])
        refused = store.commit([step_row(claimed, 3)], effects=[attached_row(claimed, 3, "evidence")])

        assert [(record.kind, record.step) for record in store.records()] == [("step", 1), ("evidence", 1), ("task", 1)]
        assert (list(refused.seqs), list(refused.effects)) == ([0], [0])
        assert store.effects() == []


LAWS: tuple[Law, ...] = (
    an_action_of_a_step_is_asked_for_once,
    what_has_expired_is_asked_for_anew,
    an_approval_is_used_once_and_is_then_past_denying,
    a_denial_stands,
    an_approval_is_for_its_step_and_its_owner,
    what_is_attached_comes_with_its_step_or_not_at_all,
)
