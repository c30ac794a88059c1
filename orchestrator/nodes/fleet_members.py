"""A fleet: the harnesses that several nodes share, and what each of them needs."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from typing import TypeAlias, cast

from attrs import field, frozen

from orchestrator.child_spec import check_name
from orchestrator.errors import UsageError
from orchestrator.handle import Handle
from orchestrator.nodes.fair_share import Group
from orchestrator.orchestrator import Orchestrator

StartMember: TypeAlias = Callable[[Orchestrator], Handle]


def _labels(given: Iterable[str]) -> frozenset[str]:
    return frozenset(given)


@frozen
class Member:
    """A harness of a fleet."""

    name: str
    start: StartMember
    """Makes the harness and starts it under its name; called whenever a node takes it."""
    needs: frozenset[str] = field(factory=frozenset[str], converter=_labels)
    """Labels that its node must have."""
    cpus: float = 0.0
    """Processors of its node that are kept for it; 0 if it mostly waits."""
    group: str = ""
    """Members of one group stay together on one node; empty for none."""


@frozen
class Fleet:
    """All harnesses that nodes of one fleet share. Nodes of a fleet should have the same one.

    Raises, on construction:
        UsageError: a name is invalid or used twice, or there is no member.
    """

    members: Mapping[str, Member]
    digest: str
    """Short hash of the file or function that it is from."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The members that stay together, each group once."""
        found: dict[tuple[str, str], list[Member]] = {}
        for member in self.members.values():
            found.setdefault(("group", member.group) if member.group else ("member", member.name), []).append(member)
        return tuple(
            Group(
                tuple(member.name for member in members),
                frozenset[str]().union(*(member.needs for member in members)),
                sum(member.cpus for member in members),
            )
            for members in found.values()
        )

    @classmethod
    def of(cls, members: Iterable[Member], text: str = "") -> Fleet:
        """Return the fleet of these members.

        Args:
            text: what they are from, for the digest.
        """
        found: dict[str, Member] = {}
        for member in members:
            if not isinstance(cast(object, member), Member):
                raise UsageError(f"fleet: expected Members, got {member!r:.200}; return Member(name, start) for each harness")
            check_name(member.name)
            if member.name in found:
                raise UsageError(f"fleet: harness {member.name!r} is there twice: expected a name for each; rename one")
            if not 0 <= member.cpus <= 1e6:
                raise UsageError(f"fleet: harness {member.name!r}: cpus: expected 0 or more, got {member.cpus!r}; correct it")
            found[member.name] = member
        if not found:
            raise UsageError("fleet: expected at least one harness, got none; add one")
        said = [(one.name, sorted(one.needs), one.cpus, one.group) for one in found.values()]
        return cls(found, hashlib.sha256(f"{text}\0{said}".encode()).hexdigest()[:12])


def load_fleet(reference: str) -> Fleet:
    """Return the fleet that a function makes.

    Args:
        reference: `module:function`; the function returns the members.

    Raises:
        UsageError: there is no such function, or what it returns is no fleet.
    """
    module, _, name = reference.partition(":")
    if not module or not name:
        raise UsageError(f"factory: expected module:function, got {reference!r:.200}; each node imports it")
    try:
        made = getattr(imported := import_module(module), name, None)
    except ImportError as error:
        raise UsageError(f"factory: {module} cannot be imported: {error}; check the name, and the path") from error
    if not callable(made):
        raise UsageError(f"factory: expected a function {name!r} in {module}, got {made!r:.100}; correct the name")
    members: object = made()
    if not isinstance(members, Iterable):
        raise UsageError(f"factory: {reference} returned {members!r:.100}: expected Members; return a list of them")
    try:
        text = inspect.getsource(imported)
    except (OSError, TypeError):
        text = ""
    return Fleet.of(cast(Iterable[Member], members), text)
