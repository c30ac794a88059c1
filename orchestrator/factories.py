"""Harnesses made from plain data: a factory, named `package.module:attribute`, and the arguments to call it with.

Invariant: a harness made from these values can be made again in another run, from the JSON of the same values.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace, UnionType
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from harnesses.base import BaseHarness
from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import HarnessMisuse, OrchestratorError
from orchestrator.codec import decode, encode
from orchestrator.states.state_types import state_type

AnyHarness: TypeAlias = BaseHarness[Any, Any, Any]
Factory: TypeAlias = Callable[..., object]
_REMEDY = "define it at the top of a module that can be imported"


def reference_of(factory: object) -> str:
    """Return the import reference of a factory: `package.module:attribute`.

    Raises:
        HarnessMisuse: another run could not import it.
    """
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    wanted = "expected a class, or a function that returns a harness, that another start of the program can import"
    if not callable(factory) or not isinstance(module, str) or not isinstance(name, str):
        raise HarnessMisuse(f"factory {factory!r:.100}: {wanted}; pass the class or function itself")
    if module == "__main__":
        raise HarnessMisuse(f"factory {name}: {wanted}, was defined in the program's own file (`__main__`); {_REMEDY}")
    reference = f"{module}:{name}"
    try:
        found = load_factory(reference)
    except HarnessMisuse as error:
        raise HarnessMisuse(f"factory {reference}: {wanted}; {_REMEDY} ({error})") from error
    if found is not factory:
        raise HarnessMisuse(f"factory {factory!r:.100}: {wanted}, is not what {reference} names; {_REMEDY}")
    return reference


def load_factory(reference: str) -> Factory:
    """Import what `package.module:attribute` names.

    Raises:
        HarnessMisuse: it cannot be imported, or does not exist.
    """
    found: object = load_object(reference)
    if not callable(found):
        raise HarnessMisuse(f"{reference} is {found!r:.100}: expected a class or function")
    return found


def find_loaded(reference: str) -> object:
    """Return what `package.module:attribute` names, without importing anything; None if its module is not loaded."""
    module_name, _, path = reference.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def stored_arguments(factory: Factory, args: Sequence[object], named: Mapping[str, object]) -> list[Any]:
    """Return arguments as plain data: a list of the positional ones and a dict of the keyword ones.

    Raises:
        HarnessMisuse: the factory does not accept them, or one would not be read back as the same value.
        Unstorable: a value cannot be stored as JSON.
    """
    plain: list[Any] = decode(encode([list(args), dict(named)]))
    try:
        read = read_arguments(factory, plain)
    except TypeError as error:
        raise HarnessMisuse(f"{_named(factory)} cannot be called with these arguments: {error}; pass valid ones") from error
    for key, given, back in (
        *((f"argument {place}", *pair) for place, pair in enumerate(zip(args, read[0], strict=True), 1)),
        *((f"argument {key!r}", value, read[1][key]) for key, value in named.items()),
    ):
        if not _is_same(given, back):
            raise HarnessMisuse(
                f"{_named(factory)}: {key} would come back from the store as {back!r:.80}, was {given!r:.80}: expected plain "
                "data, or a value of the type that the parameter is annotated with; annotate it, or pass plain data"
            )
    return plain


def read_arguments(factory: Factory, plain: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Convert plain data back to arguments, each to the type that its parameter is annotated with.

    Raises:
        TypeError: the factory does not accept them.
        HarnessMisuse: one no longer fits its type.
    """
    args, named = list(plain[0]), dict(plain[1])
    bound = inspect.signature(factory).bind(*args, **named)
    hints = _hints(factory)
    positions = {place: name for name, places in _places(bound).items() for place in places}
    read = [_convert(value, hints.get(positions.get(place, "")), factory) for place, value in enumerate(args)]
    various = next((one.name for one in bound.signature.parameters.values() if one.kind is one.VAR_KEYWORD), "")
    known = bound.signature.parameters
    return read, {key: _convert(value, hints.get(key if key in known else various), factory) for key, value in named.items()}


def make_harness(factory: Factory, plain: Sequence[Any]) -> AnyHarness:
    """Call a factory with stored arguments.

    A factory whose annotation does not say that it returns a harness is not called, since a store may have been edited.

    Raises:
        HarnessMisuse: it does not accept the arguments, raises, or returns no harness.
    """
    if not _makes_harness(factory):
        raise HarnessMisuse(
            f"{_named(factory)}: expected a harness class, or a function annotated to return a harness, got {factory!r:.100}; "
            "annotate what it returns"
        )
    try:
        args, named = read_arguments(factory, plain)
        made = factory(*args, **named)
    except OrchestratorError:
        raise
    except Exception as error:
        raise HarnessMisuse(f"{_named(factory)} could not be called: {type(error).__name__}: {error}; correct it") from error
    if inspect.iscoroutine(made):
        made.close()
    if not isinstance(made, BaseHarness):
        raise HarnessMisuse(f"{_named(factory)} returned {made!r:.100}: expected a harness; have it return one")
    return made  # pyright: ignore[reportUnknownVariableType]  (a harness of any types)


def _makes_harness(factory: Factory) -> bool:
    """Return whether a factory is a harness class, or a function annotated to return a harness."""
    if isinstance(factory, type):
        return issubclass(factory, BaseHarness)
    function: Any = inspect.unwrap(factory)
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        return False
    # Only the return annotation: types of parameters may exist for the type checker alone.
    said: Any = SimpleNamespace(__annotations__={"return": function.__annotations__.get("return")})
    try:
        return _is_harness_type(get_type_hints(said, function.__globals__)["return"])
    except Exception:
        return False


def _is_harness_type(said: Any) -> bool:
    if get_origin(said) in (Union, UnionType):
        return all(_is_harness_type(one) for one in get_args(said))
    cls = get_origin(said) or said
    return isinstance(cls, type) and issubclass(cls, BaseHarness)


def _places(bound: inspect.BoundArguments) -> dict[str, list[int]]:
    """Return, for each parameter, the positions of the positional arguments that it receives."""
    found: dict[str, list[int]] = {}
    place = 0
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            found[name] = list(range(place, len(bound.args)))
            break
        if parameter.kind is not parameter.KEYWORD_ONLY:
            found[name] = [place]
            place += 1
    return found


def _hints(factory: Factory) -> dict[str, Any]:
    """Return the annotated types of the parameters; for a state parameter of a base class, the declared state type."""
    try:
        hints = get_type_hints(cast(Any, factory).__init__ if isinstance(factory, type) else factory)
    except (NameError, TypeError, AttributeError):
        return {}
    state: Any = state_type(factory) if isinstance(factory, type) else None
    return {name: state if _is_open(hint) else hint for name, hint in hints.items()}


def _is_open(hint: Any) -> bool:
    """Return whether a parameter accepts a state of any class: `StateT`, or `StateT | HarnessConfig[StateT]`."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return any(isinstance(member, TypeVar) for member in members)


def _convert(value: Any, hint: Any, factory: Factory) -> Any:
    if hint in (None, Any, object):
        return value
    try:
        return msgspec.convert(value, hint, str_keys=True)
    except (msgspec.ValidationError, ValueError) as error:
        raise HarnessMisuse(f"{_named(factory)}: {error}, for an argument of type {hint}; pass what it takes") from error
    except TypeError:
        # Plain data cannot be converted to this type, so the value stays as it is.
        return value


def _is_same(given: Any, back: Any) -> bool:
    try:
        return bool(given == back)
    except Exception:
        return False


def _named(factory: Factory) -> str:
    return str(getattr(factory, "__qualname__", factory))
