"""An estimate of a request's tokens that is nearly always too high: without network and without a tokenizer. Pure.

    lower-case letters, spaces     5 bytes to 3 tokens
    every other byte of UTF-8      1 byte to a token

A byte-level tokenizer never makes more tokens than there are bytes. On prose, code, JSON, base64, digits and seven other kinds
of text the estimate was 1.1 to 7 times the count of four vendors' tokenizers, 2.5 to 3.0 times for English and code; see the
tests. Anthropic's models from Opus 4.7 on make up to 1.35 times the tokens of earlier ones of the same text.
"""

from __future__ import annotations

from harnesses.agents.model.messages import Message, ModelRequest

_DENSE = b"abcdefghijklmnopqrstuvwxyz "
PER_MESSAGE = 8
"""Tokens that delimit a message and name its role; OpenAI's models use 3 or 4."""
PER_TOOL = 24
"""Tokens around the definition of a tool, in addition to its text."""
WITH_TOOLS = 800
"""Tokens of the provider's own instructions for using tools: up to 804 for Anthropic's models.

Source: https://platform.claude.com/docs/en/about-claude/pricing, "Tool use pricing", 2026-11.
"""


def estimate_text(text: str) -> int:
    """Return about the largest number of tokens that a text can have."""
    data = text.encode(errors="surrogatepass")
    other = len(data.translate(None, _DENSE))
    return other + -(-(len(data) - other) * 3 // 5)


def estimate_message(message: Message) -> int:
    """Return about the largest number of tokens of a message."""
    tokens = PER_MESSAGE + estimate_text(message.text)
    tokens += sum(estimate_text(part.text) + estimate_text(part.proof) for part in message.thinking)
    tokens += sum(PER_MESSAGE + estimate_text(call.id + call.name + call.arguments) for call in message.calls)
    tokens += sum(PER_MESSAGE + estimate_text(result.call_id + result.name + result.text) for result in message.results)
    return tokens


def estimate_tokens(request: ModelRequest) -> int:
    """Return about the largest number of input tokens of a request."""
    tokens = PER_MESSAGE + sum(map(estimate_message, request.messages))
    if request.tools:
        tokens += WITH_TOOLS
        tokens += sum(PER_TOOL + estimate_text(tool.name + tool.description + tool.input_schema) for tool in request.tools)
    return tokens
