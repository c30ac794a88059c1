"""Function tools: annotated functions that a model can call.

    @tool(effect=ToolEffect.READS)
    async def weather(city: str, days: Annotated[int, Meta(ge=1, le=14)] = 1) -> Forecast:
        "Return the forecast. Args: …"

    signature, docstring ──► JSON Schema          arguments ──validated──► function ──► text

Invariant: the function is called only with arguments of its annotated types.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, cast, overload

import msgspec
import trio
from attrs import field, frozen

from harnesses.agents.argument_checks import SECONDS, TEXT, TEXTS, Rule, check, optional
from harnesses.agents.model.messages import ToolDefinition
from harnesses.agents.tools.tool import InvalidArguments, ToolEffect, ToolSetting
from harnesses.agents.tools.tool_threads import call_in_thread
from harnesses.data.json_depth import MAX_LEVELS, is_too_deep
from harnesses.data.values import detach
from harnesses.errors import HarnessMisuse
from harnesses.guard.command_model import Finding
from harnesses.timing.clock import jumps

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?|Source):\s*$")
_FUNCTION = Rule("a function, or None", lambda value: value is None or callable(value))
_RULES = {
    "effect": Rule(f"one of {', '.join(ToolEffect)}", lambda value: value in tuple(ToolEffect)),
    "name": TEXT,
    "description": TEXT,
    "timeout_s": optional(SECONDS),
    "guard": _FUNCTION,
    "check": _FUNCTION,
    "paths": Rule(
        "a list of names of arguments, a function, or None",
        lambda value: value is None or callable(value) or TEXTS.holds(value),
    ),
}
_encode = msgspec.json.Encoder(decimal_format="string").encode
_DONE = "done"
"""The result that a model gets for None."""
_MISSING: Any = inspect.Parameter.empty
Paths = Callable[[Mapping[str, Any]], Iterable[str]]
Check = Callable[[Mapping[str, Any], ToolSetting], None]
Guard = Callable[[Mapping[str, Any], ToolSetting], tuple[Finding, ...]]


@frozen
class Argument:
    """An argument of a function tool."""

    name: str
    """Name of the parameter."""
    hint: Any
    """Its annotated type."""
    default: Any = _MISSING
    """Its default; absent for a required one."""

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is _MISSING


@frozen(kw_only=True, eq=False)
class FunctionTool:
    """A function that a model can call."""

    function: Callable[..., Any]
    """Called with keyword arguments; a synchronous one runs in a worker thread."""
    definition: ToolDefinition
    arguments: tuple[Argument, ...]
    effect: ToolEffect = ToolEffect.ACTS
    timeout_s: float | None = None
    setting_name: str = ""
    """Its parameter for the `ToolSetting`, hidden from the model; empty if it has none."""
    guard: Guard | None = field(default=None, repr=False)
    """Returns why a call with these arguments needs approval; None if no call does."""
    path_arguments: Paths | tuple[str, ...] | None = field(default=None, repr=False)
    """Names of the arguments that are paths, or what returns the paths of a call; None if any argument may be one."""
    checked: Check | None = field(default=None, repr=False)
    """Raises `ToolError` for valid arguments of a call that could not be made; None if it always could."""

    def paths(self, arguments: Mapping[str, Any]) -> Iterable[str] | None:
        """Return the paths that a call touches; None if any argument may be one."""
        if self.path_arguments is None or callable(self.path_arguments):
            return None if self.path_arguments is None else self.path_arguments(arguments)
        return paths_in(arguments, self.path_arguments)

    def findings(self, arguments: Mapping[str, Any], setting: ToolSetting) -> tuple[Finding, ...]:
        """Return why a call needs approval unless the policy allows it; empty if it needs none."""
        return () if self.guard is None else self.guard(arguments, setting)

    def check(self, arguments: Mapping[str, Any], setting: ToolSetting) -> None:
        """Check that a call could be made, before a person is asked to approve it.

        Raises:
            InvalidArguments, ToolError: it could not.
        """
        validate_arguments(self.definition.name, self.arguments, arguments)
        if self.checked is not None:
            self.checked(arguments, setting)

    async def invoke(self, arguments: str, setting: ToolSetting) -> str:
        """Call the function and return its result as text; see `Tool.invoke`.

        At a time limit the thread of a synchronous function is left to itself; one that changes files is waited for.
        """
        given = validate_arguments(self.definition.name, self.arguments, read_object(arguments))
        if self.setting_name:
            given[self.setting_name] = setting
        if inspect.iscoroutinefunction(self.function):
            return as_text(await self.function(**given))
        call = partial(self.function, **given)
        if jumps():
            await trio.lowlevel.checkpoint()
            result = call()
        else:
            # A thread that changes files must not go on when they are kept or restored.
            abandons = self.effect is not ToolEffect.CHANGES_FILES
            result = await call_in_thread(call, abandons=abandons)
        return as_text(await result if inspect.isawaitable(result) else result)


def function_tool(
    function: Callable[..., Any],
    *,
    effect: ToolEffect = ToolEffect.ACTS,
    name: str = "",
    description: str = "",
    timeout_s: float | None = None,
    guard: Guard | None = None,
    paths: Paths | Iterable[str] | None = None,
    check: Check | None = None,
) -> FunctionTool:
    """Make a tool of a function whose parameters are annotated.

    Args:
        effect: what a call may change.
        name: the tool's name; by default the function's.
        description: by default the docstring up to its sections, whose `Args:` describes the arguments.
        timeout_s: seconds for one call; None for the agent's default.
        guard: returns why a call needs approval unless the policy allows it.
        paths: names of the arguments that are paths, or a function that returns the paths of a call: the policy judges them
            relative to the working directory and with links resolved. None if any argument may be a path; empty if none is.
        check: raises `ToolError` for valid arguments of a call that could not be made, so that nobody is asked to approve it.

    Raises:
        HarnessMisuse: an argument is invalid; a parameter has no annotation, or one that JSON cannot represent.
    """
    _check_arguments(function, locals())
    name = name or getattr(function, "__name__", type(function).__name__)
    if not _NAME.fullmatch(name):
        raise HarnessMisuse(f"tool {name!r:.100}: expected a name of 1 to 64 characters of A-Z, a-z, 0-9, _ and -; set `name`")
    text, described = _read_docstring(inspect.getdoc(function) or "")
    arguments, setting_name = _arguments_of(name, function, described)
    known = [argument.name for argument in arguments]
    if paths is not None and not callable(paths) and (unknown := set(paths) - set(known)):
        raise HarnessMisuse(f"tool {name}: paths: expected some of {', '.join(known)}, got {min(unknown)!r}; correct it")
    schema = str(msgspec.json.encode(_schema_of(name, arguments)), "utf-8")
    definition = ToolDefinition(name=name, description=description or text or name, input_schema=schema)
    return FunctionTool(
        function=function,
        definition=definition,
        arguments=arguments,
        effect=ToolEffect(effect),
        timeout_s=timeout_s,
        setting_name=setting_name,
        guard=guard,
        path_arguments=paths if paths is None or callable(paths) else tuple(paths),
        checked=check,
    )


def _check_arguments(function: object, given: Mapping[str, object]) -> None:
    check("tool", "function", function, Rule("a function", callable, "decorate one, or pass one"))
    for name, rule in _RULES.items():
        check(f"tool {getattr(function, '__name__', given['name'])}", name, given[name], rule)


@overload
def tool(function: Callable[..., Any]) -> FunctionTool: ...


@overload
def tool(
    *,
    effect: ToolEffect = ...,
    name: str = ...,
    description: str = ...,
    timeout_s: float | None = ...,
    paths: Paths | Iterable[str] | None = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    function: Callable[..., Any] | None = None, **how: Any
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of the decorated function: `@tool`, or `@tool(effect=…)` with the arguments of `function_tool`."""
    return partial(function_tool, **how) if function is None else function_tool(function)


def as_text(value: object) -> str:
    """Return a tool's result as text: text as it is, any other storable value as JSON.

    Raises:
        Unstorable: it cannot be represented.
    """
    if value is None:
        return _DONE
    return value if isinstance(value, str) else str(_encode(detach(value)), "utf-8")


# arguments


def paths_in(arguments: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return the texts among arguments of these names, those in lists too."""
    given = (arguments.get(name) for name in names)
    listed = (cast(list[object], one) if isinstance(one, list) else [one] for one in given)
    return [text for texts in listed for text in texts if isinstance(text, str)]


def read_object(arguments: str) -> dict[str, Any]:
    """Decode the arguments that a model wrote.

    Raises:
        InvalidArguments: they are not a JSON object, or nested too deeply.
    """
    if is_too_deep(arguments):
        raise InvalidArguments(f"the arguments are nested in more than {MAX_LEVELS} levels; send a flatter JSON object")
    try:
        given: object = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidArguments(f"the arguments are not valid JSON: {error}; send one JSON object") from error
    if not isinstance(given, dict):
        raise InvalidArguments(f"the arguments: expected a JSON object, got {_shown(given)}; send one")
    return cast(dict[str, Any], given)


def validate_arguments(name: str, wanted: tuple[Argument, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the arguments that a model gave; return them by name, defaults included.

    Raises:
        InvalidArguments: the message has a line for each problem.
    """
    values, problems = dict[str, Any](), list[str]()
    known = [argument.name for argument in wanted]
    for argument in wanted:
        if argument.name not in given:
            if argument.is_required:
                problems.append(f"argument `{argument.name}` is missing: expected {_described(argument)}")
            else:
                values[argument.name] = detach(argument.default)
            continue
        try:
            values[argument.name] = msgspec.convert(given[argument.name], argument.hint)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            problems.append(f"argument `{argument.name}`: {_plain(error)}, got {_shown(given[argument.name])}")
    for other in sorted(given.keys() - set(known)):
        problems.append(f"argument `{other:.100}` is unknown: expected {', '.join(known) or 'none'}")
    if problems:
        raise InvalidArguments(f"the call of {name} was not made:\n" + "\n".join(problems))
    return values


def _plain(error: Exception) -> str:
    text = str(error).partition(" - at `$")
    where = text[2].rstrip("`")
    return f"{text[0][:1].lower()}{text[0][1:]}" + (f" at `{where.lstrip('.')}`" if where else "")


def _shown(value: object) -> str:
    return str(msgspec.json.encode(value), "utf-8")[:200]


def _described(argument: Argument) -> str:
    (schema,), components = msgspec.json.schema_components([argument.hint])
    while "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    return str(schema.get("type") or ("one of " + ", ".join(map(str, schema["enum"])) if "enum" in schema else "a value"))


# the schema


def _arguments_of(name: str, function: Callable[..., Any], described: Mapping[str, str]) -> tuple[tuple[Argument, ...], str]:
    """Return the arguments of a function, and the name of its parameter for the setting."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise HarnessMisuse(
            f"tool {name}: its annotations cannot be read: {error}; define the types at the top of their module"
        ) from error
    arguments, setting_name = list[Argument](), ""
    for parameter in inspect.signature(function).parameters.values():
        hint: Any = hints.get(parameter.name, _MISSING)
        if hint is ToolSetting:
            setting_name = parameter.name
            continue
        if hint is _MISSING or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise HarnessMisuse(
                f"tool {name}: parameter {str(parameter)!r}: expected an annotated one that can be passed by name; annotate it"
            )
        if words := described.get(parameter.name):
            hint = Annotated[hint, msgspec.Meta(description=words)]
        arguments.append(Argument(parameter.name, hint, parameter.default))
    return tuple(arguments), setting_name


def _schema_of(name: str, arguments: tuple[Argument, ...]) -> dict[str, Any]:
    hints = [argument.hint for argument in arguments]
    try:
        schemas, components = msgspec.json.schema_components(hints, ref_template="#/$defs/{name}")
        properties = {
            argument.name: schema | ({} if argument.is_required else _default(argument.default))
            for argument, schema in zip(arguments, schemas, strict=True)
        }
    except TypeError as error:
        raise HarnessMisuse(f"tool {name}: a parameter has a type that JSON cannot represent: {error}; use another") from error
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [argument.name for argument in arguments if argument.is_required],
        "additionalProperties": False,
    }
    for component in components.values():
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    return schema | ({"$defs": components} if components else {})


def _default(value: object) -> dict[str, Any]:
    return {"default": msgspec.to_builtins(detach(value))}


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the text of a docstring before its sections, and the descriptions of the arguments."""
    before, described, section, name = list[str](), dict[str, str](), "", ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section = found[1]
        elif not section:
            before.append(line)
        elif section in ("Args", "Arguments") and (found := _ARGUMENT.match(textwrap.dedent(line))) and _indent(line) <= 4:
            name = found[1]
            described[name] = found[2]
        elif name and line.strip() and section in ("Args", "Arguments"):
            described[name] = f"{described[name]} {line.strip()}".strip()
    return "\n".join(before).strip(), described


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
