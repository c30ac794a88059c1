"""What kind of ready-made harness a harness is, by its records: their names and classes do not tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field

from orchestrator.errors import StoreError
from orchestrator.presets.list_progress import kind_of_list
from orchestrator.presets.trading_course import is_trading
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

TRADING = "trading"
_JUDGES: tuple[Callable[[str], str], ...] = (lambda body: TRADING if is_trading(body) else "", kind_of_list)


@define(eq=False)
class Kinds:
    """Tells the kind of each harness, from its oldest step; it is read once."""

    reader: SqliteReader
    _known: dict[str, str] = field(factory=dict[str, str], init=False)

    def of(self, name: str) -> str:
        """Return `trading`, `features` or `tasks`; "" for any other harness, and for one that has made no step yet.

        Raises:
            UnknownHarness: there is none of that name.
        """
        if name not in self._known:
            try:
                rows = self.reader.step_rows(name, limit=1)
            except StoreError:
                return ""  # encrypted, or damaged: whatever reads it next says so
            if not rows:
                return ""
            self._known[name] = next(filter(None, (judge(rows[0].body) for judge in _JUDGES)), "")
        return self._known[name]

    def among(self, steps: Mapping[str, int], *kinds: str) -> list[str]:
        """Return the harnesses of some kinds.

        Args:
            steps: the last step of every harness, by name.
        """
        return [name for name, step in steps.items() if step and self.of(name) in kinds]
