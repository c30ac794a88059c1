"""Whether a harness may be claimed to go on with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.errors import OwnedElsewhere
from orchestrator.lifecycle import ENDED, Status
from orchestrator.store.store_protocol import Claim


def is_over(status: Status, event: Mapping[str, Any]) -> bool:
    """Return whether a harness has come to an end of its own: not by that of its program, after which it goes on.

    Args:
        event: its last one.
    """
    return status in ENDED and not (status is Status.STOPPED and bool(event.get("program_ended")))


def check_going_on(claim: Claim, status: Status, event: Mapping[str, Any]) -> None:
    """Raise for a claim of a harness that is only to go on, if it has ended.

    Raises:
        OwnedElsewhere: another program has come to its end.
    """
    if claim.goes_on and not claim.reopen and is_over(status, event):
        raise OwnedElsewhere(
            f"harness {claim.name!r} has ended ({status.value}) in another program meanwhile: expected one that goes on; "
            "nothing is to be done"
        )
