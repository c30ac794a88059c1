"""The model server of the tests, as the conformance suite of providers wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from tests.model_server import ModelServer


@frozen
class AimockServer:
    """Answers in the dialect of whatever path is asked."""

    server: ModelServer
    url: str

    def answer(self, prompt: str, text: str) -> None:
        self.server.answers(prompt, text)

    def call(self, prompt: str, tools: Sequence[str], arguments: dict[str, Any], then: str) -> None:
        self.server.calls(prompt, dict.fromkeys(tools, arguments), then=then)

    def fail(self, prompt: str, status: int, retry_after_s: int) -> None:
        self.server.fails(prompt, status, retry_after_s=retry_after_s)
