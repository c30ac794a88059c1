"""What several nodes share while one of them is lost, or has the wrong time: budgets, the kill switch, their harnesses."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

from orchestrator.lifecycle import Status
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_switch import PostgresKillSwitch
from tests.faults_of_nodes.acting_fleet import LIMIT, NAMES, RESERVED
from tests.faults_of_nodes.node_faults import kill_and_take_over
from tests.faults_of_nodes.trial import Fault, Mutant, Trial
from tests.orchestrator.nodes.node_processes import LEASE_S
from tests.orchestrator.store.postgres.cut_off import Proxy

_MOVED = "SELECT count(*) FROM records WHERE kind = 'stopped' AND body LIKE '%handed over%'"
_OWNERS = "SELECT harness, max(epoch) FROM records GROUP BY harness ORDER BY harness"
_INTENTS = "SELECT h.name, r.step, r.seq FROM records r JOIN harnesses h ON h.id = r.harness WHERE r.kind = 'intent'"


def budget(trial: Trial) -> None:
    """Harnesses of two nodes spend from one pool until it is used up, and one node is killed meanwhile: nobody overspends."""

    def spent() -> int:
        return sum(line.number for lines in trial.lines("spend").values() for line in lines)

    def is_over() -> bool:
        ended = [one.status for one in trial.nodes.store.harnesses()]
        return spent() > LIMIT or ended == [Status.BUDGET_SPENT] * len(NAMES)

    first = trial.start_pair()
    if is_over():
        raise RuntimeError("the pool was used up before the fault")
    first.kill()
    trial.wait_until(is_over, "the pool is used up")
    trial.measured["spent, of its limit"] = spent() / LIMIT
    assert LIMIT / 2 < spent() <= LIMIT, f"{spent()} tokens are spent: expected at most {LIMIT}, and not much less"
    account = trial.nodes.store.accounts()["pool/desk"]
    assert spent() <= account.spent.tokens <= LIMIT, f"{account.spent.tokens} tokens are charged, {spent()} were spent"
    assert LIMIT - account.spent.tokens < RESERVED, f"{LIMIT - account.spent.tokens} tokens are left"
    trial.assert_whole()


def clock_jumps(trial: Trial) -> None:
    """The time of day of a node jumps by years, ahead and back: it keeps its harnesses, and loses them when it is killed."""
    first = trial.start_pair("jump_the_clock")
    owners = trial.nodes.store.rows(_OWNERS)
    time.sleep(2 * LEASE_S)
    trial.nodes.wait_for_steps()
    assert trial.nodes.store.rows(_OWNERS) == owners, "harnesses have moved although nobody was lost"
    kill_and_take_over(trial, first)


def join_and_drain(trial: Trial) -> None:
    """A third node joins, and another is told to end: harnesses move at step boundaries, without waiting for a lease."""
    first = trial.start_pair()
    moved = trial.nodes.store.rows(_MOVED)[0][0]
    trial.start("c")
    trial.wait_until(lambda: sorted(trial.nodes.owned().values()) == [1, 1, 2], "each node has its share")
    trial.nodes.wait_for_steps()
    begin_s = time.monotonic()
    first.send_signal(signal.SIGTERM)
    trial.nodes.wait_for({"b": 2, "c": 2})
    trial.nodes.wait_for_steps()
    trial.measured["drained, s"] = time.monotonic() - begin_s
    trial.wait_for_state(first, "Z")
    assert (code := first.wait(10)) == 0, f"the node that was told to end has ended with {code}"
    count = trial.nodes.store.rows(_MOVED)[0][0] - moved
    assert count >= 2, f"{count} harnesses were handed over: expected one when a node joined, and one or more when one ended"
    trial.assert_never_on_two(begin_s)
    stored = {name: {step.step_number for step in trial.nodes.store.steps(name, limit=1_000_000)} for name in NAMES}
    for name, lines in trial.lines("want").items():
        last = max((line.number for line in lines if line.pid == first.pid), default=0)
        assert not last or last in stored[name], f"{name} was stopped in the midst of step {last}"
    trial.assert_whole()


def kill_switch(trial: Trial) -> None:
    """A node is cut off while the kill switch is turned on: no effect begins on either side that was not begun before."""
    with ExitStack() as stack:
        proxy = Proxy(trial.server.port)
        stack.callback(proxy.end)
        trial.start_pair(url=trial.nodes.url.replace(str(trial.server.port), str(proxy.port)))
        proxy.freeze("both")
        PostgresKillSwitch(Address(trial.nodes.url, "orchestrator", LEASE_S)).put_on(by="a fault", reason="a test")
        last, since_s = trial.nodes.store.last_seq(), time.monotonic()
        time.sleep(1.5 * LEASE_S)
        proxy.thaw()
        time.sleep(LEASE_S)
    intents = trial.nodes.store.rows(_INTENTS)
    assert (late := [row for row in intents if row[2] > last]) == [], f"intents after the switch: {late[:3]}"
    begun = {(name, step) for name, step, _ in intents}
    for name, lines in trial.lines("act").items():
        for line in lines:
            assert line.at_s < since_s or (name, line.number) in begun, f"{name}: effect {line.number} without an intent"
    trial.assert_whole()


FLEET_FAULTS = (
    Fault("budget", budget, (Mutant("a budget has room for everybody", ("without_judging",)),), kind="spending"),
    Fault("clock-jumps", clock_jumps, (Mutant("a lease is kept by the time of day", ("lease_by_the_time_of_day",)),)),
    Fault("join-and-drain", join_and_drain, (Mutant("whoever is told to end does so at once", ("without_draining",)),)),
    Fault("kill-switch", kill_switch, (Mutant("nobody heeds the kill switch", ("without_kill_switch",)),)),
)
