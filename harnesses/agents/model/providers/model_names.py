"""Names of models, `provider:model`, and the providers that they name.

anthropic:…  claude:…         Anthropic's Messages
openai:…                      OpenAI's Responses
openai-chat:…                 Chat Completions of OpenAI, or of the server at `base_url`
ollama:…  local:…             the same of a server on this machine, by default Ollama's; no key
opencode-zen:…  zen:…         the same of OpenCode Zen
acme:…                        a provider of one's own: `register_provider("acme", "acme.models:provider")`
acme.models:provider:…        the same without registration
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

from attrs import frozen

from harnesses.agents.argument_checks import NAME, PATH, TEXT, check, optional
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.providers.credentials import Credential
from harnesses.agents.model.providers.response_stream import CallLimits
from harnesses.agents.model.providers.server_address import checked_url, is_served_by
from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import HarnessMisuse, near

ProviderFactory: TypeAlias = Callable[..., ModelProvider]
"""Makes a provider. It is called with those of `base_url`, `key` and `limits` that are given, by name."""
_HERE = "harnesses.agents.model.providers"


@frozen
class _Known:
    factory: str
    """`package.module:function`."""
    base_url: str | None = None
    key_variable: str | None = None
    needs_key: bool = True


_CHAT = f"{_HERE}.openai_chat_provider:OpenAIChatProvider"
_KNOWN: Mapping[str, _Known] = {
    "anthropic": _Known(f"{_HERE}.anthropic_provider:AnthropicProvider"),
    "openai": _Known(f"{_HERE}.openai_responses_provider:OpenAIResponsesProvider"),
    "openai-chat": _Known(_CHAT),
    "ollama": _Known(_CHAT, "http://127.0.0.1:11434/v1", "OLLAMA_API_KEY", needs_key=False),
    "opencode-zen": _Known(_CHAT, "https://opencode.ai/zen/v1", "OPENCODE_API_KEY"),
}
_ALIASES: Mapping[str, str] = {"claude": "anthropic", "local": "ollama", "zen": "opencode-zen"}
_own: dict[str, ProviderFactory | str] = {}


def register_provider(id: str, factory: ProviderFactory | str) -> None:
    """Give a provider of one's own a name, for this process.

    Args:
        factory: a `ProviderFactory`, or a reference to one: `package.module:function`.

    Raises:
        HarnessMisuse: the name is taken, or cannot be one.
    """
    if id in _KNOWN or id in _ALIASES:
        raise HarnessMisuse(f"provider {id!r}: expected a new name, got one of this package; choose another")
    if not id or "." in id or ":" in id or not id.isprintable():
        raise HarnessMisuse(f"provider {id!r}: expected a name without dots and colons; choose another")
    _own[id] = factory


def provider_for(
    name: str,
    *,
    base_url: str | None = None,
    key: Credential | None = None,
    key_file: Path | str | None = None,
    key_variable: str | None = None,
    limits: CallLimits | None = None,
) -> tuple[ModelProvider, str]:
    """Return the provider that `provider:model` names, and the provider's name of the model. Nothing is connected yet.

    Args:
        base_url: another server with the provider's protocol.
        key: the credential; or `key_file`, a file with it; or `key_variable`, the environment variable with it.
            Without any, the provider's own variable is read for the provider's own server; another one is sent no key.

    Raises:
        HarnessMisuse: the name or `base_url` is malformed, or no such provider is known.
    """
    given_by_name = {"base_url": (base_url, TEXT), "key_file": (key_file, PATH), "key_variable": (key_variable, NAME)}
    for what, (value, rule) in given_by_name.items():
        check(f"model {name!r}", what, value, optional(rule))
    if sum(given is not None for given in (key, key_file, key_variable)) > 1:
        raise HarnessMisuse(f"model {name!r}: expected one of key, key_file and key_variable, got several; drop the others")
    if key_file is not None:
        key = Credential.in_file(key_file)
    elif key_variable is not None:
        key = Credential.of(key_variable)
    given = {"base_url": base_url, "key": key, "limits": limits}
    id, model = split_name(name)
    options = {what: value for what, value in given.items() if value is not None}
    if id in _KNOWN:
        return _known(id, _KNOWN[id], options), model
    factory = _own.get(id, id)
    return _load(factory, f"model {name!r}")(**options), model


def split_name(name: str) -> tuple[str, str]:
    """Return the id of a provider, or the reference to one, and its name of the model. Nothing is imported.

    Raises:
        HarnessMisuse: the name is malformed, or no such provider is known.
    """
    id, _, model = name.partition(":")
    if "." in id:
        function, _, model = model.partition(":")
        id = f"{id}:{function}"
    id = _ALIASES.get(id, id)
    if not model.strip():
        raise HarnessMisuse(
            f"model {name!r}: expected provider:model, such as anthropic:claude-sonnet-5, got no model; name one"
        )
    if not model.isprintable() or " " in model:
        raise HarnessMisuse(f"model {name!r}: expected a name without spaces and line breaks, got {model!r}; correct it")
    if id not in _KNOWN and id not in _own and ":" not in id:
        known = (*_KNOWN, *_ALIASES, *_own)
        hint = near(id, known) or "; correct it, register it, or write package.module:function:MODEL"
        raise HarnessMisuse(f"model {name!r}: provider: expected one of {', '.join(known)}, got {id!r}{hint}")
    return id, model


def _known(id: str, known: _Known, options: dict[str, Any]) -> ModelProvider:
    if "base_url" in options:
        options["base_url"] = checked_url(options["base_url"], id)
    if known.base_url is not None:
        options = {"base_url": known.base_url, "id": id, **options}
        # Another server is not sent the key of the environment.
        is_own = is_served_by(options["base_url"], known.base_url)
        if known.key_variable is not None and "key" not in options and is_own:
            options = {"key": Credential.of(known.key_variable), "needs_key": known.needs_key, **options}
    return _load(known.factory, f"provider {id!r}")(**options)


def _load(factory: ProviderFactory | str, subject: str) -> ProviderFactory:
    if not isinstance(factory, str):
        return factory
    try:
        found: object = load_object(factory)
    except HarnessMisuse as error:
        raise HarnessMisuse(f"{subject}: {error}; correct the reference") from error
    if not callable(found):
        raise HarnessMisuse(
            f"{subject}: {factory}: expected a function that returns a provider, got {found!r:.100}; correct it"
        )
    return cast(ProviderFactory, found)
