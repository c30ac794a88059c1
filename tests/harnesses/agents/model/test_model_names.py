"""A name, `provider:model`, finds its provider; one's own are found by a name or a reference."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.providers.model_names import provider_for, register_provider
from harnesses.errors import HarnessMisuse

KEY = Credential("sk-names-0123456789abcdef")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "kind", "id", "model", "url"),
    [
        ("anthropic:claude-x", "AnthropicProvider", "anthropic", "claude-x", "https://api.anthropic.com"),
        ("claude:claude-x", "AnthropicProvider", "anthropic", "claude-x", "https://api.anthropic.com"),
        ("openai:gpt-x", "OpenAIResponsesProvider", "openai", "gpt-x", "https://api.openai.com/v1"),
        ("openai-chat:gpt-x", "OpenAIChatProvider", "openai", "gpt-x", "https://api.openai.com/v1"),
        ("ollama:gpt-oss:20b", "OpenAIChatProvider", "ollama", "gpt-oss:20b", "http://127.0.0.1:11434/v1"),
        ("local:smol", "OpenAIChatProvider", "ollama", "smol", "http://127.0.0.1:11434/v1"),
        ("zen:big", "OpenAIChatProvider", "opencode-zen", "big", "https://opencode.ai/zen/v1"),
    ],
)
def test_a_name_finds_its_provider(name: str, kind: str, id: str, model: str, url: str) -> None:
    provider, found = provider_for(name)

    assert (type(provider).__name__, provider.id, found, provider.account) == (kind, id, model, url)


def test_another_server_is_another_account_and_needs_no_key() -> None:
    provider, _ = provider_for("openai-chat:smol", base_url="http://127.0.0.1:8080/v1")

    assert (provider.id, provider.account) == ("openai-chat", "http://127.0.0.1:8080/v1")
    assert provider.has_key  # type: ignore[attr-defined]


def test_accounts_differ_by_key_and_do_not_show_it() -> None:
    one, _ = provider_for("anthropic:x", key=KEY)
    other, _ = provider_for("anthropic:x", key=Credential("sk-names-other-0123456789"))

    assert one.account.split()[0] == other.account.split()[0]
    assert one.account != other.account


def test_a_key_may_come_from_another_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-team-0123456789abcdef")
    provider, _ = provider_for("anthropic:x", key_variable="TEAM_KEY")

    assert provider.has_key  # type: ignore[attr-defined]
    with pytest.raises(HarnessMisuse, match="expected one of key, key_file and key_variable, got several"):
        provider_for("anthropic:x", key=KEY, key_variable="TEAM_KEY")


def test_ones_own_provider_is_found_by_name_and_by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(**given: Any) -> Any:
        return SimpleNamespace(id="own-lab", account="", given=given)

    monkeypatch.setitem(sys.modules, "own_lab.models", SimpleNamespace(provider=make))  # type: ignore[arg-type]
    register_provider("own-lab", "own_lab.models:provider")

    for name in ("own-lab:big:one", "own_lab.models:provider:big:one"):
        provider, model = provider_for(name, base_url="http://127.0.0.1:1")
        assert (provider.id, model) == ("own-lab", "big:one")
        assert provider.given == {"base_url": "http://127.0.0.1:1"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("claude-x", "expected provider:model, such as anthropic:claude-sonnet-5, got no model"),
        ("anthropic: ", "got no model"),
        ("anthropic:claude x", "expected a name without spaces and line breaks, got 'claude x'"),
        ("openai-chat:m\n", r"expected a name without spaces and line breaks, got 'm\\n'"),
        ("acme-unknown:x", "expected one of anthropic, openai, openai-chat, .*, got 'acme-unknown'"),
        ("opnai:x", "did you mean 'openai'"),
        ("no.such.module:make:x", "correct the reference"),
        ("harnesses.errors:one_of", "got no model"),
    ],
)
def test_a_name_that_finds_nothing_says_what_it_should_be(name: str, message: str) -> None:
    with pytest.raises(HarnessMisuse, match=message):
        provider_for(name)


@pytest.mark.parametrize("id", ["openai", "claude", "a.b", "a:b", ""])
def test_a_name_that_cannot_be_registered_is_refused(id: str) -> None:
    with pytest.raises(HarnessMisuse, match="choose another"):
        register_provider(id, "acme.models:provider")
