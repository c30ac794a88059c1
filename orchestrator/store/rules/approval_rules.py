"""How a store processes requests, answers and uses of approvals, independent of where it keeps their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from attrs import evolve, field, frozen

from harnesses.effects.approval import VERDICTS, Answer, Case, Request, Standing, Use, Word, left_us, read, signed, stand
from harnesses.redaction.redactor import redact_text
from harnesses.timing.clock import Ticks
from orchestrator.errors import UsageError
from orchestrator.records import ApprovalRecord
from orchestrator.store.store_operations import (
    ANSWERED,
    APPROVAL_KINDS,
    REQUESTED,
    USED,
    Ask,
    Asked,
    InsertRecord,
    Respond,
    Taken,
    TakeUp,
)


class Filed(NamedTuple):
    """A record of an approval, as a store finds it."""

    kind: str
    harness: int
    harness_name: str
    step: int
    body: str


class ApprovalRows(Protocol):
    """Access to a store's approval records, within the transaction of a commit."""

    def newest(self, harness: int, digest: str) -> str | None:
        """Return the id of the newest request for an action."""
        ...

    def of(self, id: str) -> Sequence[Filed]:
        """Return all records of a request, oldest first."""
        ...

    def file(self, seq: int, id: str, harness: int, digest: str) -> None:
        """Index a record."""
        ...


class ApprovalRules:
    """Carries out the operations on approvals."""

    def __init__(self, rows: ApprovalRows, insert: InsertRecord) -> None:
        self._rows = rows
        self._insert = insert
        self.operations: dict[type[Any], Callable[[Any], Any]] = {Ask: self.ask, TakeUp: self.take_up, Respond: self.respond}

    def ask(self, ask: Ask) -> Asked:
        """Return the valid request for an action, recording a new one if the last has expired or was reopened."""
        wanted = ask.request
        known = self._rows.newest(ask.harness, wanted.digest)
        if known is not None:
            case = case_of(self._rows.of(known))
            ticks = Ticks(wanted.era, wanted.ticks_us) if wanted.era else None
            if stand(case, ask.secret, now_us=wanted.requested_us, ticks=ticks).word not in _OVER:
                return Asked(known)
        place = (ask.harness, ask.epoch, ask.attempt, wanted.step, wanted.requested_us)
        seq = self._insert(*place, signed(wanted, ask.secret), REQUESTED)
        self._rows.file(seq, wanted.id, ask.harness, wanted.digest)
        return Asked(wanted.id, seq)

    def respond(self, said: Respond) -> int:
        """Record an answer, if it changes anything. Its text is redacted before it is signed."""
        filed = self._rows.of(said.id)
        if not filed:
            raise UsageError(f"there is no approval request {said.id!r}: expected an id from `orchestrator approvals`")
        case = case_of(filed)
        standing = stand(case, said.secret, now_us=said.time_us, ticks=said.ticks)
        if _is_said(standing, said):
            return 0
        _check_answerable(said, standing)
        request = read(Request, case.request, said.secret)
        if said.verdict == "reopened":
            _check_reopenable(said, standing, self._rows.newest(filed[0].harness, request.digest))
        else:
            _check_open(said, standing)
        answer = Answer(
            id=said.id,
            digest=request.digest,
            verdict=said.verdict,
            by=redact_text(said.by),
            reason=redact_text(said.reason),
            answered_us=said.time_us,
        )
        return self._record(filed[0], answer, ANSWERED, said.time_us, said.secret)

    def take_up(self, asked: TakeUp) -> Taken:
        """Record the use of an approval, if it may be used."""
        filed = self._rows.of(asked.id)
        if not filed:
            return Taken(Standing(Word.INVALID, reason="its request is no longer recorded"))
        case = case_of(filed)
        standing = stand(case, asked.secret, now_us=asked.time_us, ticks=asked.ticks)
        if standing.word is Word.APPROVED and (filed[0].harness, filed[0].step) != (asked.harness, asked.step):
            standing = Standing(Word.INVALID, reason="it is for another step")
        if standing.word is Word.INVALID:
            return Taken(standing)
        request = read(Request, case.request, asked.secret)
        if standing.word is not Word.APPROVED or standing.used:
            return Taken(standing, left_us=left_us(request, now_us=asked.time_us, ticks=asked.ticks))
        use = Use(id=asked.id, digest=request.digest, used_us=asked.time_us)
        place = (asked.harness, asked.epoch, asked.attempt, asked.step, asked.time_us)
        seq = self._insert(*place, signed(use, asked.secret), USED)
        self._rows.file(seq, asked.id, asked.harness, request.digest)
        return Taken(evolve(standing, used=True), seq)

    def _record(self, request: Filed, answer: Answer, kind: str, time_us: int, secret: bytes) -> int:
        seq = self._insert(request.harness, 0, 0, request.step, time_us, signed(answer, secret), kind)
        self._rows.file(seq, answer.id, request.harness, answer.digest)
        return seq


@frozen(eq=False)
class MemoryApprovalRows:
    """The approval records of a store in memory.

    Args:
        look: returns time and record of a `seq`.
    """

    _look: Callable[[int], tuple[int, Filed]]
    _index: list[tuple[int, str, int, str]] = field(factory=list[tuple[int, str, int, str]])

    def newest(self, harness: int, digest: str) -> str | None:
        return next((id for _, id, *of in reversed(self._index) if of == [harness, digest]), None)

    def of(self, id: str) -> Sequence[Filed]:
        return [self._look(seq)[1] for seq, known, *_ in self._index if known == id]

    def file(self, seq: int, id: str, harness: int, digest: str) -> None:
        self._index.append((seq, id, harness, digest))

    def all(self) -> Iterable[tuple[str, int, int, Filed]]:
        """Return id, `seq`, time and content of every record, oldest first."""
        return [(id, seq, *self._look(seq)) for seq, id, *_ in self._index]


def case_of(filed: Sequence[Filed]) -> Case:
    """Return everything recorded of one request.

    A second request with the same id makes it invalid, and so does any order other than request, answers, use.
    """
    first, *rest = filed
    by_kind: dict[str, list[str]] = {REQUESTED: [], ANSWERED: [], USED: []}
    for record in filed:
        by_kind[record.kind].append(record.body)
    requests = by_kind[REQUESTED]
    elsewhere = any((record.harness, record.step) != (first.harness, first.step) for record in rest)
    places = [APPROVAL_KINDS.index(record.kind) for record in filed]
    request = requests[0] if len(requests) == 1 and not elsewhere and places == sorted(places) else ""
    return Case(first.harness_name, first.step, request, tuple(by_kind[ANSWERED]), tuple(by_kind[USED]))


def approval_records(filed: Iterable[tuple[str, int, int, Filed]]) -> list[ApprovalRecord]:
    """Return the requests made of id, `seq`, time and content of each record, oldest first."""
    found: dict[str, list[tuple[int, int, Filed]]] = {}
    for id, *rest in filed:
        found.setdefault(id, []).append(cast(tuple[int, int, Filed], tuple(rest)))
    records: list[ApprovalRecord] = []
    for id, (first, *others) in found.items():
        seq, time_us, request = first
        case = case_of([request, *(record for _, _, record in others)])
        records.append(ApprovalRecord(id, request.harness_name, request.step, seq, time_us, case))
    return records


def _is_said(standing: Standing, said: Respond) -> bool:
    same = {"approved": Word.APPROVED, "denied": Word.DENIED, "reopened": Word.REOPENED}.get(said.verdict)
    return standing.word is same


def _check_answerable(said: Respond, standing: Standing) -> None:
    """Raise if an answer is malformed, or its request cannot be trusted."""
    if said.verdict not in VERDICTS or not said.by.strip():
        words = ", ".join(VERDICTS[:-1])
        raise UsageError(
            f"approval {said.id!r}: expected {words} or {VERDICTS[-1]} by somebody, was {said.verdict!r} by {said.by!r}"
        )
    if standing.word is Word.INVALID:
        raise UsageError(f"approval {said.id!r} cannot be answered: {standing.reason}; run `orchestrator verify` for details")


def _check_open(said: Respond, standing: Standing) -> None:
    """Raise if an approval or denial comes too late."""
    if standing.used:
        raise UsageError(f"approval {said.id!r} was used already: it can no longer be denied")
    if standing.word is Word.EXPIRED:
        raise UsageError(f"approval {said.id!r} has expired: the harness asks again when it is started again")
    if standing.word is Word.REOPENED:
        raise UsageError(
            f"approval {said.id!r} was reopened by {standing.by!r}, so it is no longer valid; the harness asks again when it "
            "is started again, and `orchestrator approvals` then shows the new request"
        )
    if standing.word is Word.DENIED:
        raise UsageError(
            f"approval {said.id!r} was denied by {standing.by!r}, which stands; `orchestrator approvals reopen {said.id}` "
            "makes it ask again"
        )


def _check_reopenable(said: Respond, standing: Standing, newest: str | None) -> None:
    """Raise unless a request was denied or has expired, and was not made again since."""
    id = said.id
    if standing.used:
        raise UsageError(f"approval {id!r} was used already: expected a denied one; its action may have been carried out")
    if standing.word is Word.PENDING:
        raise UsageError(
            f"approval {id!r} is pending: expected a denied one; answer it: `orchestrator approve {id}` or "
            f"`orchestrator deny {id}`"
        )
    if standing.word is Word.APPROVED:
        raise UsageError(
            f"approval {id!r} was approved by {standing.by!r} and not used yet: expected a denied one; the harness "
            f"uses it when it runs, or `orchestrator deny {id}` withdraws it first"
        )
    if newest != id:
        raise UsageError(f"approval {id!r} was requested again as {newest!r} since: expected the latest; answer that one")


_OVER = (Word.EXPIRED, Word.REOPENED)
"""Standings of requests that are no longer valid: the same action is requested again."""
