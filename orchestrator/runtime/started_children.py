"""Harnesses that other harnesses start: recorded with the step, started after it, and again in each later run.

    start_child ──► checked, made ──► attached to the step ──► committed ──► started under the parent's supervisor
                                                                   ▲
    a later run ──► the parent is loaded ──────────────────────────┘  each recorded child that has not ended for good

Invariants: a child is started exactly if its step is recorded; a name runs once, whoever starts it first; a child that
cannot be made again fails by itself, without harm to its parent and siblings.

A child continues when its parent ends. It has ended for good when it has completed (unless it reopens), or finished.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType, new_class
from typing import Any, Protocol, TypeVar, cast

from attrs import asdict, define, evolve, field, frozen

from harnesses.attachments import CHILD, MAX_CHARACTERS, Attachment
from harnesses.base import BaseHarness
from harnesses.budgets.budget import Budget, budget_of
from harnesses.config import ChildOrder
from harnesses.errors import HarnessError, HarnessMisuse, NoRestart, OrchestratorError
from orchestrator.child_spec import check_name, check_seconds, restart_of
from orchestrator.codec import decode, encode, encode_private
from orchestrator.errors import UsageError
from orchestrator.factories import AnyHarness, find_loaded, load_factory, make_harness, reference_of, stored_arguments
from orchestrator.lifecycle import Status
from orchestrator.records import ChildRecord
from orchestrator.restart import Restart
from orchestrator.states.state_types import HarnessTypes

MAX_DEPTH = 8
"""Limit on levels of children below a harness that the program started."""
MAX_CHILDREN = 10_000
"""Limit on harnesses in one program that were started by harnesses and have not ended."""
KEPT_ENDED = 1_000
"""How many ended children the program keeps in memory, the most recent ones; older ones are only in the store."""
KEPT_RECALLED = 100
"""How many of the options read back for ended children are kept in memory, for each parent."""
_SECONDS = ("grace_s", "step_timeout_s", "deadline_s")


@frozen(kw_only=True)
class StoredChildSpec:
    """The record of a child: everything needed to make it again, and its options."""

    child: str
    """Name of the child."""
    factory: str
    arguments: list[Any]
    """Positional and keyword arguments."""
    restart: str
    grace_s: float | None = None
    step_timeout_s: float | None = None
    deadline_s: float | None = None
    budget: dict[str, Any] | None = None

    def body(self) -> str:
        """Return the body of its record."""
        return encode_private({name: value for name, value in asdict(self).items() if value is not None})

    def make(self) -> AnyHarness:
        """Make the harness again.

        Raises:
            UsageError: it cannot be made.
        """
        try:
            harness = make_harness(load_factory(self.factory), self.arguments)
            HarnessTypes.of(harness).check(encode(harness.state))
        except HarnessError as error:
            raise UsageError(str(error)) from error
        return harness

    def limits(self) -> Budget | None:
        """Return its own budget."""
        return None if self.budget is None else budget_of(self.budget)


def spec_of(order: ChildOrder) -> StoredChildSpec:
    """Return the record of a child that is to be started.

    Raises:
        HarnessMisuse: it could not be made again.
        UsageError: a name or an option is invalid.
    """
    check_name(order.name)
    restart = restart_of(order.restart).value
    check_seconds(**{name: getattr(order, name) for name in _SECONDS})
    if order.budget is not None and not isinstance(cast(object, order.budget), Budget):
        raise UsageError(f"budget: expected a Budget, was {order.budget!r:.100}")
    reference = reference_of(order.factory)
    return StoredChildSpec(
        child=order.name,
        factory=reference,
        arguments=stored_arguments(order.factory, order.args, order.arguments),
        restart=restart,
        budget=None if order.budget is None else decode(encode(order.budget.plain())),
        **{name: getattr(order, name) for name in _SECONDS},
    )


def read_spec(record: ChildRecord) -> StoredChildSpec:
    """Decode the record of a child.

    Raises:
        UsageError: the record is damaged.
    """
    try:
        spec = StoredChildSpec(**decode(record.body))
    except (TypeError, ValueError) as error:
        raise UsageError(f"its record cannot be read: {error}") from error
    if not isinstance(cast(object, spec.arguments), list):
        raise UsageError("its arguments are encrypted, and there is no key")
    return spec


@frozen(kw_only=True)
class ChildStart:
    """A child that is to be started."""

    spec: StoredChildSpec
    harness: AnyHarness
    heir_of: str
    """The harness, known to this program, whose supervisor, budgets and rules it inherits."""
    ancestors: tuple[str, ...]
    """Names of its ancestors, its parent last."""
    pools: tuple[str, ...] = ()
    """Pools of ended ancestors that are not running."""
    resumed: bool = False
    begun: bool = True
    """Whether there is something to resume or start; if not, only its failure is reported."""


class Starter(Protocol):
    """What starts harnesses for their parents: the orchestrator."""

    def running(self, name: str) -> AnyHarness | None:
        """Return the harness that is running under a name."""
        ...

    def has_started(self, name: str) -> bool:
        """Return whether a harness of that name was started in this program, even if it has ended."""
        ...

    def bear(self, birth: ChildStart) -> object:
        """Start a child."""
        ...

    def check_child_limits(self, birth: ChildStart) -> None:
        """Raise `UsageError` if a limit cannot be enforced for an agent of a child."""
        ...

    def children_of(self, name: str | None) -> Sequence[ChildRecord]:
        """Return the records of the children of one harness, or of all."""
        ...

    def is_on_record(self, name: str) -> bool:
        """Return whether the store has a harness of that name."""
        ...

    def supervisors_beside(self, name: str) -> Collection[str]:
        """Return the names of the supervisors that share a supervisor with a running harness."""
        ...


@define(eq=False, repr=False)
class Families:
    """All parents and children known to one program."""

    starter: Starter
    parents: dict[str, str] = field(factory=dict[str, str])
    """Parent of each child, by the child's name, including children about to be started."""
    started: set[str] = field(factory=set[str])
    """Names of children that their parents started in this program."""

    def check_room(self, name: str) -> None:
        """Raise if one more child would exceed the limit.

        Raises:
            HarnessMisuse: the limit is reached.
        """
        if len(self.started) >= MAX_CHILDREN:
            self.started = {name for name in self.started if self.starter.running(name) is not None}
            if len(self.started) >= MAX_CHILDREN:
                raise HarnessMisuse(
                    f"start_child {name!r}: expected at most {MAX_CHILDREN:,} harnesses started by others at once; "
                    "let some of them end"
                )

    def forget(self, name: str) -> str | None:
        """Forget a child that has ended for good; return its parent. The store keeps both."""
        self.started.discard(name)
        return self.parents.pop(name, None)

    def bear(self, birth: ChildStart) -> None:
        """Start a child, unless a harness of its name is running."""
        self.parents[birth.spec.child] = birth.ancestors[-1]
        if self.starter.running(birth.spec.child) is None:
            self.started.add(birth.spec.child)
            self.starter.bear(birth)

    def resume(
        self, records: Iterable[ChildRecord], heir_of: str, ancestors: tuple[str, ...], pools: tuple[str, ...] = ()
    ) -> None:
        """Start again each recorded child that has not ended for good, and the children of those that have.

        Children started in this program are left alone: an operator may have stopped them.
        """
        for record in records:
            if record.name in ancestors or self.starter.has_started(record.name):
                continue
            if _has_ended(record):
                below = (f"harness/{record.name}", *pools) if "budget" in _terms(record) else pools
                self.resume(self.starter.children_of(record.name), heir_of, (*ancestors, record.name), below)
                continue
            self.parents.setdefault(record.name, ancestors[-1])
            birth = _born_again(record, heir_of, ancestors)
            self.bear(evolve(birth, pools=pools))


_NONE: Mapping[str, Any] = MappingProxyType({})
"""Shared by the thousands of harnesses that start no other; see `_added`."""
_ValueT = TypeVar("_ValueT")


def _added(known: Mapping[str, _ValueT], name: str, value: _ValueT) -> dict[str, _ValueT]:
    """Return a mapping of `Family` with one more entry: the same, once it has any."""
    found = known if isinstance(known, dict) else {}
    found[name] = value
    return found


@define(eq=False, repr=False)
class Family:
    """The children of one harness.

    Args:
        ancestors: names of the harnesses that started this one, directly or indirectly, oldest first.
    """

    _all: Families
    _name: str
    ancestors: tuple[str, ...] = ()
    _recorded: Mapping[str, StoredChildSpec] = _NONE
    """Records of the children that the program knows."""
    _recalled: Mapping[str, StoredChildSpec] = _NONE
    """The most recent records read from the store for ended children."""
    _read: Mapping[str, list[ChildRecord]] = _NONE
    """Records of all children by name, read from the store for the step in progress."""
    expected: Mapping[str, ChildStart] = _NONE
    """Children of the step in progress."""

    def take_up(self, records: Sequence[ChildRecord]) -> None:
        """Start the recorded children again, once, when the harness is loaded."""
        for record in records:
            if not _has_ended(record):
                with suppress(UsageError):
                    self._recorded = _added(self._recorded, record.name, read_spec(record))
        if records:
            self._all.resume(records, self._name, (*self.ancestors, self._name))

    def order(self, order: ChildOrder, attach: Callable[[Attachment], None]) -> str:
        """Start a child with the step in progress; return its name.

        Raises:
            HarnessMisuse: it cannot be started.
        """
        where = f"start_child {order.name!r:.100}"
        try:
            spec = spec_of(order)
            if (known := self._known(order.name)) is not None:
                self._check_same(known, spec)
                return order.name
            self._check_free(order.name)
            harness = make_harness(order.factory, spec.arguments)
            HarnessTypes.of(harness).check(encode(harness.state))
            running = self._all.starter.running(order.name)
            if running is not None and type(running) is not type(harness):
                raise HarnessMisuse(f"expected a name of its own, {type(running).__name__} runs under it; choose another")
            body = spec.body()
            if len(body) > MAX_CHARACTERS:
                raise HarnessMisuse(
                    f"expected arguments of at most {MAX_CHARACTERS:,} characters; store them elsewhere, and pass their place"
                )
            ancestors = (*self.ancestors, self._name)
            birth = ChildStart(spec=spec, harness=harness, heir_of=self._name, ancestors=ancestors)
            self._all.starter.check_child_limits(birth)
        except OrchestratorError as error:
            raise HarnessMisuse(f"{where}: {error}") from error
        attach(Attachment(CHILD, body))
        self.expected = _added(self.expected, order.name, birth)
        self._all.parents[order.name] = self._name
        return order.name

    def settle(self) -> None:
        """Start the children of the step that was just recorded."""
        born, self.expected, self._read = self.expected, _NONE, _NONE
        for name, birth in born.items():
            self._recorded = _added(self._recorded, name, birth.spec)
            self._all.bear(birth)

    def forget(self, name: str) -> None:
        """Forget a child that has ended for good."""
        if isinstance(self._recorded, dict):
            self._recorded.pop(name, None)

    def drop(self) -> None:
        """Forget the children of a step that was not recorded."""
        for name in self.expected:
            self._all.parents.pop(name, None)
        self.expected, self._read = _NONE, _NONE

    def _known(self, name: str) -> StoredChildSpec | None:
        """Return the recorded options of a child, if this harness has started it before."""
        if name in self.expected:
            return self.expected[name].spec
        known = self._recorded.get(name) or self._recalled.get(name)
        # A child started in this program by an earlier life of this harness may have ended for good, too.
        is_elsewhere = self._all.starter.has_started(name) and self._all.parents.get(name) != self._name
        return known if known is not None or is_elsewhere else self._recall(name)

    def _recall(self, name: str) -> StoredChildSpec | None:
        """Read from the store the options of a child that the program does not know, because it has ended for good.

        Raises:
            HarnessMisuse: another harness started it, in this program or possibly in another.
        """
        records = self._records_of(name)
        own = [record for record in records if record.harness == self._name]
        for record in records:
            if record.harness != self._name and (not own or self._all.starter.has_started(record.harness)):
                raise _taken(record.harness)
        for record in own:
            with suppress(UsageError):
                self._recalled = _added(self._recalled, name, read_spec(record))
        if isinstance(self._recalled, dict) and len(self._recalled) > KEPT_RECALLED:
            del self._recalled[next(iter(self._recalled))]
        return self._recalled.get(name)

    def _records_of(self, name: str) -> Sequence[ChildRecord]:
        """Return the records of a child, one for each harness that has started it.

        All children are read at once, so a step that starts thousands again costs one read. Most names are new, and need none.
        """
        if name not in self._read and self._all.starter.is_on_record(name):
            read: dict[str, list[ChildRecord]] = {}
            for record in self._all.starter.children_of(None):
                read.setdefault(record.name, []).append(record)
            self._read = read
        return self._read.get(name, ())

    def _check_same(self, known: StoredChildSpec, spec: StoredChildSpec) -> None:
        if known != spec:
            differing = [name for name, value in asdict(spec).items() if value != getattr(known, name)]
            raise HarnessMisuse(
                f"it was started before with another {' and '.join(differing)}: expected the same again, or another name; "
                "choose a name that nobody has"
            )

    def _check_free(self, name: str) -> None:
        if name == self._name or name in self.ancestors:
            raise HarnessMisuse("expected another harness, was itself or one of its ancestors; choose another name")
        if name in self._all.starter.supervisors_beside(self._name):
            raise HarnessMisuse(f"expected a name of its own, a supervisor beside {self._name!r} has it; choose another")
        parent = self._all.parents.get(name)
        if parent is not None and parent != self._name:
            raise _taken(parent)
        if len(self.ancestors) >= MAX_DEPTH:
            raise HarnessMisuse(f"expected at most {MAX_DEPTH} levels of harnesses that start harnesses; start it from above")
        self._all.check_room(name)


def _taken(parent: str) -> HarnessMisuse:
    return HarnessMisuse(f"{parent!r} has started it: expected a name of its own for each; f'{{self.name}}.…' is one")


def _born_again(record: ChildRecord, heir_of: str, ancestors: tuple[str, ...]) -> ChildStart:
    """Make a child again from its record; one that cannot be made becomes a stand-in that fails with the cause."""
    begun = True
    spec = StoredChildSpec(child=record.name, factory="", arguments=[[], {}], restart="transient")
    harness: AnyHarness
    try:
        spec = read_spec(record)
        harness = spec.make()
    except OrchestratorError as error:
        harness, begun = _stand_in(record.harness_class, _unmade(record, error)), record.status is not None
    return ChildStart(spec=spec, harness=harness, heir_of=heir_of, ancestors=ancestors, resumed=True, begun=begun)


def trouble_of(record: ChildRecord) -> str:
    """Return why a child that has not ended cannot be made again; empty if it can, or has ended for good.

    If its arguments are encrypted and there is no key, only its factory is imported.
    """
    if _has_ended(record):
        return ""
    terms = _terms(record)
    try:
        load_factory(str(terms.get("factory", "")))
        if isinstance(terms.get("arguments"), list):
            read_spec(record).make()
    except OrchestratorError as error:
        return _unmade(record, error)
    return ""


def _unmade(record: ChildRecord, error: Exception) -> str:
    factory = _terms(record).get("factory") or "it"
    return f"child {record.name!r} of {record.harness!r} cannot be made again: {error}; put {factory} back"


class Unmade(BaseHarness[Any, Any, Any]):
    """Stands in for a harness that cannot be made: it fails with the cause, and its record stays unchanged."""

    def __init__(self, cause: str) -> None:
        super().__init__(None)
        self.cause = cause

    async def execute(self) -> AsyncIterator[tuple[Any, Any]]:
        raise NoRestart(self.cause)
        yield


class Ended(Unmade):
    """Stands in for a child that has ended, so that its object can be released; there may be many."""


ENDED: AnyHarness = Ended("it has ended")


def _stand_in(harness_class: str, cause: str) -> AnyHarness:
    """Return a stand-in with the recorded class name, so that the record stays the same."""
    module, _, name = harness_class.partition(":")
    own = {"__module__": module or __name__, "__qualname__": name or "Unmade"}
    cls = cast(type[Unmade], new_class(own["__qualname__"], (Unmade,), exec_body=lambda namespace: namespace.update(own)))
    return cls(cause)


def has_ended_for_good(harness: AnyHarness, status: Status, restart: Restart) -> bool:
    """Return whether a child started in this program has ended, and no later run would start it again."""
    if status is Status.COMPLETED:
        return not _overrides_reopens(type(harness))
    return status is Status.FINISHED and restart is not Restart.PERMANENT


def _has_ended(record: ChildRecord) -> bool:
    """Return whether a child has ended for good."""
    if record.status is Status.COMPLETED:
        return not _may_reopen(record)
    # A permanent child is restarted whenever it returns; the program may have been killed before that.
    return record.status is Status.FINISHED and _terms(record).get("restart") != Restart.PERMANENT


def _terms(record: ChildRecord) -> Mapping[str, Any]:
    """Return the recorded options of a child, even if it cannot be made again; empty if they cannot be read."""
    try:
        found: object = decode(record.body)
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _may_reopen(record: ChildRecord) -> bool:
    """Return whether a completed child may reopen.

    Its class is looked up where its factory was loaded from; nothing is imported because of a recorded class name.
    """
    with suppress(HarnessMisuse):
        load_factory(str(_terms(record).get("factory", "")))
    cls = find_loaded(record.harness_class)
    return isinstance(cls, type) and issubclass(cls, BaseHarness) and _overrides_reopens(cast(Any, cls))


def _overrides_reopens(cls: type[AnyHarness]) -> bool:
    return getattr(cls, "reopens") is not getattr(BaseHarness, "reopens")  # noqa: B009  (it has no type here)
