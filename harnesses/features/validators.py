"""Validators that judge any kind of work: all that are asked, and one that accepts everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import trio

from harnesses.features.errors import InvalidRequest
from harnesses.features.feature import Feature, Verdict
from harnesses.features.protocols import OutcomeValidator
from harnesses.features.turn import checked_verdict

WorkT = TypeVar("WorkT")


class AcceptAll:
    """Accepts everything; made by `accept_all`."""

    proves = False
    """It runs nothing, so it proves nothing."""

    def __repr__(self) -> str:
        return "accept_all()"

    async def validate(self, feature: Feature, work: object) -> Verdict:
        """Return that it passes."""
        await trio.lowlevel.checkpoint()
        return Verdict(passed=True, evidence="accepted without being looked at", validator="accept_all")


def accept_all() -> AcceptAll:
    """Return a validator that accepts everything, for trying things out. No harness has it unless it is asked for."""
    return AcceptAll()


class AllOf:
    """Asks several validators; made by `all_of`."""

    def __init__(self, validators: Sequence[OutcomeValidator[Any]]) -> None:
        # Guards run nothing, so they cost nothing, and what they refuse is not worth running.
        self.validators = tuple(sorted(validators, key=_proves))

    @property
    def proves(self) -> bool:
        """Whether one of them runs something."""
        return any(map(_proves, self.validators))

    def __repr__(self) -> str:
        return f"all_of({', '.join(map(repr, self.validators))})"

    async def validate(self, feature: Feature, work: Any) -> Verdict:
        """Return what the first one that refuses has found, or else what all have, with all evidence up to there."""
        found: list[Verdict] = []
        for validator in self.validators:
            found.append(checked_verdict(await validator.validate(feature, work), f"validator {validator!r:.100}"))
            if not found[-1].passed:
                break
        return _joined(found)


def all_of(*validators: OutcomeValidator[WorkT]) -> OutcomeValidator[WorkT]:
    """Return a validator that accepts what all of `validators` accept.

    Those that only look (`proves` is false) are asked before those that run something; the first that refuses ends it.
    """
    if not validators:
        raise InvalidRequest("all_of: expected one validator or more, was none; to accept everything, ask for accept_all()")
    return AllOf(validators)


def _proves(validator: object) -> bool:
    """Return whether a validator runs something; one that does not say so does."""
    return bool(getattr(validator, "proves", True))


def _joined(found: Sequence[Verdict]) -> Verdict:
    commits = {verdict.commit for verdict in found} - {None}
    return Verdict(
        passed=all(verdict.passed for verdict in found),
        evidence="\n".join(f"{verdict.validator or 'validator'}: {verdict.evidence}" for verdict in found),
        validator=" & ".join(verdict.validator or "validator" for verdict in found),
        commit=commits.pop() if len(commits) == 1 else None,
        duration_s=sum(verdict.duration_s for verdict in found),
    )
