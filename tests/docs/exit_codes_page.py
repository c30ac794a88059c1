"""`docs/reference/exit-codes.md`."""

from __future__ import annotations

from orchestrator.cli.exit_codes import ExitCode, of_outcome
from orchestrator.outcome import Outcome, OutcomeKind
from tests.docs.tables import rows

_HEAD = """\
# Exit codes

Every verb of `orchestrator` ends with one of these codes. Of several that apply to a run the one that must not be overlooked
wins: 75, 5 and 6 first, then that of a signal, then 2, 1, 4 and 3.

"""
MEANINGS = {
    ExitCode.OK: ("ok", "nothing"),
    ExitCode.FAILED: ("a harness failed or gave up; or the disk, the network or a program outside failed", "read the message"),
    ExitCode.USAGE: ("usage: an argument, a run file or the file of the store cannot be used; nothing was done", "correct it"),
    ExitCode.STOPPED: (
        "stopped, or a budget is spent; it can be resumed",
        "run the same command again; raise the budget first",
    ),
    ExitCode.BLOCKED: ("a person has to act: an approval, a missing program, a guardrail", "`orchestrator status` says what"),
    ExitCode.INTEGRITY: ("the store contradicts itself", "`orchestrator verify`; restore a copy"),
    ExitCode.UNKNOWN: ("nobody knows whether an effect has happened", "`orchestrator effects`, then `effects settle`"),
    ExitCode.OWNED_ELSEWHERE: ("a living process runs the harness", "stop that one, or leave it alone"),
}
_SIGNALS = (("130", "ended by SIGINT", "run it again to resume"), ("143", "ended by SIGTERM", "run it again to resume"))


def page() -> str:
    """Return the page."""
    codes = [(str(int(code)), *MEANINGS[code]) for code in ExitCode]
    outcomes = [(f"`{kind}`", str(int(of_outcome(Outcome(kind))))) for kind in OutcomeKind]
    parts = [_HEAD.rstrip("\n"), "", *rows(("code", "meaning", "what to do"), iter((*codes, *_SIGNALS)))]
    parts += ["", "## By outcome of a harness", "", *rows(("outcome", "code"), iter(outcomes))]
    return "\n".join(
        [*parts, "", "A failed harness has the code of its error where that has one of its own: see [errors](errors.md).", ""]
    )
