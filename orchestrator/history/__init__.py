"""History: any earlier state, what changed, replaying records, and judging stored steps again.

state_at, state_hash      the state after any step, typed if the harness is given; and a hash that identifies it
diff, between             what changed between two steps, as paths
replay, replay_into       the records of a run again, at any speed
rejudge                   today's verdicts on stored steps, without running anything; `judges` has ready-made ones
fork                      a new harness from any step of another
transcripts               what agents and their models have said in a step, recorded or in progress

It needs no extra, reads any store, and cannot affect a run. Everything but `replay` reads in the calling thread.
"""

from typing import TYPE_CHECKING

from harnesses.lazy_exports import lazy as _lazy

if TYPE_CHECKING:
    from orchestrator.history.forking import Forked, fork
    from orchestrator.history.rejudging import Judge, Look, Rejudged, rejudge
    from orchestrator.history.replaying import replay, replay_into
    from orchestrator.history.state_at_step import state_at, state_hash
    from orchestrator.history.state_differences import Change, ChangeKind, between, diff
    from orchestrator.history.turn_transcripts import RecordedTurn, transcripts
else:
    __getattr__, __dir__ = _lazy(
        __name__,
        {
            "orchestrator.history.forking": "Forked fork",
            "orchestrator.history.rejudging": "Judge Look Rejudged rejudge",
            "orchestrator.history.replaying": "replay replay_into",
            "orchestrator.history.state_at_step": "state_at state_hash",
            "orchestrator.history.state_differences": "Change ChangeKind between diff",
            "orchestrator.history.turn_transcripts": "RecordedTurn transcripts",
        },
    )

__all__ = [
    "Change",
    "ChangeKind",
    "Forked",
    "Judge",
    "Look",
    "RecordedTurn",
    "Rejudged",
    "between",
    "diff",
    "fork",
    "rejudge",
    "replay",
    "replay_into",
    "state_at",
    "state_hash",
    "transcripts",
]
