"""A model server that others wrote: `@copilotkit/aimock`, which speaks the protocols of Anthropic, OpenAI, Gemini and Ollama.

async def test_something(model_server):              # the fixture: one server for each test process, empty for each test
    model_server.answers("weather", "It rains.")     # whenever the last user message contains "weather"
    client = AsyncAnthropic(base_url=model_server.anthropic_url, api_key="key", max_retries=0)

Answers are chosen by the last user message; the first one that matches is taken. `Reply` says what else may be asked of it:
tool calls, errors, slow and cut streams. What the server was sent is in `requests()`.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tests.npm_packages import npm_package

PACKAGE = ("@copilotkit/aimock", "1.43.0")
_PROGRAM = """
import { LLMock } from "%s/dist/index.js";
const server = new LLMock({ port: 0, logLevel: "silent", journalMaxEntries: 10000 });
await server.start();
console.log(server.url);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
"""
"""It ends with the process that started it, whatever becomes of that."""


class ModelServer:
    """A running server; `answers`, `calls` and `fails` add replies, `requests` returns what came."""

    def __init__(self) -> None:
        command = ["node", "--input-type=module", "-e", _PROGRAM % npm_package(*PACKAGE)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), "the model server did not start"
        self.anthropic_url = self.url
        """`base_url` of Anthropic's client."""
        self.openai_url = f"{self.url}/v1"
        """`base_url` of OpenAI's client."""
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def control(self, method: str, verb: str, body: object = None) -> Any:
        """Use a control endpoint of the server: `/__aimock/…`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/__aimock/{verb}", None if body is None else json.dumps(body))
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def reset(self) -> None:
        """Forget all replies and requests."""
        self.control("POST", "reset")

    def reply(self, match: Mapping[str, Any], response: Mapping[str, Any], **options: Any) -> None:
        """Add a reply in the server's own form: a fixture of `match`, `response` and options.

        Args:
            match: `userMessage`, `hasToolResult`, `turnIndex` (the number of assistant messages so far), `sequenceIndex`
                (how often it has matched), `model`, `toolName`, `toolResultContains`, `systemMessage`; {} for any request.
            response: `content`, `reasoning`, `toolCalls`, `usage`, `finishReason`; or `error` with `status`, `retryAfter`.
            options: `latency` (ms between chunks), `chunkSize` (characters), `truncateAfterChunks`, `disconnectAfterMs`,
                `streamingProfile` ({"ttft": ms, "tps": …}), `chaos` ({"malformedRate": 1, "latencyMs": …}).
        """
        self.control("POST", "fixtures", {"fixtures": [{"match": dict(match), "response": dict(response), **options}]})

    def answers(self, to: str, text: str, *, match: Mapping[str, Any] | None = None, **options: Any) -> None:
        """Answer with a text when the last user message contains `to`."""
        self.reply({"userMessage": to, **(match or {})}, {"content": text}, **options)

    def calls(self, to: str, tools: Mapping[str, Mapping[str, Any]], *, text: str = "", then: str | None = None) -> None:
        """Answer with tool calls, one for each name; and with the text `then` when their results are sent."""
        wanted = [
            {"id": f"call_{to}_{place}", "name": name, "arguments": dict(given)}
            for place, (name, given) in enumerate(tools.items())
        ]
        told = {"content": text} if text else {}
        self.reply({"userMessage": to, "hasToolResult": False}, {**told, "toolCalls": wanted})
        if then is not None:
            self.reply({"userMessage": to, "hasToolResult": True}, {"content": then})

    def fails(self, to: str, status: int, message: str = "no", *, retry_after_s: int | None = None, **options: Any) -> None:
        """Answer with an HTTP error."""
        response: dict[str, Any] = {"error": {"message": message, "type": "error"}, "status": status}
        if retry_after_s is not None:
            response["retryAfter"] = retry_after_s
        self.reply({"userMessage": to}, response, **options)

    def requests(self) -> list[dict[str, Any]]:
        """Return what has come since the last reset, oldest first: `path`, `headers`, `body`, `response`."""
        found: list[dict[str, Any]] = self.control("GET", "journal")
        return found
