"""Which key a server is sent, and what else the environment adds: the vendor's key goes to the vendor alone."""

from __future__ import annotations

import pytest

from harnesses.agents.model.errors import AuthenticationFailed, RequestRejected
from harnesses.agents.model.messages import Message, ModelRequest, Role
from harnesses.agents.model.providers.model_names import provider_for
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.model.provider_dialects import REQUEST, Dialect, each_dialect
from tests.harnesses.agents.model.raw_server import RawServer, raw_server
from tests.model_server import ModelServer

NAMES = ["anthropic:m", "openai:m", "openai-chat:m", "zen:m", "ollama:m"]
UNAUTHORISED = b"HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
SECRETS = {
    "ANTHROPIC_API_KEY": "env-key-a",
    "ANTHROPIC_AUTH_TOKEN": "env-key-b",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: env-key-c\nX-Api-Key: env-key-d",
    "OPENAI_API_KEY": "env-key-e",
    "OPENAI_ADMIN_KEY": "env-key-f",
    "OPENAI_ORG_ID": "env-key-g",
    "OPENAI_PROJECT_ID": "env-key-h",
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: env-key-i\nAuthorization: Bearer env-key-j",
    "OPENCODE_API_KEY": "env-key-k",
    "OLLAMA_API_KEY": "env-key-l",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")


def head(server: RawServer) -> str:
    (request,) = server.requests
    return request.partition(b"\r\n\r\n")[0].decode()


@pytest.mark.parametrize("name", NAMES)
async def test_another_server_is_sent_nothing_of_the_environment_and_its_401_names_the_setting(name: str) -> None:
    async with raw_server(UNAUTHORISED) as server:
        provider, _ = provider_for(name, base_url=server.url)
        with pytest.raises(AuthenticationFailed, match=r"no key was sent: name the key of this server with `key_variable`"):
            await provider.complete(REQUEST)

    assert "env-key" not in head(server)
    assert provider.has_key  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
async def test_another_server_is_sent_the_key_that_is_named_for_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVER_KEY", "named-key-0123456789")
    async with raw_server(UNAUTHORISED) as server:
        with pytest.raises(AuthenticationFailed, match="set a valid key"):
            await provider_for(name, base_url=server.url, key_variable="MY_SERVER_KEY")[0].complete(REQUEST)

    assert "named-key-0123456789" in head(server)
    assert "env-key" not in head(server)


async def test_a_key_that_is_named_and_not_set_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    provider, _ = provider_for("openai-chat:m", base_url="http://127.0.0.1:9/v1", key_variable="UNSET_KEY")

    assert not provider.has_key  # type: ignore[attr-defined]
    with pytest.raises(AuthenticationFailed, match="UNSET_KEY"):
        await provider.complete(REQUEST)


@pytest.mark.parametrize(
    ("name", "url", "is_sent"),
    [
        ("openai:m", None, True),
        ("openai-chat:m", "https://eu.api.openai.com/v1", True),
        ("openai-chat:m", "https://api.openai.com:443/v1/", True),
        ("anthropic:m", "https://api.anthropic.com", True),
        ("openai-chat:m", "http://api.openai.com/v1", False),
        ("openai-chat:m", "https://api.openai.com:8443/v1", False),
        ("openai-chat:m", "https://api.openai.com.example/v1", False),
        ("openai-chat:m", "https://notapi.openai.com/v1", False),
        ("anthropic:m", "https://api.openai.com", False),
        ("openai:m", "https://api.anthropic.com", False),
        ("zen:m", "https://opencode.ai/zen/v2", True),
        ("zen:m", "https://models.example/v1", False),
    ],
)
def test_only_the_host_of_the_vendor_has_its_key_and_its_prices(name: str, url: str | None, is_sent: bool) -> None:
    provider, _ = provider_for(name, base_url=url)

    assert (len(provider.account.split()) == 2) is is_sent
    if name.startswith("openai"):
        assert (provider.id == "openai") is (is_sent or name == "openai:m")


@each_dialect
async def test_a_redirect_is_not_followed(dialect: Dialect) -> None:
    async with raw_server(UNAUTHORISED) as other:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: {other.url}/v1\r\nContent-Length: 0\r\n\r\n".encode()
        async with raw_server(moved) as server:
            with pytest.raises(RequestRejected, match=f"status 307.*redirects to {other.url}/v1: correct base_url"):
                await dialect.make(server.url).complete(REQUEST)

    assert other.requests == []


async def test_a_real_server_is_sent_no_key_either(model_server: ModelServer) -> None:
    model_server.answers("hello", "Hi.")
    for name, url in (("anthropic:m", model_server.anthropic_url), ("openai:m", model_server.openai_url)):
        provider, _ = provider_for(name, base_url=url)
        request = ModelRequest(model="m", messages=(Message(role=Role.USER, text="hello"),))
        assert (await provider.complete(request)).message.text == "Hi."

    assert "env-key" not in str([request["headers"] for request in model_server.requests()])


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *((name, "localhost:8080/v1") for name in NAMES),
        ("openai-chat:m", "models.example/v1"),
        ("openai-chat:m", "ftp://models.example/v1"),
        ("openai-chat:m", "http://"),
        ("openai-chat:m", "http:///v1"),
        ("openai-chat:m", "http://models.example:port/v1"),
        ("openai-chat:m", "https://api.openai.com\\@models.example"),
        ("openai-chat:m", "https://models.example/v1?key=1"),
        ("openai-chat:m", "https://me:word@models.example/v1"),
        ("openai-chat:m", "http://models.example/v 1"),
        ("openai-chat:m", ""),
    ],
)
def test_an_address_that_is_none_is_refused_when_the_agent_is_made(name: str, url: str) -> None:
    with pytest.raises(
        HarnessMisuse, match=r"provider '.*': base_url: expected http://HOST:PORT/PATH or https://HOST"
    ) as told:
        provider_for(name, base_url=url)
    assert "word" not in str(told.value)
