"""The estimate of tokens against the counts of real tokenizers.

The counts were made with tiktoken 0.14 (cl100k_base of GPT-4, o200k_base of GPT-4o to GPT-5), and with the tokenizers of
Anthropic and DeepSeek that litellm 1.109.1 ships.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from random import Random

import pytest

from harnesses.agents.model.messages import Message, ModelRequest, Role, Thinking, ToolCall, ToolDefinition, ToolResult
from harnesses.agents.model.token_estimate import PER_MESSAGE, WITH_TOOLS, estimate_text, estimate_tokens

PROSE = (
    "A harness is a long-running loop. Each step is on disk before the next one begins, so that a program which was killed "
    "goes on where it stopped. The operator watches, approves, pauses and resumes; the analyst asks what happened and why.\n"
)
CODE = """
async def reserve(self, amounts: Spend, *, between_steps: bool = False) -> int:
    await cancel_shielded_checkpoint()
    result = self._pools.reserve((self._name,), self._name, amounts)
    if isinstance(result, Reserved):
        return result.id
    raise BudgetExhausted(str(result))
"""


def some(alphabet: str, length: int = 2_000) -> str:
    random = Random(1)
    return "".join(random.choice(alphabet) for _ in range(length))


TEXTS: dict[str, str] = {
    "prose": PROSE * 9,
    "code": CODE * 9,
    "json": json.dumps([{"id": n, "price": n * 1.25, "name": "item"} for n in range(80)]),
    "diff": "\n".join(f"+ {n}: x = y[{n}] # changed" for n in range(150)),
    "base64": base64.b64encode(Random(1).randbytes(3_000)).decode(),
    "hexadecimal": Random(1).randbytes(2_000).hex(),
    "digits": some(string.digits),
    "random letters": some(string.ascii_lowercase),
    "punctuation": some(string.punctuation),
    "chinese": "人工智能代理可以在沙盒中运行命令，并记录每一步的结果。" * 40,  # noqa: RUF001
    "emoji": some("".join(map(chr, range(0x1F300, 0x1F64F)))),
    "russian": "Агенты работают рядом и никогда не теряют шаг. " * 40,
}
COUNTS: dict[str, tuple[int, int, int, int]] = {
    "prose": (450, 450, 495, 450),
    "code": (613, 613, 693, 649),
    "json": (1602, 1602, 1441, 1602),
    "diff": (1949, 1949, 1799, 1949),
    "base64": (2857, 2723, 2808, 2788),
    "hexadecimal": (2247, 2256, 2316, 2295),
    "digits": (667, 667, 827, 667),
    "random letters": (1084, 1044, 1065, 1091),
    "punctuation": (1300, 1318, 1335, 1390),
    "chinese": (1080, 720, 1000, 560),
    "emoji": (5652, 4402, 5208, 4251),
    "russian": (921, 481, 1080, 601),
}
"""Of cl100k_base, o200k_base, Anthropic and DeepSeek."""


@pytest.mark.parametrize("kind", TEXTS)
def test_the_estimate_is_above_the_count_of_every_tokenizer(kind: str) -> None:
    estimate = estimate_text(TEXTS[kind])
    assert max(COUNTS[kind]) <= estimate <= 8 * min(COUNTS[kind])


@pytest.mark.parametrize("kind", ["prose", "code", "json"])
def test_the_estimate_of_common_text_is_at_most_three_times_the_count(kind: str) -> None:
    assert estimate_text(TEXTS[kind]) <= 3.05 * min(COUNTS[kind])


def request(*messages: Message, tools: tuple[ToolDefinition, ...] = ()) -> ModelRequest:
    return ModelRequest(model="any", messages=messages, tools=tools)


USER = Message(role=Role.USER, text="hello")
PARTS: list[Callable[[str], ModelRequest]] = [
    lambda text: request(Message(role=Role.USER, text=text)),
    lambda text: request(Message(role=Role.ASSISTANT, thinking=(Thinking(text=text),))),
    lambda text: request(Message(role=Role.ASSISTANT, thinking=(Thinking(proof=text),))),
    lambda text: request(Message(role=Role.ASSISTANT, calls=(ToolCall(id="1", name="edit", arguments=text),))),
    lambda text: request(Message(role=Role.TOOL, results=(ToolResult(call_id="1", name="edit", text=text),))),
    lambda text: request(USER, tools=(ToolDefinition(name="edit", description=text, input_schema="{}"),)),
    lambda text: request(USER, tools=(ToolDefinition(name="edit", description="", input_schema=text),)),
]


@pytest.mark.parametrize("build", PARTS)
def test_every_part_of_a_request_counts(build: Callable[[str], ModelRequest]) -> None:
    assert estimate_tokens(build("Z" * 1_000)) - estimate_tokens(build("")) == 1_000


def test_a_tool_adds_the_instructions_of_the_provider() -> None:
    tool = ToolDefinition(name="edit", description="", input_schema="{}")
    assert estimate_tokens(request(USER, tools=(tool,))) > estimate_tokens(request(USER)) + WITH_TOOLS
    assert estimate_tokens(request(USER, USER)) - estimate_tokens(request(USER)) == estimate_text("hello") + PER_MESSAGE


def test_text_that_is_no_unicode_is_estimated() -> None:
    assert estimate_text("\ud800") == 3
