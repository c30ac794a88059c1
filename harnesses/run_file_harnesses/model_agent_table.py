"""Reads a model agent from a table of a run file.

    agent = { model = "anthropic:claude-sonnet-4-5", tools = ["coding"] }
    agent = { model = "openai-chat:qwen3", base_url = "http://127.0.0.1:8080/v1", mcp = [{ command = ["mcp-server-git"] }] }

    model       `provider:model`, and the options of `ModelAgent`
    tools       "coding", "coding-read-only", or tables { function = "module:name" } for functions and tools of one's own
    mcp         tables, each the arguments of `McpServer`
    policy      allow, ask, deny: lists of patterns; otherwise = "ask"
    sandbox     as for a command
    cassette    a file of recorded answers, which is replayed unless there is a key for the model; or a table of
                { path = "…", mode = "replay" | "record" | "auto" } and what else `Cassette` takes
    answer      "module:Type", for a harness that wants a typed answer

Paths are relative to the file in which the table is written. All mistakes are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Unpack, cast

from harnesses.agents.chat.chat_policy import ChatPolicy
from harnesses.agents.chat.model_agent import AnyTool, ModelAgent, ModelAgentOptions
from harnesses.agents.model.cassette import Cassette, CassetteMode
from harnesses.agents.model.messages import ModelOptions
from harnesses.agents.model.model_client import ModelClient
from harnesses.agents.model.providers.client_names import client_for
from harnesses.agents.tools.coding_tools import coding_tools
from harnesses.agents.tools.mcp_server import McpServer
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.budgets.budget import Budget
from harnesses.diagnostics.extras import install_command
from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import near
from harnesses.run_file_harnesses.table_arguments import (
    FUNCTION,
    Kind,
    Reader,
    TableProblems,
    attempt,
    make_from,
    read_list,
    read_path,
    reader_of,
)

TOOLS: Mapping[str, Callable[[], Sequence[AnyTool]]] = {
    "coding": coding_tools,
    "coding-read-only": partial(coding_tools, read_only=True),
}
"""Ready-made tools by their names in a table."""
_TEXT, _TEXTS = reader_of(str), reader_of(list[str])
_EXTRAS = {"anthropic": "anthropic", "claude": "anthropic"}
"""Extras by provider; all others need `openai`."""


def make_model_agent(
    model: str,
    *,
    tools: Sequence[AnyTool] = (),
    mcp: Sequence[McpServer] = (),
    system: str = "",
    answer: Any = None,
    policy: ToolPolicy | None = None,
    budget: Budget | None = None,
    name: str = "model",
    **options: Unpack[ModelAgentOptions],
) -> ModelAgent:
    """Return a model agent; see `ModelAgent`.

    Args:
        mcp: MCP servers, whose tools are added.
    """
    return ModelAgent(
        model, tools=[*tools, *mcp], system=system, answer=answer, policy=policy, budget=budget, name=name, **options
    )


def _read_model(value: object, where: str, problems: TableProblems) -> str | None:
    name: str | None = _TEXT(value, where, problems)
    if name is None or attempt(lambda: client_for(name), where, problems) is None:
        return None
    return name


def _read_tools(value: object, where: str, problems: TableProblems) -> list[AnyTool]:
    found: list[AnyTool] = []
    if not isinstance(value, list):
        problems.add(where, f"expected a list of names and tables, got {value!r:.100}; write one")
        return found
    for number, one in enumerate(cast(list[object], value), 1):
        if isinstance(one, str):
            if one in TOOLS:
                found += TOOLS[one]()
            else:
                way_out = near(one, TOOLS) or "; correct it"
                problems.add(where, f"expected some of {', '.join(TOOLS)}, got {one!r:.100}{way_out}")
        elif isinstance(one, Mapping) and "function" in one:
            made = FUNCTION.read_table("function", cast(Mapping[str, object], one), f"{where} {number}", problems)
            if made is not None:
                found += cast("Sequence[AnyTool]", made) if isinstance(made, list | tuple) else [cast(AnyTool, made)]
        else:
            problems.add(where, f"{number}: expected a name, or a table with `function`, got {one!r:.100}; write one")
    return found


def _read_answer(value: object, where: str, problems: TableProblems) -> object:
    name: str | None = _TEXT(value, where, problems)
    return None if name is None else attempt(lambda: load_object(name), where, problems)


def _read_prices(value: object, where: str, problems: TableProblems) -> object:
    return cast(object, value) if isinstance(value, Mapping) else read_path(value, where, problems)


def _read_command(value: object, where: str, problems: TableProblems) -> list[str] | None:
    words: list[str] | None = _TEXTS(value, where, problems)
    return [str(problems.place(words[0])) if "/" in words[0] else words[0], *words[1:]] if words else words


_POLICY: Mapping[str, Reader] = {"allow": _TEXTS, "ask": _TEXTS, "deny": _TEXTS, "otherwise": _TEXT}
_SERVER: Mapping[str, Reader] = {
    "command": _read_command,
    "env": reader_of(dict[str, str]),
    "headers": reader_of(dict[str, str]),
}


_CASSETTE: Mapping[str, Reader] = {
    "path": read_path,
    "mode": _TEXT,
    "ignored": reader_of(dict[str, str]),
    "live": _TEXTS,
}


def _read_cassette(value: object, where: str, problems: TableProblems) -> Cassette | Path | None:
    if isinstance(value, Mapping):
        return make_from(Cassette, cast(object, value), where, problems, readers=_CASSETTE)
    return read_path(value, where, problems)


def model_kind(read_sandbox: Reader) -> Kind:
    """Return the kind of table that describes a model agent.

    Args:
        read_sandbox: reads the sandbox of its commands and servers.
    """
    readers: dict[str, Reader] = {
        "tools": _read_tools,
        "mcp": partial(read_list, partial(make_from, McpServer, readers=_SERVER)),
        "policy": partial(make_from, ToolPolicy, readers=_POLICY),
        "budget": partial(make_from, Budget),
        "answer": _read_answer,
        "fallback": reader_of(list[str | dict[str, str]]),
        "prices": _read_prices,
        "options": partial(make_from, ModelOptions, readers={"stop": reader_of(tuple[str, ...])}),
        "chat": partial(make_from, ChatPolicy),
        "sandbox": read_sandbox,
        "cassette": _read_cassette,
        **dict.fromkeys(("key_file", "directory"), read_path),
    }
    return Kind(make_model_agent, "model", _read_model, readers)


def missing_parts(table: Mapping[str, object]) -> Iterator[str]:
    """Yield a message for each model agent in a table that lacks its key, or the package of its provider."""
    for key, value in table.items():
        for one in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(one, Mapping):
                yield from _missing_of(cast(Mapping[str, object], one), key)
                yield from missing_parts(cast(Mapping[str, object], one))


def _missing_of(table: Mapping[str, object], where: str) -> Iterator[str]:
    model = table.get("model")
    if not isinstance(model, str):
        return
    given = {name: table[name] for name in ("base_url", "key_file", "key_variable") if isinstance(table.get(name), str)}
    client = attempt(lambda: client_for(model, **cast(Any, given)), where, TableProblems(""))
    if client is None:
        return
    cassette = table.get("cassette")
    records = isinstance(cassette, Mapping) and cast(Mapping[str, object], cassette).get("mode") == CassetteMode.RECORD
    yield from _missing(client, model, where, is_replayed=cassette is not None and not records)
    if table.get("mcp") and find_spec("mcp") is None:
        yield f"{where}: mcp: the package mcp is not installed: expected the extra `mcp`; run `{install_command('mcp')}`"


def _missing(client: ModelClient, model: str, where: str, *, is_replayed: bool) -> Iterator[str]:
    extra = _EXTRAS.get(model.partition(":")[0], "openai")
    has_key = all(getattr(provider, "has_key", True) for provider, _ in client.models)
    if not has_key and not is_replayed:
        problems = (getattr(provider, "key_problem", "") for provider, _ in client.models)
        of_file = next((problem for problem in problems if problem.startswith("key file")), "")
        yield f"{where}: model {model!r} has no key: {of_file or f'expected {_key_of(client)}; set it'}"
    if find_spec(extra) is None and (has_key or not is_replayed):
        yield f"{where}: model {model!r} needs {extra}: expected the extra `{extra}`; run `{install_command(extra)}`"


def _key_of(client: ModelClient) -> str:
    provider = next(provider for provider, _ in client.models if not getattr(provider, "has_key", True))
    name: str = getattr(provider, "key_name", "")
    return name if " " in name else f"{name} in the environment, `key_file` or `key_variable`".lstrip()
