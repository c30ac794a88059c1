"""Typed answers: a model gives one by calling a tool, or as JSON text, and is told what is wrong with one that does not fit.

Invariant: what is returned has been validated through `msgspec`.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

import msgspec
from attrs import frozen

from harnesses.agents.model.messages import ToolDefinition
from harnesses.data.json_depth import MAX_LEVELS, is_too_deep
from harnesses.errors import HarnessMisuse

ANSWER_TOOL = "give_answer"
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)


@frozen
class AnswerType:
    """The type of a typed answer, and how a model gives one; see `of`."""

    type: Any
    """The type of which the answer is returned."""
    is_wrapped: bool
    """Whether the type is no object, so that the tool takes it as `answer`."""
    definition: ToolDefinition
    """The tool by which the model gives its answer."""

    @classmethod
    def of(cls, type: Any) -> AnswerType:
        """Return the answer type of a Python type.

        Raises:
            HarnessMisuse: `msgspec` has no schema for the type.
        """
        try:
            schema: dict[str, Any] = msgspec.json.schema(type)
            msgspec.json.Decoder(type)
        except (TypeError, RuntimeError) as error:
            raise HarnessMisuse(
                f"ModelAgent: answer: expected a type with a JSON schema, got {type!r}: {error}; "
                "use an attrs class, a dataclass, or plain types"
            ) from error
        top = schema
        if "$ref" in schema:
            top = cast("dict[str, Any]", schema["$defs"])[cast(str, schema["$ref"]).rpartition("/")[2]]
        is_wrapped = top.get("type") != "object"
        if is_wrapped:
            defs = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {"answer": schema}, "required": ["answer"], **defs}
        elif top is not schema:
            schema = {**top, "$defs": schema["$defs"]}
        text = json.dumps(schema, ensure_ascii=False)
        words = "Give your final answer. Call this once, when the work is done."
        return cls(type, is_wrapped, ToolDefinition(name=ANSWER_TOOL, description=words, input_schema=text))

    def read_call(self, arguments: str) -> Any:
        """Return the answer in the arguments of the tool.

        Raises:
            ValueError: it does not fit; the text is for the model.
        """
        _check_depth(arguments)
        try:
            if not self.is_wrapped:
                return msgspec.json.decode(arguments or "{}", type=self.type)
            data = msgspec.json.decode(arguments or "{}", type=dict[str, msgspec.Raw])
            if "answer" not in data:
                raise ValueError(f"the answer does not fit: expected an object with the key `answer`, got {arguments:.200}")
            return msgspec.json.decode(data["answer"], type=self.type)
        except msgspec.DecodeError as error:
            raise ValueError(f"the answer does not fit: {error}; correct it and give it again") from error

    def read_text(self, text: str) -> Any:
        """Return the answer in a text: JSON, alone or in the last fence.

        Raises:
            ValueError: it does not fit; the text is for the model.
        """
        fences = [one.strip() for one in _FENCE.findall(text)]
        last = fences[-1] if fences else text.strip()
        _check_depth(last)
        try:
            json.loads(last)
        except ValueError as error:
            raise ValueError(f"the answer is not JSON: {error}; call {ANSWER_TOOL}, or answer with JSON alone") from error
        return self.read_call(f'{{"answer":{last}}}' if self.is_wrapped else last)


def _check_depth(text: str) -> None:
    if is_too_deep(text):
        raise ValueError(f"the answer is nested in more than {MAX_LEVELS} levels; correct it and give it again")
