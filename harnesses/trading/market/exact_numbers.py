"""Numbers that are exact: what stands for money, units or a part is a `Decimal`, whoever made it. Pure."""

from __future__ import annotations

from decimal import Decimal

from harnesses.errors import HarnessMisuse


def exact(what: str, value: object) -> Decimal:
    """Return a number as a `Decimal`. An int is exact already; a float is not, so it is refused.

    Args:
        what: the subject of the complaint.

    Raises:
        HarnessMisuse: it is neither.
    """
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, float):
        way_out = f"write Decimal('{value!r}'): floats are not exact"
        raise HarnessMisuse(f"{what}: expected a Decimal, was the float {value!r}; {way_out}")
    hint = f"Decimal({value!r:.80})" if isinstance(value, str) else "Decimal('0.1'), for instance"
    raise HarnessMisuse(f"{what}: expected a Decimal, was {value!r:.80}; write {hint}")


def make_exact(noun: object, *names: str, optional: bool = False) -> None:
    """See to it that fields of a frozen noun are exact, while it is being made.

    Args:
        optional: whether they may be None.
    """
    for name in names:
        value = getattr(noun, name)
        if not isinstance(value, Decimal) and not (optional and value is None):
            # Frozen for everybody else: it has not left its constructor yet.
            object.__setattr__(noun, name, exact(f"{type(noun).__name__}: {name}", value))
