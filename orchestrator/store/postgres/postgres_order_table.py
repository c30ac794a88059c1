"""Orders and questions to harnesses that run, wherever they run: rows of the table `orders`.

    given ──► taken by the run that owns the harness ──► answered by it
      └─────► withdrawn, if nobody has taken it within its time

Invariant: an order is taken once, by one run, in one transaction, and before its time is over by the server's clock; who gave
it withdraws it in one transaction, too. So nobody carries out one that was withdrawn, or one whose giver has gone long ago.

A harness that nobody runs still belongs to the run that had it last, while that lives: it can start it again. Once that has
ended, a node may take the order to start it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection
from typing import Any

from attrs import frozen

from orchestrator.errors import StoreUnusable
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import Database, LimitedDatabase, is_connection_error, limited
from orchestrator.store.postgres.postgres_schema import HEAR_NEWS, TELL_NEWS
from orchestrator.store.postgres.postgres_setup import check_version
from orchestrator.store.run_orders import Answer, GivenOrder, OrderNotTaken, TakenOrder
from orchestrator.text.json_text import json_line

STARTS = ("start", "restart")
_TAKE_S = 5.0
"""Seconds in which an order has to be taken: a run that listens does so at once, one that does not within a second."""
_TAKE_START_S = 15.0
"""The same for an order that a node has to take: it looks as seldom as its fleet is large."""
_LOOK_S = 0.25
"""Seconds between two looks for an answer, in case its notification is lost."""
_AGAIN_S = 0.3
"""Seconds until an order is given again that came to a run which has just handed the harness over."""
_WITHDRAWN = 408
_MALFORMED = 400
_UNKNOWN = 404
"""Status of the answer of a run that does not have the harness, and so has done nothing."""

_KEEPER = """
(SELECT CASE WHEN is_alive(h.owner) THEN h.owner ELSE (SELECT c.run FROM claims c WHERE c.harness = h.id AND is_alive(c.run)
    AND c.epoch = (SELECT max(d.epoch) FROM claims d WHERE d.harness = h.id)) END FROM harnesses h WHERE h.name = {name})
"""
"""The living run that has a harness, or had it last; null if there is none."""
_OPEN = "o.status IS NULL AND o.run IS NULL AND o.until > clock_timestamp()"
OPEN_STARTS = f"""
SELECT o.harness FROM orders o WHERE {_OPEN} AND o.verb IN ('start', 'restart') AND {_KEEPER.format(name="o.harness")} IS NULL
"""
"""Harnesses that somebody has ordered to start, and that belong to no living run."""
_FORGET = "DELETE FROM orders WHERE until < clock_timestamp() - interval '1 day'"
_GIVE = """
INSERT INTO orders (id, harness, verb, options, body, given_by, until)
VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp() + %s * interval '1 second')
"""
_LOOK = "SELECT run, is_alive(run), status, answer, until <= clock_timestamp() FROM orders WHERE id = %s"
_WITHDRAW = f"UPDATE orders SET status = {_WITHDRAWN} WHERE id = %s AND run IS NULL AND status IS NULL RETURNING true"
_BLANK = "UPDATE orders SET body = '', answer = '' WHERE id = %s"
"""What was asked and answered is of no use any more: only who gave which order is kept, for a day."""
_FOR_RUN = f"""
SELECT o.id, o.harness, o.verb, o.options, o.body, o.run IS NULL FROM orders o WHERE o.status IS NULL AND (o.run = %s OR
    ({_OPEN} AND (o.harness = ANY(%s::text[]) OR {_KEEPER.format(name="o.harness")} = %s))) ORDER BY o.given
"""
_TAKE = f"UPDATE orders o SET run = %s WHERE o.id = ANY(%s::text[]) AND {_OPEN} RETURNING o.id"
_ANSWER = "UPDATE orders SET status = %s, answer = %s WHERE id = %s"
_WHERE = f"""
SELECT coalesce({_KEEPER.format(name="w.name")}, ''), EXISTS (SELECT 1 FROM nodes n WHERE is_alive(n.run))
FROM (SELECT %s::text) AS w (name)
"""
_OWNER = """
SELECT n.name, extract(epoch FROM clock_timestamp() - l.renewed)::float8,
       extract(epoch FROM l.until - clock_timestamp())::float8
FROM leases l LEFT JOIN nodes n ON n.run = l.run WHERE l.run = %s
"""
_UNPLACED = "SELECT as_json(unplaced) ->> %s FROM nodes WHERE is_alive(run) AND as_json(unplaced) ->> %s IS NOT NULL LIMIT 1"


def why_unplaced(db: Database, harness: str) -> str | None:
    """Return why no node runs a harness, as one of them says; None if none does."""
    row = db.row(_UNPLACED, (harness, harness))
    return None if row is None else str(row[0])


def take_orders(db: Database, run: str, startable: Collection[str]) -> list[TakenOrder]:
    """Take the orders that are for a run; return all that it has taken and not answered.

    One that was encrypted with another key is refused.

    Args:
        startable: harnesses that belong to no living run, which this one may start.
    """
    found = db.rows(_FOR_RUN, (run, list(startable), run))
    waiting = [row[0] for row in found if row[5]]
    taken = {id for (id,) in db.rows(_TAKE, (run, waiting))} if waiting else set[str]()
    orders: list[TakenOrder] = []
    for id, harness, verb, options, body, is_open in found:
        if not is_open or id in taken:
            try:
                orders.append(TakenOrder(id, harness, verb, options, db.cipher.reveal("order", body)))
            except StoreUnusable as error:  # given with another key: it must not keep the others from being carried out
                _write_answer(db, id, _MALFORMED, json_line({"error": str(error)}))
    return orders


def answer_order(db: Database, id: str, status: int, text: str) -> None:
    """Write the answer to an order, and wake whoever waits for it. It may be written twice."""
    _write_answer(db, id, status, db.cipher.hide("answer", text))


def _write_answer(db: Database, id: str, status: int, text: str) -> None:
    with db.transaction():
        db.execute(_ANSWER, (status, text, id))
        db.execute(TELL_NEWS)


def give_order(address: Address, order: GivenOrder, *, wait_s: float, answer_s: float) -> Answer | None:
    """Give an order, and wait for its answer; None if there is no program that could take it.

    Args:
        wait_s: seconds that each statement may take.
        answer_s: seconds that a run may take for its answer.

    Raises:
        OrderNotTaken: nobody has taken it in time: it is withdrawn. Or whoever took it does not answer.
        StoreUnusable: the server does not answer; perhaps the order is carried out.
    """
    with limited(address, wait_s) as db:
        check_version(db, address)
        try:
            db.execute(HEAR_NEWS)
            return _Giving(db, address.location, order, answer_s).give()
        except Exception as error:
            if not is_connection_error(error):
                raise
            raise StoreUnusable(
                f"{address.location} has stopped answering: expected it to say what has become of the order to {order.verb} "
                f"{order.harness!r}; perhaps it is carried out: look before you give it again"
            ) from error


@frozen
class _Giving:
    """Gives one order, again if a run says that it has just handed the harness over."""

    _db: LimitedDatabase
    _location: str
    _order: GivenOrder
    _answer_s: float

    def give(self) -> Answer | None:
        give_up = time.monotonic() + _TAKE_S
        answer: Answer | None = None
        while True:
            keeper, has_nodes = self._db.row(_WHERE, (self._order.harness,))
            if not keeper and not (has_nodes and self._order.verb in STARTS):
                return answer
            answer = self._give_once(keeper)
            if answer.status != _UNKNOWN or time.monotonic() > give_up:
                return answer
            time.sleep(_AGAIN_S)

    def _give_once(self, keeper: str) -> Answer:
        db, order, id = self._db, self._order, secrets.token_hex(8)
        take_s = _TAKE_S if keeper else _TAKE_START_S
        body = db.cipher.hide("order", order.body)
        with db.transaction():
            db.execute(_FORGET)
            db.execute(_GIVE, (id, order.harness, order.verb, order.options, body, order.by, take_s))
            db.execute(TELL_NEWS)
        answer = self._wait(id, keeper, take_s)
        db.execute(_BLANK, (id,))
        return answer

    def _wait(self, id: str, keeper: str, take_s: float) -> Answer:
        until: float | None = None
        while True:
            run, is_alive, status, text, is_over = self._db.row(_LOOK, (id,))
            if status is not None:
                return Answer(status, self._read(status, text or ""), run or "")
            if run is None and is_over and self._db.row(_WITHDRAW, (id,)):
                raise OrderNotTaken(self._why_not(keeper, take_s))
            if run is not None:
                until = time.monotonic() + self._answer_s if until is None else until
                if not is_alive or time.monotonic() > until:
                    raise OrderNotTaken(self._why_no_answer(run, is_alive))
            self._db.hear(_LOOK_S)

    def _read(self, status: int, text: str) -> str:
        try:
            return self._db.cipher.reveal("answer", text)
        except StoreUnusable as error:
            if status == _UNKNOWN:
                return "{}"  # nothing was done, so it may be given again
            said = f"the order to {self._order.verb} was answered with {status}, which cannot be read"
            raise StoreUnusable(f"harness {self._order.harness!r}: {said}: {error}") from error

    def _why_not(self, keeper: str, take_s: float) -> str:
        """Return why nobody has taken the order."""
        said = f"harness {self._order.harness!r} did not get the order to {self._order.verb}, which is withdrawn"
        if keeper:
            return (
                f"{said}: expected {self._who(keeper)} to take it within {take_s:g} s; see whether that program hangs or "
                "takes no orders, or give it again when the lease has lapsed"
            )
        why = why_unplaced(self._db, self._order.harness) or "none has it in its file"
        return f"{said}: expected a node to start it within {take_s:g} s: {why}; `orchestrator nodes` shows them"

    def _why_no_answer(self, run: str, is_alive: bool) -> str:
        ended = f"within {self._answer_s:g} s" if is_alive else "before it ended"
        return (
            f"harness {self._order.harness!r}: expected {self._who(run)} to answer the order to {self._order.verb} {ended}; "
            "it has taken it, so perhaps it is carried out: look before you give it again"
        )

    def _who(self, run: str) -> str:
        """Return who has a harness, and since when its lease has not been renewed."""
        row: Any = self._db.row(_OWNER, (run,))
        if row is None:
            return f"its owner, run {run}, whose lease has ended,"
        node, ago_s, left_s = row
        named = f"its owner, run {run}" + (f" of node {node}" if node else "")
        lapses = f"lapses in {left_s:.1f} s" if left_s > 0 else f"lapsed {-left_s:.1f} s ago"
        return f"{named}, whose lease was renewed {max(ago_s, 0.0):.1f} s ago and {lapses},"
