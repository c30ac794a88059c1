"""State and step history of a harness, in memory.

Invariant: the state is private. Incoming values are copied, outgoing ones are read-only, and a change is applied to a value
that shares nothing with the previous state.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import eq
from typing import Any, Generic, TypeAlias, cast, overload

from harnesses.data.delta import Baseline, Delta, modified
from harnesses.data.read_only import View
from harnesses.data.values import detach, is_private
from harnesses.diagnostics.known_errors import read_only_state
from harnesses.errors import HarnessMisuse, StateError
from harnesses.step import InputT, LoadedContext, NewStep, OutputT, StateDelta, StateT, Step, no_constraints
from harnesses.timing.clock import utc_now

LoadSteps: TypeAlias = Callable[[int, int], Sequence[Step[Any, Any]]]


class PersistentState(Generic[StateT, InputT, OutputT]):
    """State and step history of one harness.

    Args:
        initial_state: copied, so the caller's object is never changed.
        max_context_steps: how many recent steps `load_context` returns; 0 for none.
    """

    __slots__ = (
        "__weakref__",
        "_baseline",
        "_history",
        "_load",
        "_open",
        "_state",
        "_summary",
        "_unseen",
        "_view",
        "knowledge",
        "max_context_steps",
        "steps",
    )

    def __init__(self, initial_state: StateT, max_context_steps: int = 10) -> None:
        if not isinstance(cast(object, max_context_steps), int) or max_context_steps < 0:
            raise HarnessMisuse(f"max_context_steps: expected a whole number from 0 up, got {max_context_steps!r:.100}")
        self.max_context_steps = max_context_steps
        self.knowledge: Mapping[str, object] = no_constraints()
        """Knowledge passed to agents in addition to the state and the recent steps."""
        self._state: StateT = detach(initial_state)
        self._open = detach(self._state) is not self._state
        self._view: View | None = None
        """The read-only view of a mutable state that was handed out; reused until the state is replaced."""
        self._baseline = Baseline(self._state)
        self._summary: str | None = None
        self.steps = 0
        """How many steps there are, including those that are only in the store."""
        self._load: LoadSteps | None = None
        self._history: deque[Any] | None = None
        """All steps; of a restored harness the recent ones, loaded on first access. The newest ones are `NewStep`s."""
        self._unseen = 0
        """How many of the newest ones are `NewStep`s, because nobody has looked since."""

    @property
    def state(self) -> StateT:
        """The current state, read-only.

        Mutating it raises `HarnessMisuse`: at once, or for the few classes that cannot be guarded at the next access,
        `update_state` or step.
        """
        return self._looked_at() if self._open else self._state

    @property
    def step_history(self) -> Sequence[Step[InputT, OutputT]]:
        """All steps, oldest first. Older steps of a restored harness are read from the store on access."""
        if self._load is None:
            return tuple(self._recent())
        return StepHistory(self.steps, () if self._history is None else tuple(self._recent()), self._load)

    def update_state(self, change: Callable[[StateT], StateT], *, summary: str | None = None) -> None:
        """Replace the state by `change(state)`.

        Args:
            change: gets the state and returns the new one. It may mutate and return a list or dict it gets, which is its own
                copy.
            summary: a sentence for people, stored in the delta of the step in progress.

        Raises:
            StateError: `change` returned None, or a value of another type than the state. The state is unchanged.
            Unstorable: the new state contains something that cannot be stored. The state is unchanged.
        """
        if self._view is not None:
            self._check_view()
        try:
            new = change(self._own_copy())
        except TypeError:
            if callable(change):
                raise
            raise StateError(
                f"update_state: expected a function that gets the state and returns the new one, got {change!r:.200}; "
                "call self.update_state(lambda state: …)"
            ) from None
        if new.__class__ is not self._state.__class__:
            raise StateError(_wrong_state(self._state, new))
        if self._open or not is_private(new, self._state):
            private = detach(new)
            self._open = private is not new
            new = private
        self._state, self._view = new, None
        if summary is not None:
            self._summary = summary

    def record(self, step_number: int, input: InputT, output: OutputT, state_delta: StateDelta) -> Step[InputT, OutputT]:
        """Append a step with the current time as its timestamp, and return it."""
        step = Step(step_number, utc_now(), detach(input), detach(output), state_delta)
        self.append(step)
        return step

    def append(self, step: NewStep[InputT, OutputT] | Step[InputT, OutputT]) -> None:
        """Append a step that was recorded elsewhere. Its input and output must be private copies already."""
        self.steps += 1
        self._baseline.keep()
        if self._history is not None:
            self._history.append(step)
            self._unseen += 1
        elif self._load is None:
            self._history, self._unseen = deque((step,)), 1

    def recent_steps(self, count: int) -> tuple[Step[InputT, OutputT], ...]:
        """Return the last `count` steps, oldest first; none if `count` is 0 or negative."""
        if count <= 0:
            return ()
        if self._load is not None and count > self.max_context_steps:
            return tuple(self.step_history[-count:])
        # From the end: a deque is read from its beginning otherwise, however long it is.
        return tuple(islice(reversed(self._recent()), count))[::-1]

    def load_context(self) -> LoadedContext[StateT]:
        """Return the state and at most `max_context_steps` recent steps: the context of an agent.

        A mutable state is copied, so an agent's changes to it have no effect.
        """
        return LoadedContext(self._own_copy(), self.recent_steps(self.max_context_steps), self.knowledge)

    def take_delta(self) -> tuple[StateDelta, Delta]:
        """Return the changes since the last call, as names and as values; the current state becomes the new baseline."""
        if self._view is not None:
            self._check_view()
        delta = self._baseline.advance(self._state)
        names = modified(delta) if delta else ()
        if self._summary is not None:
            summary, self._summary = self._summary, None
            return StateDelta(names, summary), delta
        return _NAMED.get(names) or _named(names), delta

    def untake_delta(self) -> None:
        """Undo the last `take_delta`: its step was not recorded."""
        self._baseline.undo()

    def snapshot(self) -> StateT:
        """Return the state as of the last `take_delta`. Not a copy: do not mutate it."""
        return self._baseline.state  # type: ignore[return-value]

    def recorded(self) -> PersistentState[StateT, InputT, OutputT]:
        """Return an independent copy as of the last recorded step."""
        other = copy.copy(self)
        other._baseline = Baseline(self._baseline.recorded)
        other._history = None if self._history is None else self._recent().copy()
        other._unseen = 0
        other.rewind()
        return other

    def rewind(self) -> None:
        """Undo every change since the last `take_delta`, that is, all unrecorded ones."""
        if self._state is not self._baseline.state:
            self._state = self._baseline.state  # type: ignore[assignment]
            self._open = detach(self._state) is not self._state
        self._summary = self._view = None

    def restore(self, state: StateT, steps: int, load: LoadSteps, *, whole: bool = False) -> None:
        """Restore a recorded past. From then on only recent steps are held in memory.

        Args:
            state: the state after the last step.
            steps: how many steps there are.
            load: reads steps from the store, oldest first: called with a step number and a count, it returns at most that many
                steps after that number.
            whole: whether the state differs from what is recorded, so that the next step must record all of it.
        """
        self._baseline = Baseline(detach(state), whole=whole)
        self.rewind()
        self.steps, self._load, self._history, self._unseen = steps, load, None, 0

    def _own_copy(self) -> StateT:
        return detach(self._state) if self._open else self._state

    def _looked_at(self) -> StateT:
        """Return the read-only view of a mutable state."""
        if self._view is None:
            self._view = View(self._state)
        elif not self._view.is_guarded:
            self._check_view()
        return cast(StateT, self._view.value)

    def _check_view(self) -> None:
        """Raise if a handed-out view that could not be guarded was mutated, and forget the view."""
        view = self._view
        if view is None or view.is_guarded:
            return
        names = modified(Baseline(self._state).advance(detach(view.value)))
        if names:
            self._view = None
            raise read_only_state(f"{type(self._state).__qualname__}: {', '.join(names)}")

    def _recent(self) -> deque[Step[InputT, OutputT]]:
        if self._history is None:
            kept = self.max_context_steps
            steps = self._load(max(0, self.steps - kept), kept) if self._load is not None and kept else ()
            self._history = deque(steps, maxlen=None if self._load is None else kept)
        elif self._unseen == 1:
            # As it is when an agent is called in every step.
            if self._history and self._history[-1].__class__ is NewStep:
                self._history[-1] = self._history[-1].as_step()
            self._unseen = 0
        elif self._unseen:
            history = self._history
            unseen: list[Any] = [history.pop() for _ in range(min(self._unseen, len(history)))]
            history.extend(step.as_step() if step.__class__ is NewStep else step for step in reversed(unseen))
            self._unseen = 0
        return self._history


class StepHistory(Sequence[Step[InputT, OutputT]]):
    """All steps of a harness whose past is in a store: recent ones are in memory, older ones are read on access.

    Step n is at index n - 1, even if the oldest were pruned. Slices and iteration leave pruned steps out; indexing one raises
    `IndexError`.
    """

    def __init__(self, steps: int, recent: tuple[Step[InputT, OutputT], ...], load: LoadSteps) -> None:
        self._steps = steps
        self._recent = recent
        self._load = load

    def __len__(self) -> int:
        return self._steps

    @overload
    def __getitem__(self, index: int) -> Step[InputT, OutputT]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step[InputT, OutputT]]: ...
    def __getitem__(self, index: int | slice) -> Step[InputT, OutputT] | Sequence[Step[InputT, OutputT]]:
        if isinstance(index, slice):
            chosen = range(self._steps)[index]
            if not chosen:
                return ()
            steps = {step.step_number - 1: step for step in self._between(min(chosen), max(chosen) + 1)}
            return tuple(steps[number] for number in chosen if number in steps)
        number = range(self._steps)[index]
        found = self._between(number, number + 1)
        if not found:
            raise IndexError(f"step {number + 1} was pruned: expected a step that is still stored; read a later one")
        return found[0]

    def __iter__(self) -> Iterator[Step[InputT, OutputT]]:
        held, after = self._steps - len(self._recent), 0
        while after < held and (page := self._between(after, min(after + _PAGE, held)) or self._oldest(after, held)):
            yield from page
            after = page[-1].step_number
        yield from self._recent

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return False
        steps = cast(Sequence[object], other)
        return len(self) == len(steps) and all(map(eq, self, steps))

    def __hash__(self) -> int:
        return hash((self._steps, self._recent))

    def __repr__(self) -> str:
        return f"<StepHistory of {self._steps} steps>"

    def _between(self, start: int, stop: int) -> Sequence[Step[InputT, OutputT]]:
        held = self._steps - len(self._recent)
        if start >= held:
            return self._recent[start - held : stop - held]
        # The store counts from the oldest step it still has, so after pruning it may return later steps than requested.
        return [step for step in self._load(start, stop - start) if step.step_number <= stop]

    def _oldest(self, start: int, stop: int) -> Sequence[Step[InputT, OutputT]]:
        """Return the oldest step that is still stored."""
        return [step for step in self._load(start, 1) if step.step_number <= stop]


_PAGE = 500
"""Steps read at a time while iterating over a long history."""
_NAMED: dict[tuple[str, ...], StateDelta] = {}


def _named(names: tuple[str, ...]) -> StateDelta:
    """Return the delta of these names; common ones are cached and shared."""
    if len(_NAMED) >= 1024:
        _NAMED.clear()
    delta = _NAMED[names] = StateDelta(names)
    return delta


def _wrong_state(old: object, new: object) -> str:
    got, wanted = type(new).__qualname__, type(old).__qualname__
    expected = f"expected a{'n' if wanted[0] in 'aeiouAEIOU' else ''} {wanted}"
    if new is None:
        return f"update_state: the change returned None: {expected}; return the new state"
    return f"update_state: the change returned {new!r:.200}: {expected}, got {got}; return the whole new state"
