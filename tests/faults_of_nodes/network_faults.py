"""Faults of the network between a node and the server: silence in one direction, or in both."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal

from tests.faults_of_nodes.node_faults import UNFENCED
from tests.faults_of_nodes.trial import Fault, Mutant, Trial, altered
from tests.orchestrator.store.postgres.cut_off import Proxy


def _cut_off(what: Literal["both", "requests", "answers"]) -> Callable[[Trial], None]:
    """Return what cuts a node off until others have taken over: its harnesses end before they begin elsewhere."""

    def run(trial: Trial) -> None:
        with ExitStack() as stack:
            proxy = Proxy(trial.server.port)
            stack.callback(proxy.end)
            first = trial.start_pair(url=trial.nodes.url.replace(str(trial.server.port), str(proxy.port)))
            cut_s = time.monotonic()
            proxy.freeze(what)
            trial.nodes.wait_for({"b": 4})
            trial.nodes.wait_for_steps()
            trial.assert_taken_over_in_time(first.pid)
            trial.assert_never_on_two(cut_s)
            proxy.thaw()
            trial.nodes.wait_for({"a": 2, "b": 2})
            trial.nodes.wait_for_steps()
            trial.assert_whole()

    return run


def commit_in_doubt(trial: Trial) -> None:
    """The connection breaks when a commit is made and its answer is under way, again and again."""
    with ExitStack() as stack:
        proxy = Proxy(trial.server.port)
        stack.callback(proxy.end)
        trial.start_pair(url=trial.nodes.url.replace(str(trial.server.port), str(proxy.port)))
        for _ in range(5):
            proxy.lose(b'{"intent"', "answer")  # the kinds of its rows: the name of the function is sent a few times only
            trial.wait_until(lambda: proxy.has_lost, "an answer is lost")
            trial.nodes.wait_for_steps()
        trial.assert_whole()


UNCOUNTED = Mutant(
    "commits are not counted",
    sql=altered("commit_rows", "found.commits = number", "false").replace("found.commits <> number - 1 OR", ""),
)
NETWORK_FAULTS = (
    Fault("commit-in-doubt", commit_in_doubt, (UNCOUNTED,)),
    Fault("cut-off", _cut_off("both"), (UNFENCED,)),
    Fault("requests-lost", _cut_off("requests"), (UNFENCED,)),
    Fault("answers-lost", _cut_off("answers"), (UNFENCED,)),
)
