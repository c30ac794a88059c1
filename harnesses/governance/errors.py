"""The errors of governance, within the project's error tree.

HarnessError
├── HarnessMisuse
│   └── GuardrailError      invalid guardrails: an unknown name, a wrong type, a negative number
├── ContractError           an invalid contract; every problem with its path
│   └── NotClaimed          a contract for work that is not the attempt in progress
├── EvidenceError           an invalid ledger entry: a field is missing, or a file cannot be bound
├── NoProgressMade          the steps repeat: the attempt ends, and a fresh one begins
└── Waiting
    └── GuardrailTripped    a limit is reached: the harness is blocked until a person decides
"""

from __future__ import annotations

from collections.abc import Sequence

from harnesses.errors import HarnessError, HarnessMisuse, Waiting

_SHOWN = 20
"""Problems shown in a message; all of them are in `problems`."""


class GuardrailError(HarnessMisuse):
    """The guardrails are invalid."""


class ContractError(HarnessError):
    """A contract is invalid. All problems are in `problems`, each one line with the path of its value."""

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        more = len(self.problems) - _SHOWN
        shown = "\n".join(self.problems[:_SHOWN])
        super().__init__(f"{shown}\n… and {more} more" if more > 0 else shown)


class NotClaimed(ContractError):
    """The contract was not handed in for the attempt in progress, so it cannot be judged."""


class EvidenceError(HarnessError):
    """An entry is invalid and is not added to the ledger."""


class NoProgressMade(HarnessError):
    """Steps have repeated for as long as `no_progress` allows. The attempt ends, and a fresh one begins."""


class GuardrailTripped(Waiting):
    """A limit is reached. Do not catch it: the outcome is then "blocked" until a person decides."""
