"""Clients by name, as a run file describes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesses.agents.model.providers.client_names import client_for
from harnesses.errors import HarnessMisuse


def places(*args: Any, **options: Any) -> list[tuple[str, str]]:
    """Return the server and the model of each model of a client."""
    return [(provider.account.split()[0], model) for provider, model in client_for(*args, **options).models]


def test_a_fallback_of_the_same_provider_has_its_server() -> None:
    url = "http://127.0.0.1:9/v1"
    names = ["openai-chat:large", "ollama:small", {"model": "openai-chat:other", "base_url": "http://127.0.0.1:8/v1"}]
    assert places("openai-chat:main", base_url=url, fallback=names) == [
        (url, "main"),
        (url, "large"),
        ("http://127.0.0.1:11434/v1", "small"),
        ("http://127.0.0.1:8/v1", "other"),
    ]


def test_prices_of_a_file_and_limits_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('"openai-chat:mine" = { input = 1, output = 2, context = 1000 }')
    client = client_for("openai-chat:mine", base_url="https://models.example/v1", prices=path, requests_per_minute=5)
    assert (client.unpriced, client.context_window()) == ((), 1000)


@pytest.mark.parametrize("fallback", [{"base_url": "http://127.0.0.1"}, {"model": "ollama:a", "speed": "9"}])
def test_a_malformed_fallback_is_refused(fallback: dict[str, str]) -> None:
    with pytest.raises(HarnessMisuse, match=r"fallback of model 'ollama:main': '(model|speed)' is"):
        client_for("ollama:main", fallback=[fallback])


@pytest.mark.parametrize("options", [{"requests_per_minute": 0}, {"tries": 0}, {"tokens_per_minute": 1.5}])
def test_invalid_limits_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(HarnessMisuse, match=next(iter(options))):
        client_for("ollama:main", **options)


@pytest.mark.parametrize("row", ["openai-chat:gpt-x", "openai:gpt-x", "openai-chat:*"])
@pytest.mark.parametrize("name", ["openai-chat:gpt-x", "openai-chat:gpt-x-2026-01-01"])
def test_a_price_of_openai_chat_is_found_under_its_own_name_and_under_openais(row: str, name: str) -> None:
    rows = {"ollama:other": {"input": 9, "output": 9}, row: {"input": 1, "output": 2}}
    assert client_for(name, prices=rows).unpriced == ()
    url = "https://models.example/v1"
    assert bool(client_for(name, base_url=url, prices=rows).unpriced) is (row == "openai:gpt-x")
