"""The collaborators of a feature harness, built without a harness or an orchestrator."""

from __future__ import annotations

from typing import Any

import trio
from attrs import define, evolve, field

from harnesses.effects.effect import Effect
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import FeatureState
from harnesses.features.health_checks import NoHealthCheck
from harnesses.features.loop.feature_attempts import Capabilities, FeatureAttempts
from harnesses.features.loop.feature_messages import FeatureMessages
from harnesses.features.loop.feature_steps import StepWriter
from harnesses.features.loop.feature_workplace import Workplace
from harnesses.features.loop.observers import ObserverThread, Phases
from harnesses.features.loop.startup_checks import StartupChecks
from harnesses.features.run_policy import RunPolicy
from tests.harnesses.features.played import NOW, begun, unlimited
from tests.harnesses.features.worked import Judge


@define
class Bench:
    """What collaborators need, as plain values.

    Args:
        answer: what the agent hands in, or raises.
    """

    state: FeatureState = field(factory=lambda: begun("a", "b"))
    workplace: Workplace = field(factory=lambda: Workplace(Judge(seconds=0)))
    policy: RunPolicy = field(factory=lambda: unlimited(3))
    answer: TurnResult | Exception = field(factory=lambda: TurnResult(artifact="1"))
    check: Any = field(factory=NoHealthCheck)
    stopping: bool = False
    effects: tuple[Effect, ...] = ()
    done: list[str] = field(factory=list[str])
    """Keys of effects, in order."""
    settled: list[str] = field(factory=list[str])
    inbox: list[object] = field(factory=list[object])

    async def ask(self, assignment: object) -> TurnResult:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def once(self, key: str, function: Any, *args: object, **how: object) -> Any:
        self.done.append(key)
        return await function(*args)

    async def settle(self, key: str, reconcile: object) -> None:
        self.settled.append(key)

    async def unless_stopped(self, function: Any, *args: object) -> Any:
        return await function(*args)

    async def hear(self) -> None:
        self.state = await self.messages().hear(self.state)

    def receive(self) -> object:
        if not self.inbox:
            raise trio.WouldBlock
        return self.inbox.pop(0)

    def messages(self) -> FeatureMessages:
        return FeatureMessages(self.receive, self.workplace, self.policy)

    def writer(self, hooks: Any = None) -> StepWriter:
        return StepWriter(Phases(hooks, ObserverThread(), "bench"), self.messages(), streamed=False)

    def checks(self) -> StartupChecks:
        return StartupChecks(self.check, self.workplace, self.writer(), self.unless_stopped)

    def attempts(self, **more: Any) -> FeatureAttempts:
        harness = Capabilities(
            state=lambda: self.state,
            now=lambda: NOW,
            stopping=lambda: self.stopping,
            hear=self.hear,
            ask=self.ask,
            unless_stopped=self.unless_stopped,
            once=self.once,
            settle=self.settle,
            effects=lambda: self.effects,
        )
        return FeatureAttempts(harness, self.workplace, self.checks(), self.policy, **more)


def accepted(state: FeatureState, commit: str) -> FeatureState:
    """Return the state with another last good commit."""
    assert state.manifest is not None
    return evolve(state, manifest=evolve(state.manifest, last_known_good_commit=commit))
