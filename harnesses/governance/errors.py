"""What governance refuses, in the tree of the project's errors.

HarnessError
├── HarnessMisuse
│   └── GuardrailError      guardrails that cannot be: an unknown name, a wrong type, a number below 0
├── ContractError           what was handed in is no contract; every problem with its path
│   └── NotClaimed          it is one, of work that is not the attempt under way
├── EvidenceError           no entry of a ledger: a field is missing, or it speaks of what cannot be looked at
├── NoProgressMade          the same again and again: the attempt ends, and a fresh one begins
└── Waiting
    └── GuardrailTripped    a limit is reached: the harness is blocked until a person decides
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesses.errors import HarnessError, HarnessMisuse, Waiting

_SHOWN = 20
"""Problems that a message has; all of them are in `problems`."""


class GuardrailError(HarnessMisuse):
    """Guardrails were given that cannot be."""


class ContractError(HarnessError):
    """What was handed in is no contract. Every problem is in `problems`, each one line with the path of its value."""

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        more = len(self.problems) - _SHOWN
        shown = "\n".join(self.problems[:_SHOWN])
        super().__init__(f"{shown}\n… and {more} more" if more > 0 else shown)


class NotClaimed(ContractError):
    """It was not handed in for the attempt that is under way: nobody may judge it."""


class EvidenceError(HarnessError):
    """An entry cannot go into the ledger."""


class NoProgressMade(HarnessError):
    """Steps have repeated themselves for as long as `no_progress` allows. The attempt ends, and a fresh one begins."""


class GuardrailTripped(Waiting):
    """A limit is reached. Let it pass: the outcome is then "blocked" until a person decides."""
