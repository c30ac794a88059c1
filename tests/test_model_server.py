"""The model server of the tests: it speaks both vendors' protocols, and is empty for each test."""

from __future__ import annotations

import http.client
import json

from tests.model_server import ModelServer


def ask(server: ModelServer, text: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = {"model": "gpt", "messages": [{"role": "user", "content": text}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_a_model_server_answers_as_it_is_told(model_server: ModelServer) -> None:
    model_server.answers("weather", "It rains.")
    model_server.fails("limit", 429, retry_after_s=7)

    assert "It rains." in ask(model_server, "the weather, please")[1]
    assert ask(model_server, "limit")[0] == 429
    assert [request["response"]["status"] for request in model_server.requests()] == [200, 429]


def test_a_model_server_is_empty_for_each_test(model_server: ModelServer) -> None:
    assert model_server.requests() == []
    assert ask(model_server, "the weather, please")[0] == 404
