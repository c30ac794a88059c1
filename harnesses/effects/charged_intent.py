"""Charges an effect together with its intent, in one commit: a crash leaves both or neither."""

from __future__ import annotations

from typing import Protocol

from harnesses.data.large_values import StoredText
from harnesses.effects.effect import Journal


class IntentCharge(Protocol):
    """What is charged when an effect begins for the first time."""

    @property
    def is_limited(self) -> bool:
        """Whether the effect may begin only once its charge is on disk and no limit is exceeded."""
        ...

    def charge(self) -> None:
        """Hand the charge to the store without waiting; it joins the commit of what is handed over next."""
        ...

    def check(self) -> None:
        """Check that the effect may begin.

        Raises:
            BudgetExhausted: a limit is exceeded.
        """
        ...


class ChargedJournal:
    """The journal of an effect that is charged with its first intent."""

    def __init__(self, journal: Journal, charge: IntentCharge) -> None:
        self._journal = journal
        self._charge = charge
        self._is_charged = False
        self.redact, self.approve = journal.redact, journal.approve

    async def note(self, kind: str, body: str) -> StoredText | None:
        self._charge_first(kind)
        return await self._journal.note(kind, body)

    def note_soon(self, kind: str, body: str) -> None:
        self._charge_first(kind)
        self._journal.note_soon(kind, body)

    def check_latch(self) -> None:
        self._journal.check_latch()
        self._charge.check()

    def _charge_first(self, kind: str) -> None:
        # Nothing may be awaited between the charge and the intent.
        if kind == "intent" and not self._is_charged:
            self._is_charged = True
            self._charge.charge()
