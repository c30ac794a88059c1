"""Faults of a node: it is killed or frozen, at the worst moments."""

from __future__ import annotations

import signal
import subprocess

from tests.faults_of_nodes.trial import Fault, Mutant, Trial, altered

BELIEVED = Mutant("leases are believed for ever", sql=altered("is_alive", "AND until > clock_timestamp()", ""))
UNFENCED = Mutant("a run does not end itself before its lease lapses", changes=("without_fence",))
UNENDED = Mutant("sessions of lapsed runs are not ended", changes=("without_ending_sessions",))
UNOWNED = Mutant(
    "commits do not check the owner, nor are its sessions ended",
    changes=UNENDED.changes,
    sql=altered("commit_rows", "OR found.ownership <> as_of", ""),
)
CARELESS = Mutant("an effect is done without `once`", kind="careless")


def kill(trial: Trial) -> None:
    """`kill -9`: another node takes over when the lease has lapsed."""
    kill_and_take_over(trial, trial.start_pair())


def kill_and_take_over(trial: Trial, first: subprocess.Popen[bytes]) -> None:
    """Kill node `a`, and assert that `b` goes on with its harnesses in time."""
    first.kill()
    trial.nodes.wait_for({"b": 4})
    trial.nodes.wait_for_steps()
    trial.assert_taken_over_in_time(first.pid)
    trial.assert_whole()


def kill_in_an_effect(trial: Trial) -> None:
    """`kill -9` when an effect is done and its outcome is not recorded."""
    first = trial.start_pair("die_after_an_act")
    trial.strike()
    trial.wait_for_state(first, "Z")
    trial.nodes.wait_for({"b": 4})
    trial.nodes.wait_for_steps()
    trial.assert_whole()


def freeze(trial: Trial, *changes: str) -> None:
    """SIGSTOP: others take over; it goes on in the belief that it owns its harnesses, writes nothing, and comes back."""
    first = trial.start_pair(*changes)
    if changes:
        trial.strike()
    else:
        first.send_signal(signal.SIGSTOP)
    trial.wait_for_state(first, "T")
    trial.nodes.wait_for({"b": 4})
    trial.nodes.wait_for_steps()
    trial.assert_taken_over_in_time(first.pid)
    trial.resume(first)
    trial.nodes.wait_for({"a": 2, "b": 2})
    trial.nodes.wait_for_steps()
    assert first.poll() is None, f"the node that was frozen has ended with {first.returncode}"
    trial.assert_whole()


def freeze_mid_commit(trial: Trial) -> None:
    freeze(trial, "freeze_before_a_commit")


def freeze_before_the_answer(trial: Trial) -> None:
    freeze(trial, "freeze_before_an_intent_is_acknowledged")


def freeze_in_transaction(trial: Trial) -> None:
    freeze(trial, "freeze_in_a_transaction")


NODE_FAULTS = (
    Fault("kill", kill, (BELIEVED,)),
    Fault("kill-in-an-effect", kill_in_an_effect, (CARELESS,)),
    Fault("freeze", freeze, (BELIEVED,)),
    Fault("freeze-mid-commit", freeze_mid_commit, (UNOWNED,)),
    Fault("freeze-before-the-answer", freeze_before_the_answer, (UNFENCED,)),
    Fault("freeze-in-transaction", freeze_in_transaction, (UNENDED,)),
)
