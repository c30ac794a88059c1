"""How names, amounts and moments stand in the cells of answers. Pure."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from orchestrator.text.terminal_text import one_line


def shown(name: str) -> str:
    """Return a name as it may be shown."""
    return one_line(name)


def money(amount: Decimal | None) -> str | None:
    """Return an amount as text, exact, without zeros that say nothing; None of what is not known."""
    if amount is None:
        return None
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def moment(value: datetime | None) -> str | None:
    """Return a moment as text, in UTC."""
    return None if value is None else f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
