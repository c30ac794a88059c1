"""What goes wrong, and how often. Pure: a fate is drawn from the seed and the client order id, so that it does not depend
on which requests happen to come first.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b

from attrs import field, fields, frozen
from attrs.validators import ge, le


class Fate(StrEnum):
    """What happens to a request."""

    CALM = "calm"
    """It is answered as it should be."""
    LOST = "lost"
    """It is taken, and no answer comes: the client's time runs out."""
    IGNORED = "ignored"
    """It is not taken, and no answer comes."""
    LATE = "late"
    """No answer comes, and it is taken later, after others that came after it, if it is still valid then."""
    TWICE = "twice"
    """It is taken once and answered twice: the second answer comes late, into whatever is being said by then."""
    DROPPED = "dropped"
    """It is taken, and the connection breaks."""
    BROKEN_TAKEN = "broken-taken"
    """It is taken, and the answer is that nobody knows."""
    BROKEN = "broken"
    """It is not taken, and the answer is that nobody knows."""
    MOVED = "moved"
    """It is not taken, and the answer is to send it to the same address again."""
    LIMITED = "limited"
    """It is refused for its rate, with the seconds to wait."""
    RESTART = "restart"
    """The venue drops all connections, before it has taken this one, and comes back later."""
    HELD = "held"
    """No answer comes, and it is taken when an order of the same client id comes again, if it is still valid then."""


def _chance(default: float) -> float:
    return field(default=default, validator=[ge(0.0), le(1.0)])


@frozen
class Hostility:
    """How often what goes wrong. All zero: a venue as it should be."""

    lost: float = _chance(0.0)
    ignored: float = _chance(0.0)
    late: float = _chance(0.0)
    twice: float = _chance(0.0)
    dropped: float = _chance(0.0)
    broken_taken: float = _chance(0.0)
    broken: float = _chance(0.0)
    moved: float = _chance(0.0)
    limited: float = _chance(0.0)
    restart: float = _chance(0.0)
    held: float = _chance(0.0)
    queries: float = _chance(0.0)
    """Of what is asked, as against ordered: ignored, dropped and limited, by a third each."""
    parts: float = _chance(0.0)
    """Of the orders: filled in two to four parts, over up to a second."""
    late_s: float = 0.4
    """At most, for `late`."""
    down_s: float = 0.2
    """For `restart`."""
    retry_after_s: int = 1
    swing_s: float = 0.0
    """How far the venue's clock goes ahead and behind, over and over."""
    swing_period_s: float = 30.0


CALM = Hostility()
HOSTILE = Hostility(
    lost=0.30,
    ignored=0.04,
    late=0.04,
    twice=0.04,
    dropped=0.02,
    broken_taken=0.01,
    broken=0.01,
    moved=0.005,
    limited=0.01,
    restart=0.0002,
    queries=0.03,
    parts=0.25,
    swing_s=0.1,
)
_ORDER = ("lost", "ignored", "late", "twice", "dropped", "broken_taken", "broken", "moved", "limited", "restart", "held")
assert {name.replace("_", "-") for name in _ORDER} == {str(fate) for fate in Fate} - {"calm"}
assert set(_ORDER) < {name.name for name in fields(Hostility)}


@frozen
class Lot:
    """What was drawn for one request."""

    fate: Fate
    delay_s: float = 0.0
    """Of what comes late."""
    parts: int = 1
    pace_ms: int = 0


def draw(hostility: Hostility, seed: int, client_id: str, times: int) -> Lot:
    """Return what becomes of the order request that is the `times`-th under its client id."""
    one, two, three, four = _numbers(f"{seed}:{client_id}:{times}")
    parts, pace_ms = (2 + int(three / hostility.parts * 2.999), int(20 + 300 * four)) if three < hostility.parts else (1, 0)
    for name in _ORDER:
        one -= getattr(hostility, name)
        if one < 0:
            return Lot(Fate(name.replace("_", "-")), two * hostility.late_s, parts, pace_ms)
    return Lot(Fate.CALM, two * hostility.late_s, parts, pace_ms)


def parse_lot(text: str) -> Lot:
    """Return the fate that `text` names, and the seconds that it may give after a colon: `late:0.25`."""
    fate, _, delay = text.partition(":")
    return Lot(Fate(fate), float(delay or 0.05))


def draw_query(hostility: Hostility, seed: int, number: int) -> Fate:
    """Return what becomes of the `number`-th request that is no new order."""
    one, two, _, _ = _numbers(f"{seed}:query:{number}")
    if one >= hostility.queries:
        return Fate.CALM
    return (Fate.IGNORED, Fate.DROPPED, Fate.LIMITED)[int(two * 3)]


def _numbers(text: str) -> tuple[float, float, float, float]:
    digest = blake2b(text.encode(), digest_size=16).digest()
    one, two, three, four = (int.from_bytes(digest[i : i + 4]) / 2**32 for i in range(0, 16, 4))
    return one, two, three, four
