"""Function tools: their schemas, the validation of arguments, and their results."""

from __future__ import annotations

import json
import threading
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from attrs import frozen
from msgspec import Meta

from harnesses.agents.tools.function_tool import FunctionTool, function_tool, tool
from harnesses.agents.tools.tool import InvalidArguments, ToolEffect, ToolSetting
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.tools.turn_tools import agent_run

SETTING = ToolSetting(run=agent_run())


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Point:
    x: int
    y: int = 0


@frozen
class Shape:
    points: list[Point]
    colour: Colour = Colour.RED


def plain(setting: ToolSetting, *, count: int, when: datetime | None = None, price: Decimal = Decimal(1)) -> dict[str, Any]:
    return {"count": count, "when": when, "price": price, "thread": threading.current_thread() is threading.main_thread()}


def schema_of(one: FunctionTool) -> dict[str, Any]:
    return json.loads(one.definition.input_schema)


def test_the_schema_has_types_limits_defaults_and_descriptions_of_the_arguments():
    async def paint(shape: Shape, mode: Literal["fill", "line"], width: Annotated[int, Meta(ge=1, le=9)] = 1) -> None:
        """Paint it.

        Args:
            shape: what to paint,
                with all its points
            width (int): of the line, in pixels
        """

    made = function_tool(paint)
    schema = schema_of(made)

    assert made.definition.name == "paint"
    assert made.definition.description == "Paint it."
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["shape", "mode"], False)
    assert schema["properties"]["mode"] == {"enum": ["fill", "line"]}
    assert schema["properties"]["width"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "default": 1, "description": "of the line, in pixels",
    }  # fmt: skip
    assert schema["properties"]["shape"]["description"] == "what to paint, with all its points"
    assert schema["$defs"]["Point"]["properties"]["x"] == {"type": "integer"}
    assert schema["$defs"]["Shape"]["additionalProperties"] is False


async def test_the_function_gets_values_of_its_types():
    async def area(shape: Shape, when: datetime, price: Decimal = Decimal("1.5")) -> str:
        return f"{shape.points[0].x * 2} {shape.colour.name} {when.year} {price + 1}"

    given = '{"shape": {"points": [{"x": 4}], "colour": "blue"}, "when": "2026-01-02T00:00:00Z"}'

    assert await function_tool(area).invoke(given, SETTING) == "8 BLUE 2026 2.5"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"count": "5"}', ["argument `count`: expected `int`, got `str`", 'got "5"']),
        ("{}", ["argument `count` is missing: expected integer"]),
        ('{"count": 1, "cuont": 2}', ["argument `cuont` is unknown: expected count, names"]),
        ('{"count": 0}', ["argument `count`: expected `int` >= 1", "got 0"]),
        ('{"count": 1, "names": ["a", 2]}', ["argument `names`: expected `str`, got `int` at `[1]`"]),
        ('{"count": "x", "names": 3}', ["argument `count`", "argument `names`"]),
        ('{"count": 1', ["not valid JSON"]),
        ("[1]", ["expected a JSON object, got [1]"]),
    ],
)
async def test_arguments_that_do_not_fit_are_told_with_what_was_expected_and_got(given, told):
    calls: list[int] = []

    async def take(count: Annotated[int, Meta(ge=1)], names: list[str] | None = None) -> None:
        calls.append(count)

    with pytest.raises(InvalidArguments) as caught:
        await function_tool(take).invoke(given, SETTING)

    assert [part for part in told if part not in str(caught.value)] == []
    assert calls == []


async def test_the_setting_is_passed_and_not_shown_to_the_model():
    made = function_tool(plain)

    result = json.loads(await made.invoke('{"count": 2}', SETTING))

    assert list(schema_of(made)["properties"]) == ["count", "when", "price"]
    assert result == {"count": 2, "when": None, "price": "1", "thread": False}


async def test_a_default_that_can_be_changed_is_not_shared_between_calls():
    async def collect(one: int, into: list[int] = []) -> list[int]:  # noqa: B006
        into.append(one)
        return into

    made = function_tool(collect)

    assert [await made.invoke('{"one": 1}', SETTING), await made.invoke('{"one": 2}', SETTING)] == ["[1]", "[2]"]


def test_the_decorator_takes_the_effect_and_the_name():
    @tool(effect=ToolEffect.READS, name="look-up", timeout_s=3)
    def look(word: str) -> str:
        return word

    @tool
    def touch(word: str) -> None: ...

    assert (look.definition.name, look.effect, look.timeout_s) == ("look-up", ToolEffect.READS, 3)
    assert (touch.definition.name, touch.effect) == ("touch", ToolEffect.ACTS)


def _untyped(word): ...
def _many(*words: str): ...
def _odd(thing: threading.Thread): ...


@pytest.mark.parametrize(("function", "told"), [(_untyped, "word"), (_many, r"\*words"), (_odd, "JSON")])
def test_a_function_that_cannot_be_a_tool_is_refused_at_once(function, told):
    with pytest.raises(HarnessMisuse, match=told):
        function_tool(function, name="x")
